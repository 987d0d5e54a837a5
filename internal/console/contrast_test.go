package console_test

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/console"
)

// Pairs of colors and their minimum contrast by WCAG AA: 4.5 for text, 3 for the edges of controls.
var contrasts = []struct {
	on, back string
	least    float64
}{
	{"text", "back", 4.5},
	{"text", "surface", 4.5},
	{"text", "hover", 4.5},
	{"text", "accent-soft", 4.5},
	{"text", "warn-soft", 4.5},
	{"muted", "back", 4.5},
	{"muted", "surface", 4.5},
	{"muted", "raised", 4.5},
	{"muted", "hover", 4.5},
	{"accent", "back", 4.5},
	{"accent", "surface", 4.5},
	{"accent", "raised", 4.5},
	{"on-accent", "accent", 4.5},
	{"good", "surface", 4.5},
	{"warn", "surface", 4.5},
	{"warn", "back", 4.5},
	{"bad", "surface", 4.5},
	{"bad", "back", 4.5},
	{"bad", "hover", 4.5},
	{"bad", "bad-soft", 4.5},
	{"surface", "bad", 4.5},
	{"back", "text", 4.5},
	{"edge", "surface", 3},
	{"edge", "back", 3},
}

func TestContrast(t *testing.T) {
	blocks := regexp.MustCompile(`(?s):root[^{]*\{.*?\}`).FindAllString(console.Theme(), -1)
	if len(blocks) != 3 {
		t.Fatalf("there are %d themes", len(blocks))
	}
	for i, theme := range []string{"light", "dark", "dark by the system"} {
		colors := map[string]float64{}
		for _, m := range regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6});`).FindAllStringSubmatch(blocks[i], -1) {
			colors[m[1]] = luminance(t, m[2])
		}
		for _, c := range contrasts {
			on, back := colors[c.on], colors[c.back]
			if got := (max(on, back) + 0.05) / (min(on, back) + 0.05); got < c.least {
				t.Errorf("%s: %s on %s has a contrast of %.2f, at least %.1f is needed", theme, c.on, c.back, got, c.least)
			}
		}
	}
	dark := func(block string) string { return strings.Join(strings.Fields(block[strings.Index(block, "{"):]), " ") }
	if dark(blocks[1]) != dark(blocks[2]) {
		t.Error("the dark theme that one chooses is another one than that of the system")
	}
}

// luminance returns the relative luminance of an sRGB color.
func luminance(t *testing.T, hex string) float64 {
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.03928 {
			sum += weight * c / 12.92
		} else {
			sum += weight * math.Pow((c+0.055)/1.055, 2.4)
		}
	}
	return sum
}
