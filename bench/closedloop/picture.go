package closedloop

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/penstock/penstock/internal/replay/chart"
	"github.com/penstock/penstock/leaky"
)

// Panel is one run in the picture.
type Panel struct {
	Title string
	Limit Limit
	Run   Run
}

const (
	panelWidth, panelHeight = 720, 150
	marginLeft, marginTop   = 50, 55
	perPanel                = panelHeight + 60

	limitColor, rateColor = chart.Given, chart.Passed
)

// Draw writes an SVG picture with the queue's rate and the receiver's limit over time.
func Draw(w io.Writer, panels []Panel) error {
	var b strings.Builder
	fmt.Fprintf(
		&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		panelWidth+marginLeft+20, perPanel*len(panels)+45,
	)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	fmt.Fprintf(
		&b,
		`<text x="%d" y="20"><tspan fill="%s">the receiver's limit</tspan>`+
			`<tspan dx="20" fill="%s">the queue's rate</tspan></text>`+"\n",
		marginLeft, limitColor, rateColor,
	)
	for i, p := range panels {
		p.draw(&b, i*perPanel+marginTop)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *Panel) draw(b *strings.Builder, top int) {
	allowed, most := make([]float64, len(p.Run.Rates)), 0.0
	for i, rate := range p.Run.Rates {
		allowed[i] = p.Limit(leaky.Instant(i) * second / 10)
		most = max(most, rate, allowed[i])
	}
	most = 10 * math.Ceil(most/10)
	bottom := top + panelHeight
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", marginLeft, top-10, p.Title)
	fmt.Fprintf(
		b, `<path d="M%d %dV%dH%d" fill="none" stroke="#888"/>`+"\n", marginLeft, top, bottom, marginLeft+panelWidth,
	)
	for _, part := range []float64{0, 0.5, 1} {
		y := float64(bottom) - part*panelHeight
		fmt.Fprintf(b, `<text x="%d" y="%.0f" text-anchor="end" fill="#555">%.3g/s</text>`+"\n", marginLeft-5, y+4, part*most)
		x := marginLeft + part*panelWidth
		fmt.Fprintf(
			b, `<text x="%.0f" y="%d" text-anchor="middle" fill="#555">%.0f s</text>`+"\n", x, bottom+16,
			part*float64(len(allowed))/10,
		)
	}
	line := func(values []float64, color string) {
		b.WriteString(`<path fill="none" stroke="` + color + `" stroke-width="1.5" d="`)
		letter := "M"
		for i := 0; i < len(values); i += 5 { // twice a second
			x := marginLeft + float64(i)/float64(len(values))*panelWidth
			fmt.Fprintf(b, "%s%.1f %.1f", letter, x, float64(bottom)-values[i]/most*panelHeight)
			letter = "L"
		}
		b.WriteString(`"/>` + "\n")
	}
	line(allowed, limitColor)
	line(p.Run.Rates, rateColor)
}
