package queue

import (
	"math"
	"testing"

	"github.com/penstock/penstock/leaky"
)

func TestGuaranteed(t *testing.T) {
	parent := func(rate leaky.Rate, weights, waiting int64) *Info {
		return &Info{Rate: rate, Waiting: waiting, Group: GroupInfo{Children: 2, Weights: weights}}
	}
	child := func(p *Info, rate leaky.Rate, weight int64) Info {
		return Info{Spec: Spec{Weight: weight}, Rate: rate, Parent: p}
	}
	fourteen := leaky.PerSecond(14)
	for _, tt := range []struct {
		what string
		i    Info
		want float64
		ok   bool
	}{
		{"a quarter", child(parent(fourteen, 4, 0), leaky.Rate{}, 0), 3.5, true},
		{"three quarters", child(parent(fourteen, 4, 0), leaky.Rate{}, 3), 10.5, true},
		{"capped by its own rate", child(parent(fourteen, 4, 0), leaky.PerSecond(2), 3), 2, true},
		{"a parent with jobs of its own", child(parent(fourteen, 6, 1), leaky.Rate{}, 3), 6, true},
		{"of no rate", child(parent(leaky.Rate{}, 4, 0), fourteen, 1), 0, false},
		{"no child", Info{Rate: fourteen}, 0, false},
	} {
		if got, ok := tt.i.Guaranteed(); math.Abs(got-tt.want) > 1e-9 || ok != tt.ok {
			t.Errorf("%s: %v, %v; want %v", tt.what, got, ok, tt.want)
		}
	}
}

func TestLaneGuaranteed(t *testing.T) {
	lanes := Lanes{Overrides: map[string]LaneRule{"gold": {Weight: 3}, "slow": {Rate: leaky.PerSecond(1)}}}
	i := Info{Spec: Spec{Lanes: lanes}, Rate: leaky.PerSecond(14), Lanes: 3, LaneWeights: 4}
	for key, want := range map[string]float64{"": 3.5, "other": 3.5, "gold": 10.5, "slow": 1} {
		if got, ok := i.LaneGuaranteed(key); math.Abs(got-want) > 1e-9 || !ok {
			t.Errorf("%q: %v, %v; want %v", key, got, ok, want)
		}
	}
	i.Rate = leaky.Rate{}
	if got, ok := i.LaneGuaranteed("gold"); ok {
		t.Errorf("without a rate: %v", got)
	}
	i.Parent = &Info{Rate: leaky.PerSecond(8), Group: GroupInfo{Weights: 2}}
	if got, ok := i.LaneGuaranteed("gold"); got != 3 || !ok {
		t.Errorf("in a child: %v, %v", got, ok)
	}
}
