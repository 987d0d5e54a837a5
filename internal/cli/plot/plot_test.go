package plot_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/penstock/penstock/internal/cli/plot"
)

func TestLines(t *testing.T) {
	diagonal := []plot.Point{{0, 0}, {1, 1}}
	for _, tt := range []struct {
		what    string
		braille bool
		points  []plot.Point
		pen     plot.Pen
		want    string
	}{
		{"a diagonal", false, diagonal, plot.Pen{Mark: '*'}, "   *|  * | *  |*   "},
		{"a diagonal of dots", true, diagonal, plot.Pen{}, "   ⡜|  ⡜ | ⡜  |⡜   "},
		{"every other dot", true, []plot.Point{{0, 0}, {1, 0}}, plot.Pen{Dotted: true}, "    |    |    |⡀⡀⡀⡀"},
		{"one point", false, diagonal[:1], plot.Pen{Mark: 'o'}, "    |    |    |o   "},
		{"none", true, nil, plot.Pen{}, "    |    |    |    "},
		{
			"outside", false,
			[]plot.Point{{-5, math.NaN()}, {math.Inf(1), -math.Inf(1)}},
			plot.Pen{Mark: '#'},
			"    |    |    |####",
		},
	} {
		c := plot.New(4, 4, tt.braille)
		c.Line(tt.points, tt.pen)
		if got := strings.Join(c.Rows(false), "|"); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}

func TestTextAndColor(t *testing.T) {
	c := plot.New(3, 1, true)
	c.Line([]plot.Point{{0, 0}, {0.5, 0}}, plot.Pen{Style: "32"})
	c.Under(0, 0, '|', "") // a line is there
	c.Under(2, 0, '|', "2")
	c.Write(1, 0, '1', "1")
	c.Write(3, 0, '!', "")
	c.Under(-1, 7, '!', "")
	if got, want := c.Rows(true), []string{"\x1b[0;32m⣀\x1b[0;1m1\x1b[0;2m|\x1b[0m"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := c.Rows(false)[0]; got != "⣀1|" || utf8.RuneCountInString(got) != 3 {
		t.Errorf("%q", got)
	}
}
