package queuecmd

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/wire"
)

var update = flag.Bool("update", false, "write the files in testdata again")

func TestMain(m *testing.M) {
	time.Local = time.UTC // the files in testdata have local times
	os.Exit(m.Run())
}

// golden compares a text with a file in testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s: run go test -run %s . -args -update if this is right:\n%s", path, t.Name(), text)
	}
}

var pictureNow = time.Date(2026, 5, 6, 14, 10, 0, 0, time.UTC)

func in(d time.Duration) *time.Time {
	at := pictureNow.Add(d)
	return &at
}

// pastOf returns the last 15 minutes of a queue: jobs arrive until 10 minutes ago, and 2 leave per second since then.
func pastOf(arrived int64) *wire.Curves {
	c := &wire.Curves{}
	for at := -15 * time.Minute; at < 0; at += 5 * time.Second {
		p := wire.CurvePoint{At: *in(at), Arrived: arrived}
		if at < -10*time.Minute {
			p.Arrived = arrived * int64(at+15*time.Minute) / int64(5*time.Minute)
		} else {
			p.Left = 2 * int64((at+10*time.Minute)/time.Second)
		}
		c.Points = append(c.Points, p)
	}
	return c
}

// pictured are forecasts and their past.
var pictured = map[string]foreseen{
	"lanes": {
		wire.QueueForecast{Now: pictureNow, FinishAt: in(1500 * time.Second), Bends: []wire.Bend{
			{At: *in(0), Remaining: 3200, Rate: 4, Why: "lane_rate"},
			{At: *in(100 * time.Second), Remaining: 2800, Rate: 2, Why: "lane_rate", Drained: "gmx.de"},
			{At: *in(1500 * time.Second), Drained: "gmail.com"},
		}, Unchanged: &wire.ForecastEnd{FinishAt: in(3000 * time.Second), Exact: true}}, pastOf(4390),
	},
	"quota": {
		wire.QueueForecast{Now: pictureNow, FinishAt: in(11 * time.Hour), Exact: true, Bends: []wire.Bend{
			{At: *in(0), Remaining: 900, Rate: 2, Why: "rate"},
			{
				At: *in(50 * time.Second), Remaining: 800, Why: "quota", Reason: "50000/d Europe/Berlin",
				Until: in(590 * time.Minute),
			},
			{At: *in(590 * time.Minute), Remaining: 800, Rate: 2, Why: "rate"},
			{At: *in(590 * time.Minute), Remaining: 790, Rate: 2, Why: "rate"},
			{At: *in(11 * time.Hour)},
		}}, pastOf(2090),
	},
	"never": {
		wire.QueueForecast{Now: pictureNow, Bends: []wire.Bend{
			{At: *in(0), Remaining: 123_456, Why: "paused", Reason: strings.Repeat("the provider is down ", 8)},
		}, Unchanged: &wire.ForecastEnd{}}, pastOf(124_646),
	},
	"empty": {
		wire.QueueForecast{Now: pictureNow, FinishAt: in(0), Bends: []wire.Bend{{At: *in(0)}}}, pastOf(1190),
	},
	"idle": {wire.QueueForecast{Now: pictureNow, FinishAt: in(0), Bends: []wire.Bend{{At: *in(0)}}}, &wire.Curves{}},
	"new": {
		wire.QueueForecast{Now: pictureNow, FinishAt: in(20 * time.Second), Bends: []wire.Bend{
			{At: *in(0), Remaining: 10, Rate: 0.5, Why: "rate"}, {At: *in(20 * time.Second)},
		}}, &wire.Curves{Points: []wire.CurvePoint{{At: *in(time.Second), Arrived: 10}}}, // its clock is ahead
	},
}

func TestPictures(t *testing.T) {
	for name, v := range pictured {
		for _, s := range []command.Screen{
			{Width: 80, Height: 24},
			{Width: 80, Height: 24, Unicode: true},
			{Width: 120, Height: 24},
			{Width: 120, Height: 24, Unicode: true},
		} {
			if s.Width > 80 && name != "lanes" {
				continue
			}
			set := "ascii"
			if s.Unicode {
				set = "braille"
			}
			text := v.onScreen(&s)
			golden(t, fmt.Sprintf("forecast-%s-%d-%s", name, s.Width, set), text)
			if !s.Unicode && strings.ContainsFunc(text, func(r rune) bool { return r > 0x7e }) {
				t.Errorf("%s: not ASCII:\n%s", name, text)
			}
		}
	}
}

// Colors change nothing but the color, and lines fit at any width.
func TestPicturesFit(t *testing.T) {
	for name, v := range pictured {
		for width := 20; width < 200; width += 7 {
			plain := command.Screen{Width: width, Unicode: true}
			colored := plain
			colored.Color = true
			lines := strings.Split(v.onScreen(&plain), "\n")
			for n, line := range strings.Split(v.onScreen(&colored), "\n") {
				if n >= len(lines) || show.Width(line) != utf8.RuneCountInString(lines[n]) {
					t.Fatalf("%s: colors change line %d: %q", name, n, line)
				}
				if width >= 80 && show.Width(line) > width {
					t.Errorf("%s at width %d: %q", name, width, line)
				}
			}
		}
	}
}

// A list that is too long for people ends with how many more there are.
func TestManyBends(t *testing.T) {
	v := foreseen{QueueForecast: wire.QueueForecast{Now: pictureNow, FinishAt: in(time.Hour)}}
	for n := range 64 {
		v.Bends = append(v.Bends, wire.Bend{
			At: *in(time.Duration(n) * time.Minute), Remaining: float64(64 - n), Rate: 1, Why: "lane_rate",
			Drained: fmt.Sprint("lane", n),
		})
	}
	s := command.Screen{Width: 80}
	text := v.onScreen(&s)
	const more = "and 44 more, the last at 15:13:00; -o json has all\n"
	if !strings.Contains(text, "\nj  19m0s") || !strings.Contains(text, more) {
		t.Error(text)
	}
}
