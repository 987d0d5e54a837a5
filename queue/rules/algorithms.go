package rules

import (
	"cmp"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
)

// algorithm is what a rule needs to know of one. To add one: its arithmetic in leaky, a row here, and unless it is a
// Meter, a row in queue/redisq/algorithms.go and its Lua.
type algorithm struct {
	name    leaky.Algorithm
	limiter func(b *Bound) leaky.Limiter
	numbers []string // that it goes by, of which those that are not in needed may be left out
	// The bounds of a limit and a period; 0 are those of leaky.
	maxLimit  int64
	maxPeriod time.Duration
	// moreBytes is what a key takes at most beyond keyBytes; nil if nothing.
	moreBytes func(b *Bound) int64
}

var algorithms = []algorithm{
	{
		name:    leaky.AlgorithmMeter,
		limiter: func(b *Bound) leaky.Limiter { return leaky.Meter{Rate: b.Rate, Burst: b.Burst} },
		numbers: []string{"rate", "burst"},
	},
	{
		name:    leaky.AlgorithmTokenBucket,
		limiter: func(b *Bound) leaky.Limiter { return leaky.TokenBucket{Rate: b.Rate, Capacity: b.Burst} },
		numbers: []string{"rate", "burst"},
	},
	{
		name:    leaky.AlgorithmFixedWindow,
		limiter: func(b *Bound) leaky.Limiter { return leaky.FixedWindow{Max: b.Limit, Period: b.Period.D()} },
		numbers: []string{"limit", "period"},
	},
	{
		name: leaky.AlgorithmSlidingLog,
		limiter: func(b *Bound) leaky.Limiter {
			return leaky.SlidingLog{Max: b.Limit, Period: b.Period.D(), Resolution: b.Resolution.D()}
		},
		numbers: []string{"limit", "period", "resolution"},
		moreBytes: func(b *Bound) int64 {
			entries := min(b.Limit, leaky.MaxEntries)
			if b.Resolution > 0 {
				entries = min(entries, int64(b.Period/b.Resolution)+1)
			}
			return (entries - 1) * entryBytes
		},
	},
	{
		name:    leaky.AlgorithmSlidingCounter,
		limiter: func(b *Bound) leaky.Limiter { return leaky.SlidingCounter{Max: b.Limit, Period: b.Period.D()} },
		numbers: []string{"limit", "period"},
	},
	{
		name:      leaky.AlgorithmGap,
		limiter:   func(b *Bound) leaky.Limiter { return leaky.Gap{Least: b.Period.D()} },
		numbers:   []string{"period"},
		maxPeriod: leaky.MaxInterval,
	},
	{
		name:      leaky.AlgorithmConcurrency,
		limiter:   func(b *Bound) leaky.Limiter { return leaky.Concurrency{Max: b.Limit, TTL: b.TTL.D()} },
		numbers:   []string{"limit", "ttl"},
		maxLimit:  leaky.MaxEntries,
		moreBytes: func(b *Bound) int64 { return (b.Limit - 1) * placeBytes },
	},
}

// Algorithms are the names of all algorithms.
func Algorithms() []leaky.Algorithm {
	names := make([]leaky.Algorithm, len(algorithms))
	for n, row := range algorithms {
		names[n] = row.name
	}
	return names
}

// algorithmOf returns the row of an algorithm; that of none is empty.
func algorithmOf(a leaky.Algorithm) algorithm {
	for _, row := range algorithms {
		if row.name == a {
			return row
		}
	}
	return algorithm{}
}

// Numbers names the numbers of a Bound that an algorithm goes by.
func Numbers(a leaky.Algorithm) []string { return algorithmOf(a).numbers }

// Limiter returns the arithmetic of a bound.
func (b Bound) Limiter(a leaky.Algorithm) (leaky.Limiter, error) {
	row := algorithmOf(a)
	if row.limiter == nil {
		return nil, invalid.Errorf("algorithm", string(a), "must be one of %v", Algorithms())
	}
	return row.limiter(&b), nil
}

func (b *Bound) normalize(a leaky.Algorithm) {
	if slices.Contains(Numbers(a), "burst") {
		b.Burst = cmp.Or(b.Burst, 1)
	}
}
