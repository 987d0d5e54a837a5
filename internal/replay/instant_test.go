package replay

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
)

// TestInstants reads times in many forms.
func TestInstants(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	const noon = 1_790_942_400_000_000 // 2026-10-02T12:00:00Z
	for _, c := range []struct {
		layout, text string
		want         leaky.Instant // -1 is an error
	}{
		{"", "2026-10-02T12:00:00Z", noon},
		{"", "2026-10-02T14:00:00.25+02:00", noon + 250_000},
		{"", "2026-10-02 14:00:00", noon},
		{"", "2026-10-02 14:00:00,5", noon + 500_000},
		{"", "2026-10-02 12:00:00 +0000", noon},
		{"", "2026-10-02 12:00:00 UTC", noon},
		{"", "2026-10-02T06:30:00-0530", noon},
		{"", "02/Oct/2026:12:00:00 +0000", noon},
		{"", "Fri, 02 Oct 2026 12:00:00 GMT", noon},
		{"", "1790942400", noon},
		{"", "1790942400.000001", noon + 1},
		{"", "1790942400.0000019", noon + 1},
		{"", "1790942400000", noon},
		{"", "1790942400000000", noon},
		{"unix", "179094240000", 179_094_240_000_000_000},
		{"unix_ms", "1790942400000.5", noon + 500},
		{"unix_us", "1790942400000000.9", noon},
		{"02.01.2006 15:04:05", "02.10.2026 14:00:00", noon},
		{"", "", -1},
		{"", "yesterday", -1},
		{"", "-5", -1},
		{"", "1e400", -1},
		{"", "99999999999999999999", -1},
		{"", "9223372036854775807", -1},
		{"", "1790942400.x", -1},
		{"", "1812-10-02T12:00:00Z", -1},
		{"", "2026-10-02 12:00:00 XYZ", -1},
		{"", "31/Feb/2026:12:00:00 +0000", -1},
		{"02.01.2006 15:04:05", "2026-10-02", -1},
	} {
		clock, err := newClock(c.layout, berlin)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time it is remembered
			at, err := clock.read([]byte(c.text))
			if c.want < 0 && err == nil || c.want >= 0 && (err != nil || at != c.want) {
				t.Errorf("%q: %d, %v; want %d", c.text, at, err, c.want)
			}
		}
	}
}

// TestCombinedInstant compares the fast reader with the general one.
func TestCombinedInstant(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 20_000 {
		at := time.Unix(r.Int64N(4_000_000_000)+86400, 0).In(time.FixedZone("", (r.IntN(57)-28)*1800))
		text := []byte(at.Format(combinedLayout))
		if got, ok := combinedInstant(text); !ok || got != leaky.Instant(at.UnixMicro()) {
			t.Fatalf("%s: %d, %v", text, got, ok)
		}
		text[r.IntN(len(text))] = byte(r.IntN(128))
		got, ok := combinedInstant(text)
		want, err := time.Parse(combinedLayout, string(text))
		if ok && (err != nil || got != leaky.Instant(want.UnixMicro())) && !strings.Contains(string(text), ":60 ") {
			t.Fatalf("%q: %d, but %v, %v", text, got, want, err)
		}
	}
}
