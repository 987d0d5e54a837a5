package leaky

import "math/bits"

// Histogram counts costs by size, the recent ones more than the older ones. Sizes are grouped in buckets, eight for
// each power of two, so that the bounds of a bucket are at most an eighth apart. The zero value has counted nothing. A
// Histogram is never changed: Add returns another one.
//
// It is packed: for each bucket that has counts, in order, its number and its count, 1 and 2 bytes. Each cost counts
// costWeight. At mostWeight in total, all counts are halved. So the oldest have faded after 4,000 costs.
type Histogram string

const (
	costWeight  = 64
	mostWeight  = 512 * costWeight
	bucketBytes = 3
	// exactBelow is the first cost that shares its bucket with another one.
	exactBelow = 16
)

// bucketOf returns the bucket of a cost, from 0 to MaxUnits.
func bucketOf(cost int64) byte {
	if cost < exactBelow {
		return byte(max(0, cost))
	}
	shift := bits.Len64(uint64(cost)) - 4
	return byte(8*shift + int(cost>>shift))
}

// mostIn returns the greatest cost in a bucket.
func mostIn(bucket byte) int64 {
	if bucket < exactBelow {
		return int64(bucket)
	}
	shift := bucket/8 - 1
	return min(MaxUnits, int64(bucket-8*shift+1)<<shift-1)
}

func (h Histogram) countAt(i int) int { return int(h[i+1])<<8 | int(h[i+2]) }

// weight returns the sum of all counts.
func (h Histogram) weight() (sum int) {
	for i := 0; i < len(h); i += bucketBytes {
		sum += h.countAt(i)
	}
	return sum
}

// Costs returns how many costs the histogram stands for, after older ones have faded.
func (h Histogram) Costs() int { return h.weight() / costWeight }

// Add returns the histogram with one more cost.
func (h Histogram) Add(cost int64) Histogram {
	bucket, shift := bucketOf(cost), 0
	if h.weight()+costWeight >= mostWeight {
		shift = 1
	}
	out, added := make([]byte, 0, len(h)+bucketBytes), false
	put := func(bucket byte, count int) {
		if count >>= shift; count > 0 {
			out = append(out, bucket, byte(count>>8), byte(count))
		}
	}
	for i := 0; i < len(h); i += bucketBytes {
		count := h.countAt(i)
		switch {
		case h[i] == bucket:
			count, added = count+costWeight, true
		case h[i] > bucket && !added:
			put(bucket, costWeight)
			added = true
		}
		put(h[i], count)
	}
	if !added {
		put(bucket, costWeight)
	}
	return Histogram(out)
}

// Quantile returns a cost that at least so many percent of the costs do not exceed: the greatest of its bucket. It is 0
// if nothing was counted.
func (h Histogram) Quantile(percent int) int64 {
	need, sum := (h.weight()*percent+99)/100, 0
	for i := 0; i < len(h); i += bucketBytes {
		if sum += h.countAt(i); sum >= need {
			return mostIn(h[i])
		}
	}
	return 0
}

// Valid reports whether a text is a Histogram that Add may have returned.
func (h Histogram) Valid() bool {
	if len(h)%bucketBytes != 0 {
		return false
	}
	for i := 0; i < len(h); i += bucketBytes {
		if h[i] > bucketOf(MaxUnits) || h.countAt(i) == 0 || i > 0 && h[i] <= h[i-bucketBytes] {
			return false
		}
	}
	return h.weight() < mostWeight
}
