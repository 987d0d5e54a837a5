package machine_test

import (
	"fmt"
	"math"
	"strings"

	"github.com/dustin/go-humanize"
)

// Both axes are logarithmic: from 1,000 to 10,000,000 of them, and from 100 ns to 10 ms.
const (
	sizePanelWidth, sizePanelHeight = 300, 260
	sizeLeft, sizeTop               = 60, 60
	sizeStride                      = sizePanelWidth + 90
	leastNanos, mostNanos           = 100, 10e6
	leastAlive, mostAlive           = 1e3, 1e7
)

// drawSizes draws how long operations take by how many queues or lanes there are.
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
