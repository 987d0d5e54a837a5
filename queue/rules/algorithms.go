package rules

import (
	"cmp"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
)

// algorithm describes an algorithm to rules. To add one, add its arithmetic to leaky and a row here. Unless a Meter
// implements it, also add a row to queue/redisq/algorithms.go and its Lua.
type algorithm struct {
	name    leaky.Algorithm
	limiter func(b *Bound) leaky.Limiter
	numbers []string // numbers it uses; those not in needed are optional
	unit    bool     // it counts a unit, which a rule must name, and takes are corrected
	// Maximum limit, burst and period; 0 means the one in leaky.
	maxLimit  int64
	maxBurst  int64
	maxPeriod time.Duration
	// moreBytes returns the maximum bytes of a key beyond keyBytes; nil means none.
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
		name:     leaky.AlgorithmBudget,
		limiter:  func(b *Bound) leaky.Limiter { return leaky.Allowance{Rate: b.Rate, Burst: b.Burst} },
		numbers:  []string{"rate", "burst"},
		unit:     true,
		maxBurst: leaky.MaxUnits,
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

// Algorithms returns the names of all algorithms.
func Algorithms() []leaky.Algorithm {
	names := make([]leaky.Algorithm, len(algorithms))
	for n, row := range algorithms {
		names[n] = row.name
	}
	return names
}

// algorithmOf returns the row of an algorithm, or the zero row.
func algorithmOf(a leaky.Algorithm) algorithm {
	for _, row := range algorithms {
		if row.name == a {
			return row
		}
	}
	return algorithm{}
}

// Numbers returns the names of the numbers of a Bound that an algorithm uses.
func Numbers(a leaky.Algorithm) []string { return algorithmOf(a).numbers }

// ForQueues reports whether queues can use rules of an algorithm: jobs never give back a place of concurrency, and
// never correct a budget.
func ForQueues(a leaky.Algorithm) bool {
	return a != leaky.AlgorithmConcurrency && !NeedsUnit(a)
}

// NeedsUnit reports whether rules of an algorithm must have a unit, in which takes then state their cost. Other rules
// must have none.
func NeedsUnit(a leaky.Algorithm) bool { return algorithmOf(a).unit }

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
