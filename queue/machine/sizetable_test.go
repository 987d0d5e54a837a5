package machine_test

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"testing"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/penstock/penstock/internal/replay/chart"
)

// tookTimes counts durations, in buckets of a sixteenth of an octave.
type tookTimes struct {
	buckets [64 * 16]int64
	n       int64
}

func (h *tookTimes) add(d time.Duration) {
	h.n++
	h.buckets[bucketOf(uint64(max(d, 0)))]++
}

// bucketOf is exact below 32 ns; above that the four bits behind the first one count.
func bucketOf(ns uint64) int {
	if ns < 32 {
		return int(ns)
	}
	octave := bits.Len64(ns) - 5
	return octave<<4 + int(ns>>octave)
}

// quantile returns the middle of the bucket of a quantile.
func (h *tookTimes) quantile(part float64) time.Duration {
	left := int64(part * float64(h.n))
	for i, n := range h.buckets {
		if left -= n; left < 0 {
			if i < 32 {
				return time.Duration(i)
			}
			octave := i>>4 - 1
			return time.Duration(i-octave<<4)<<octave + 1<<octave/2
		}
	}
	return 0
}

// operation is what is timed.
type operation int

const (
	opPut operation = iota
	opAppend
	opReserve
	opSettle
	opDelete
	opSweep
	operations
)

// timedOperations are the operations that are shown.
var timedOperations = []struct {
	operation
	name, colour string
}{
	{opPut, "put", "#7b4ea3"},
	{opAppend, "append", chart.Passed},
	{opReserve, "reserve", chart.Refused},
	{opSettle, "settle", "#2f855a"},
	{opDelete, "delete", chart.Given},
}

// sizeRow is the result for a number of queues or lanes.
type sizeRow struct {
	alive int
	// Bytes each: created, with a waiting job, idle again, and left behind when all are gone.
	memory, withJob, idleAgain, left float64
	took                             [operations]tookTimes
}

type sizeTable struct {
	of   string
	rows []sizeRow
}

// add adds a row, and logs it.
func (s *sizeTable) add(r sizeRow) {
	s.rows = append(s.rows, r)
	progress("%s\n%s", s.of, (&sizeTable{of: s.of, rows: []sizeRow{r}}).markdown())
}

func (s *sizeTable) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | bytes of each, with a job, idle again |", s.of)
	for _, o := range timedOperations {
		fmt.Fprintf(&b, " %s |", o.name)
	}
	b.WriteString("\n|" + strings.Repeat("---|", 2+len(timedOperations)) + "\n")
	for i := range s.rows {
		r := &s.rows[i]
		fmt.Fprintf(&b, "| %s | %.0f, %.0f, %.0f |", humanize.Comma(int64(r.alive)), r.memory, r.withJob, r.idleAgain)
		for _, o := range timedOperations {
			if h := &r.took[o.operation]; h.n > 0 {
				fmt.Fprintf(&b, " %.3g, %.3g |", micros(h.quantile(0.5)), micros(h.quantile(0.99)))
			} else {
				b.WriteString(" |")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// The maximum size of a queue, and of a lane with a job, and of what is left when it is gone: the machine's own tables
// of earlier ones.
const (
	mostQueueBytes = 1250
	mostLaneBytes  = 500
	mostLeftBytes  = 32
)

func (s *sizeTable) check(t *testing.T) {
	for _, r := range s.rows {
		if r.alive < 10_000 { // the test's own memory would dominate
			continue
		}
		if r.memory > mostQueueBytes || r.idleAgain > mostQueueBytes || r.memory == 0 && r.withJob > mostLaneBytes ||
			r.left > mostLeftBytes {
			t.Errorf("%d %s take %.0f B each, %.0f with a job, %.0f when idle again, and leave %.0f", r.alive, s.of, r.memory,
				r.withJob, r.idleAgain, r.left)
		}
	}
}

// Both axes are logarithmic: from 1,000 to 10,000,000 of them, and from 100 ns to 10 ms.
const (
	sizePanelWidth, sizePanelHeight = 300, 260
	sizeLeft, sizeTop               = 60, 60
	sizeStride                      = sizePanelWidth + 90
	leastNanos, mostNanos           = 100, 10e6
	leastAlive, mostAlive           = 1e3, 1e7
)

// drawSizes draws how long operations take by the number of queues or lanes.
func drawSizes(tables ...sizeTable) []byte {
	var b strings.Builder
	fmt.Fprintf(
		&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		sizeStride*len(tables)+20, sizeTop+sizePanelHeight+70,
	)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	fmt.Fprintf(&b, `<text x="%d" y="20">`, sizeLeft)
	for _, o := range timedOperations {
		fmt.Fprintf(&b, `<tspan dx="10" fill="%s">%s</tspan>`, o.colour, o.name)
	}
	b.WriteString(`<tspan dx="20">median; dashed, the 99th of 100</tspan></text>` + "\n")
	for i := range tables {
		tables[i].draw(&b, sizeLeft+i*sizeStride)
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

func (s *sizeTable) draw(b *strings.Builder, left int) {
	bottom := sizeTop + sizePanelHeight
	x := func(alive float64) float64 {
		return float64(left) + sizePanelWidth*math.Log(alive/leastAlive)/math.Log(mostAlive/leastAlive)
	}
	y := func(nanos float64) float64 {
		nanos = min(max(nanos, leastNanos), mostNanos)
		return float64(bottom) - sizePanelHeight*math.Log(nanos/leastNanos)/math.Log(mostNanos/leastNanos)
	}
	fmt.Fprintf(b, `<path d="M%d %dV%dH%d" fill="none" stroke="#888"/>`+"\n", left, sizeTop, bottom, left+sizePanelWidth)
	for i, name := range []string{"100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms"} {
		fmt.Fprintf(b, `<text x="%d" y="%.0f" text-anchor="end" fill="#555">%s</text>`+"\n", left-5,
			y(leastNanos*math.Pow10(i))+4, name)
	}
	for i := range s.rows {
		r := &s.rows[i]
		for line, text := range []string{
			humanize.Comma(int64(r.alive)), humanize.Comma(int64(math.Round(max(r.memory, r.withJob)))) + " B",
		} {
			fmt.Fprintf(b, `<text x="%.0f" y="%d" text-anchor="middle" fill="#555">%s</text>`+"\n", x(float64(r.alive)),
				bottom+16+16*line, text)
		}
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">%s, and the memory of each with a job</text>`+"\n",
		left+sizePanelWidth/2, bottom+54, s.of)
	for _, o := range timedOperations {
		for dashes, part := range []float64{0.5, 0.99} {
			var points []string
			for i := range s.rows {
				if h := &s.rows[i].took[o.operation]; h.n > 0 {
					points = append(points, fmt.Sprintf("%.1f %.1f", x(float64(s.rows[i].alive)), y(float64(h.quantile(part)))))
				}
			}
			if len(points) > 0 {
				fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-width="1.5" stroke-dasharray="%d" d="M%s"/>`+"\n", o.colour,
					4*dashes, strings.Join(points, "L"))
			}
		}
	}
}
