package leaky

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Buckets are in order, without gaps, and an eighth wide at most.
func TestBuckets(t *testing.T) {
	last := int64(-1)
	for bucket := range int(bucketOf(MaxUnits)) + 1 {
		most := mostIn(byte(bucket))
		if most <= last || bucketOf(last+1) != byte(bucket) || bucketOf(most) != byte(bucket) {
			t.Fatalf("bucket %d is from %d to %d", bucket, last+1, most)
		}
		if least := last + 1; least > 0 && float64(most-least) > float64(least)/8 {
			t.Errorf("bucket %d is from %d to %d", bucket, least, most)
		}
		last = most
	}
	if last != MaxUnits {
		t.Errorf("the last bucket ends at %d", last)
	}
}

// histogramOracle keeps the weight of each cost, as a number that is halved.
type histogramOracle struct{ weights map[byte]int }

func (o *histogramOracle) add(cost int64) {
	o.weights[bucketOf(cost)] += costWeight
	sum := 0
	for _, w := range o.weights {
		sum += w
	}
	if sum >= mostWeight {
		for b := range o.weights {
			o.weights[b] /= 2
		}
	}
}

// quantile lists every count by its bucket's greatest cost.
func (o *histogramOracle) quantile(percent int) int64 {
	var all []int64
	for b, w := range o.weights {
		for range w {
			all = append(all, mostIn(b))
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[int(math.Ceil(float64(len(all))*float64(percent)/100-1e-9))-1]
}

// A histogram has the quantiles of a list of all that it counts, and bounds the true quantile while nothing has faded.
func TestHistogramQuantiles(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		var h Histogram
		o := histogramOracle{map[byte]int{}}
		var costs []int64
		center, spread := r.Float64()*18, r.Float64()*2
		for range 1000 {
			if r.IntN(400) == 0 {
				center = r.Float64() * 18
			}
			cost := int64(min(MaxUnits, math.Exp(center+spread*r.NormFloat64())))
			h = h.Add(cost)
			o.add(cost)
			costs = append(costs, cost)
			if !h.Valid() || h.weight() >= mostWeight || len(h) > bucketBytes*224 {
				t.Fatalf("%q is invalid", h)
			}
			if r.IntN(20) > 0 {
				continue
			}
			sorted := slices.Clone(costs)
			slices.Sort(sorted)
			for _, percent := range []int{50, 90, 95, 99} {
				got := h.Quantile(percent)
				if want := o.quantile(percent); got != want {
					t.Fatalf("seed %d: p%d of %d costs is %d, want %d", seed, percent, len(costs), got, want)
				}
				if len(costs) >= 512 {
					continue
				}
				exact := sorted[(len(sorted)*percent+99)/100-1]
				if got < exact || got > exact+exact/8 || h.Costs() != len(costs) {
					t.Fatalf("seed %d: p%d of %d costs is %d, exactly %d", seed, percent, len(costs), got, exact)
				}
			}
		}
	}
}

// What was counted long ago fades.
func TestHistogramFades(t *testing.T) {
	var h Histogram
	for range 10_000 {
		h = h.Add(MaxUnits)
	}
	for range 256 {
		h = h.Add(0)
	}
	if got := h.Quantile(50); got != 0 {
		t.Errorf("the median is %d", got)
	}
	for range 4000 {
		h = h.Add(7)
	}
	if got := h.Quantile(100); got != 7 || len(h) != bucketBytes {
		t.Errorf("the maximum is %d, of %d buckets", got, len(h)/bucketBytes)
	}
}

func TestHistogramValid(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "\x05\x00\x40": true, "\x05\x00\x40\x06\x00\x01": true,
		"\x05": false, "\x05\x00\x00": false, "\x05\x00\x40\x05\x00\x40": false, "\x06\x00\x40\x05\x00\x40": false,
		"\x05\xff\xff": false, "\xff\x00\x40": false,
	} {
		if got := Histogram(text).Valid(); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if got := Histogram("").Quantile(99); got != 0 {
		t.Error(got)
	}
}
