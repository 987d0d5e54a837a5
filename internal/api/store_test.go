package api

import (
	"slices"
	"testing"

	"github.com/penstock/penstock/queue"
)

// A drainer's share is of what all were granted, and a lone one's is all.
func TestDrainerShares(t *testing.T) {
	for _, c := range []struct{ outflow, share []float64 }{
		{nil, nil},
		{[]float64{0}, []float64{1}},
		{[]float64{3}, []float64{1}},
		{[]float64{3, 1, 0}, []float64{.75, .25, 0}},
		{[]float64{0, 0}, []float64{-1, -1}}, // none is told
	} {
		var seen queue.Drainers
		for _, outflow := range c.outflow {
			seen.Seen = append(seen.Seen, queue.Drainer{Outflow: outflow})
		}
		var got []float64
		for _, d := range shownDrainers(&seen).Drainers {
			share := -1.
			if d.Share != nil {
				share = *d.Share
			}
			got = append(got, share)
		}
		if !slices.Equal(got, c.share) {
			t.Errorf("of %v the shares are %v, want %v", c.outflow, got, c.share)
		}
	}
}
