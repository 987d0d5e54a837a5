package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/unit"
)

const (
	simSlack    = 5 * time.Millisecond
	simLeaseFor = 2 * time.Second
)

var (
	simRates = []leaky.Rate{
		leaky.PerSecond(14), leaky.PerSecond(100), leaky.PerSecond(3), leaky.PerSecond(1000), leaky.Unlimited,
	}
	simLanes   = []string{"l0", "l1", "l2", "l3", "l4"}
	simBatches = []string{"b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"} // more than fit
)

const simMaxBatches = 3

// Jobs that state their tokens cost up to simMaxTokens; others are charged simTokens, or what was learned of the actual
// costs, which may be higher.
const simMaxTokens, simTokens = 60, 20

// simSpecs are a single queue with a burst, and queues with lanes, ordered lanes, jobs that are not sent twice, further
// limits, limits of tokens, also of lanes, hours, a ramp with hours, rules, an overflow (two), and a group.
var simSpecs = []func(*queue.Spec){
	func(s *queue.Spec) { s.Name, s.Rate, s.Burst = "alone", leaky.PerSecond(100), 3 },
	func(s *queue.Spec) { s.Name, s.Rate = "lanes", leaky.PerSecond(14) },
	func(s *queue.Spec) { s.Name, s.Rate, s.Ordered = "ordered", leaky.PerSecond(50), true },
	func(s *queue.Spec) { s.Name, s.Rate, s.OnUnknown = "once", leaky.PerSecond(40), queue.UnknownHold },
	func(s *queue.Spec) {
		s.Name, s.Rate = "limits", leaky.Unlimited
		s.Limits = []queue.Limit{{Rate: leaky.PerSecond(30), Burst: 5}, {Quota: queue.Quota{Max: 60, Per: "m"}}}
	},
	func(s *queue.Spec) {
		s.Name, s.Rate = "metered", leaky.PerSecond(500)
		s.Limits = []queue.Limit{
			{Unit: "tokens", Rate: leaky.PerSecond(300), Burst: 2 * simMaxTokens},
			{Unit: "tokens", Quota: queue.Quota{Max: 9000, Per: "m"}},
		}
		s.Lanes.Limits = queue.LimitLane(
			queue.Limit{Unit: "tokens", Rate: leaky.PerSecond(70), Burst: 2 * simMaxTokens},
			queue.Limit{Unit: "tokens", Rate: leaky.PerSecond(200), Burst: simMaxTokens},
		)
		s.Estimate = map[string]queue.Estimate{"tokens": {Default: simTokens, Learn: "p90"}}
	},
	func(s *queue.Spec) {
		s.Name, s.Rate, s.Burst = "timed", leaky.PerSecond(20), 4
	},
	simRamped,
	func(s *queue.Spec) {
		s.Name, s.Rate, s.Rules = "limited", leaky.PerSecond(40), []string{"limited.meter", "limited.log"}
	},
	func(s *queue.Spec) {
		s.Name, s.Rate, s.Rules, s.Overflow = "waits", leaky.PerSecond(30), []string{"waits.meter"}, queue.Defer
		s.Deferred = queue.Deferral{LowWater: 0.5, MaxJobs: 100}
	},
	func(s *queue.Spec) {
		s.Name, s.Rate, s.Overflow = "late", leaky.PerSecond(10), queue.Defer
		s.Deferred = queue.Deferral{MaxAge: unit.Duration(3 * time.Second), LowWater: 0.9, MaxJobs: 20}
	},
	func(s *queue.Spec) { s.Name, s.Rate = "group", leaky.PerSecond(30) },
	func(s *queue.Spec) { s.Name, s.Rate = "group.a", leaky.PerSecond(20) },
	func(s *queue.Spec) { s.Name, s.Rate = "group.b", leaky.Unlimited },
}

// simHours are each second minute of an hour, from the one in which the world begins or from the next, and then all.
func simHours(first int) queue.Hours {
	span := func(from, to int) string {
		at := func(minute int) string { return noon.Time().Add(time.Duration(minute) * time.Minute).Format("15:04") }
		return at(from) + "-" + at(to)
	}
	open := []string{span(55, 23*60)}
	for minute := first; minute < 54; minute += 2 {
		open = append(open, span(minute, minute+1))
	}
	return queue.OpenHours{Open: queue.ListOf(open...)}.Hours()
}

// simQueue is what the world knows of a queue. It must hold that
//
//   - it never holds more than its capacity or, if that was lowered, more than it held before
//   - starts keep the window law of its rate and of its limits: in tokens, by their charges or, if that is less, by
//     what they used
//   - nothing starts outside its hours
//   - its counters of what came in and ended match what is there
type simQueue struct {
	spec     queue.Spec
	number   int
	isParent bool
	parent   *simQueue
	overflow *simOverflow // nil if it defers no jobs
	ramp     *simRamp     // nil if it has none
	lanes    map[string]*simLane
	keyed    bool  // its jobs have lanes
	held     int64 // when that was checked last
	own      *queueState
	ownOf    *Machine
	// All starts, and the starts that the quota or the hours count, by the store's clock.
	starts, metered []law.Start
	tokens          []*simTokenUse
	since           leaky.Instant // earlier starts belong to another segment
	windowsSince    leaky.Instant // windows before this are unknown
	maxCost         int64

	endedAtCheck int64
	blurred      bool // since the last look, more jobs may have ended than it remembers
}

func newSimQueues(s *simulation) (list []*simQueue) {
	byName := map[string]*simQueue{}
	for i, set := range simSpecs {
		q := &simQueue{number: i, maxCost: 1, lanes: map[string]*simLane{}}
		q.spec = queue.Spec{Capacity: s.Int64N(60) + 1, Slack: unit.Duration(simSlack), Lease: unit.Duration(simLeaseFor)}
		q.spec.Retry.MaxAttempts, q.spec.Circuit.Slow = s.IntN(4)+1, unit.Duration(time.Second)
		if s.IntN(2) == 0 {
			q.spec.Retention.Max = 300
		}
		if set(&q.spec); q.spec.Name == "timed" || q.spec.Name == "ramped" {
			q.spec.Hours = simHours(s.IntN(2))
		}
		q.spec.Normalize()
		q.ramp = newSimRamp(&q.spec)
		q.keyed = q.spec.Name == "lanes" || q.spec.Ordered || q.spec.Name == "limited"
		if q.spec.Overflow == queue.Defer {
			q.overflow = &simOverflow{of: q, strays: map[uint64]int64{}}
		}
		byName[q.spec.Name] = q
		list = append(list, q)
		if p := byName[names.Parent(q.spec.Name)]; p != nil {
			p.isParent, q.parent = true, p
		}
	}
	return list
}

// lane is that of a key.
func (q *simQueue) lane(key string) *simLane {
	if q.lanes[key] == nil {
		q.lanes[key] = &simLane{}
	}
	return q.lanes[key]
}

// own returns the store's state of a queue; nil while it is deleted.
func (s *simulation) own(q *simQueue) *queueState {
	if q.own == nil || q.ownOf != s.store.Machine || !q.own.live {
		q.own, q.ownOf = s.store.queues[q.spec.Name], s.store.Machine
	}
	return q.own
}

// size returns how many jobs a queue holds according to the store.
func (s *simulation) size(q *simQueue) int64 {
	if own := s.own(q); own != nil {
		return int64(len(own.jobs))
	}
	return 0
}

// checkCapacity checks every queue after a step.
func (s *simulation) checkCapacity() {
	for _, q := range s.queues {
		own := s.own(q)
		if own == nil {
			continue
		}
		n := int64(len(own.jobs))
		if n > max(own.spec.Capacity, q.held) {
			s.fail("%s holds %d of %d", q.spec.Name, n, own.spec.Capacity)
		}
		q.held = n
	}
}

// checkCounts compares the counters of each queue with its jobs.
func (s *simulation) checkCounts() {
	for _, q := range s.queues {
		own := s.own(q)
		if own == nil {
			continue
		}
		c := own.allCounters()
		in := c.Balance()
		if q.overflow != nil {
			in += q.overflow.strays[own.number]
		}
		if in != own.size()+own.counts[queue.Deferred] || own.size() != int64(len(own.jobs)) {
			s.fail("%s has %d jobs and %d deferred, of a size of %d, and by its counters %d: %+v", q.spec.Name,
				len(own.jobs), own.counts[queue.Deferred], own.size(), in, c)
		}
	}
}

// checkBatches checks that the counts of each batch add up to its jobs.
func (s *simulation) checkBatches() {
	for _, q := range s.queues {
		own := s.own(q)
		if own == nil || own.batches == nil {
			continue
		}
		set, remain, deferred, older := own.batches, map[*batch]int64{}, map[*batch]int64{}, map[*batch]int64{}
		for _, j := range own.jobs {
			if b := set.ofJob[j.seq]; b != nil {
				remain[b]++
			}
		}
		for n := range set.ofDeferral {
			if b := own.batchOfDeferral(n); b != nil {
				remain[b]++
				if deferred[b]++; n <= own.overflow.progress.olderUpTo {
					older[b]++
				}
			}
		}
		finished := 0
		for _, b := range set.byLabel {
			if b.remain() != remain[b] || b.deferred != deferred[b] || b.olderDeferred != older[b] ||
				(b.ended != 0) != (remain[b] == 0) || b.dead < 0 || b.accepted < 0 || b.missing < 0 {
				s.fail("%s: %d jobs of batch %s remain, %d deferred, %d of the older generation; its record is %+v",
					q.spec.Name, remain[b], b.label, deferred[b], older[b], *b)
			}
			if delete(remain, b); b.ended != 0 {
				finished++
			}
		}
		if len(remain) > 0 || finished != set.finished.len() || len(set.byLabel) > simMaxBatches {
			s.fail("%s: %d batches, %d finished of %d, jobs of forgotten ones: %v", q.spec.Name, len(set.byLabel), finished,
				set.finished.len(), remain)
		}
	}
}

// unfinished reports whether a queue or its overflow holds a job.
func (s *simulation) unfinished() bool {
	return slices.ContainsFunc(s.queues, func(q *simQueue) bool {
		return s.size(q) > 0 || q.overflow != nil && len(q.overflow.messages)+q.overflow.under > 0
	})
}

func (s *simulation) describeQueues() (text string) {
	for _, q := range s.queues {
		if o := q.overflow; o != nil && len(o.messages)+o.under > 0 {
			text += fmt.Sprintf("%d of %s on the overflow, and %d on their way; ", len(o.messages), q.spec.Name, o.under)
		}
		if own := s.own(q); own != nil && len(own.jobs) > 0 {
			c := own.counts
			text += fmt.Sprintf("%s: %d waiting, %d scheduled, %d leased, %d held; ", q.spec.Name, c[queue.Waiting],
				c[queue.Scheduled], c[queue.Leased], c[queue.Held])
		}
	}
	return text
}
