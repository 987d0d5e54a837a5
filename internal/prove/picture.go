package prove

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// rows is the height of a picture; taller columns are cut off.
const rows = 6

var blocks = []rune(" ▁▂▃▄▅▆▇█")

// Picture draws arrivals over time. Each column is a slice of the run, and its height the number of arrivals. A line
// marks the expected number, and the letters beneath are faults.
func (r *Report) Picture(width int) string {
	span := r.ended - r.started
	width = min(max(width-12, 20), 100)
	if span <= 0 || len(r.arrivals) == 0 {
		return "nothing arrived\n"
	}
	// Each column needs many arrivals, or the picture would mainly show rounding.
	interval := float64(span) / math.Max(1, float64(r.Pace.Starts))
	width = min(width, max(10, int(float64(span)/interval/5)))
	slice := float64(span) / float64(width)
	counts := make([]float64, width)
	for _, at := range r.arrivals {
		if i := int(float64(at-r.started) / slice); at >= r.started && i < width {
			counts[i]++
		}
	}
	expected := r.expected(time.Duration(slice))
	// The expected height is two thirds of the picture, so that an excess is visible.
	scale := float64(rows) * 2 / 3 / expected
	var b strings.Builder
	for row := rows - 1; row >= 0; row-- {
		label, line := "", ' '
		if float64(row) < expected*scale && expected*scale <= float64(row+1) {
			label, line = r.Rate, '·'
		}
		fmt.Fprintf(&b, "%10s ", label)
		for _, n := range counts {
			fill := n*scale - float64(row)
			switch {
			case fill <= 0:
				b.WriteRune(line)
			default:
				b.WriteRune(blocks[int(math.Round(min(fill, 1)*8))])
			}
		}
		b.WriteString("\n")
	}
	if marks := r.markLine(width, slice); marks != "" {
		fmt.Fprintf(&b, "%10s %s\n", r.Faults, marks)
	}
	for _, l := range r.Levels {
		if l.Kind == "queue" && r.Children > 0 {
			fmt.Fprintf(&b, "%10s %s %s\n", strings.TrimPrefix(l.Name, r.Queue+"."), r.row(l.arrivals, width, slice), l.Rate)
		}
	}
	end := fmt.Sprintf("%v", span.Round(time.Second))
	fmt.Fprintf(
		&b, "%10s 0%s%s  (a column is %v)\n", "", strings.Repeat(" ", max(1, width-1-len(end))), end,
		time.Duration(slice).Round(time.Millisecond),
	)
	return b.String()
}

// row draws arrivals in one line. The highest mark is the greatest number in any slice.
func (r *Report) row(arrivals []time.Duration, width int, slice float64) string {
	counts, most := make([]float64, width), 1.0
	for _, at := range arrivals {
		if i := int(float64(at-r.started) / slice); at >= r.started && i < width {
			counts[i]++
			most = max(most, counts[i])
		}
	}
	line := make([]rune, width)
	for i, n := range counts {
		line[i] = blocks[int(math.Ceil(n/most*8))]
	}
	return string(line)
}

// expected returns the number of starts in a slice at the configured rate.
func (r *Report) expected(slice time.Duration) float64 {
	return math.Max(r.perSecond*slice.Seconds(), 1e-9)
}

func (r *Report) markLine(width int, slice float64) string {
	if len(r.marks) == 0 {
		return ""
	}
	line := []rune(strings.Repeat(" ", width))
	for _, m := range r.marks {
		if i := int(float64(m.At-r.started) / slice); i >= 0 && i < width {
			line[i] = []rune(strings.ToUpper(string(m.Fault)))[0]
		}
	}
	return strings.TrimRight(string(line), " ")
}
