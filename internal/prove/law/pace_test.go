package law_test

import (
	"testing"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/leaky"
)

func TestMeasure(t *testing.T) {
	// A grid of 10 ms with one start 3 ms late and two slots lost.
	at := []time.Duration{0, 10 * ms, 23 * ms, 30 * ms, 60 * ms, 70 * ms}
	p := law.Measure(leaky.PerSecond(100), at)
	if p.Starts != 6 || p.Span != 70*ms || p.LostSlots != 2 {
		t.Errorf("starts %d, span %v, lost %d", p.Starts, p.Span, p.LostSlots)
	}
	if p.GapErrorMax != 20*ms || p.GapErrorP50 != 3*ms {
		t.Errorf("gap error p50 %v, max %v", p.GapErrorP50, p.GapErrorMax)
	}
	if p.ShortGaps != 0.2 {
		t.Errorf("short gaps %v", p.ShortGaps)
	}
	if p.LatenessMax != 3*ms || p.LatenessP50 != 0 {
		t.Errorf("lateness p50 %v, max %v", p.LatenessP50, p.LatenessMax)
	}
	if p.Share < 0.71 || p.Share > 0.72 {
		t.Errorf("share %v, want 5/7", p.Share)
	}
}

func TestMeasureFewStarts(t *testing.T) {
	if p := law.Measure(leaky.PerSecond(100), nil); p.Starts != 0 || p.Rate != 0 {
		t.Errorf("%+v", p)
	}
	if p := law.Measure(leaky.Unlimited, []time.Duration{0, 1, 2}); p.Starts != 3 || p.LostSlots != 0 {
		t.Errorf("%+v", p)
	}
	if p := law.Measure(leaky.PerSecond(100), []time.Duration{5, 5}); p.Rate != 0 || p.ShortGaps != 1 {
		t.Errorf("%+v", p)
	}
}

func TestQuantile(t *testing.T) {
	d := []time.Duration{1, 2, 3, 4}
	for q, want := range map[float64]time.Duration{0: 1, 0.25: 1, 0.5: 2, 0.51: 3, 0.99: 4, 1: 4} {
		if got := law.Quantile(d, q); got != want {
			t.Errorf("q%v = %d, want %d", q, got, want)
		}
	}
	if law.Quantile(nil, 0.5) != 0 {
		t.Error("a quantile of an empty list")
	}
}
