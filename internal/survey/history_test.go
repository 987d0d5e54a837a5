package survey

import (
	"math"
	"testing"
)

// A rate that is unlimited for a part of a step has no value there, and the mean is of the other values alone.
func TestMeanWithoutMissingValues(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		values []float64
		mean   float64
	}{
		{[]float64{10, 20}, 15},
		{[]float64{nan, 10, 20}, 15},
		{[]float64{10, nan, nan, 20}, 15},
		{[]float64{nan, nan}, nan},
	} {
		var h history
		at := clock{coarse: 1}
		for n, v := range c.values {
			var s sample
			s[rate], at.fine = v, int64(n)
			h.add(&at, s)
		}
		if got := h.presentRough[rate]; got != c.mean && !(got != got && c.mean != c.mean) {
			t.Errorf("%v: the mean is %v, want %v", c.values, got, c.mean)
		}
	}
}
