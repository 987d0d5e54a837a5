package unit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/queue/unit"
)

func TestDurationAsText(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond,
	} {
		var d unit.Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || d.D() != want {
			t.Errorf("%s: %v, %v", text, d, err)
		}
		var back unit.Duration
		if b, err := d.MarshalText(); err != nil || back.UnmarshalText(b) != nil || back != d {
			t.Errorf("%s came back as %v, %v", text, back, err)
		}
	}
	for _, text := range []string{"", "30", "soon", "1 h", strings.Repeat("9", 100_000)} {
		var d unit.Duration
		if err := d.UnmarshalText([]byte(text)); err == nil || len(err.Error()) > 200 {
			t.Errorf("%.20q: %v, %.200v", text, d, err)
		}
	}
}
