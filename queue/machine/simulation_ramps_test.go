package machine

import (
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// simRamp is what the world knows of a quota per minute with a ramp that holds. It counts departures and minutes, and
// shares no arithmetic with the engine. It must hold that
//
//   - in no minute more departs than its step: the n-th one, if something departed in n-1 minutes before
//   - the engine's maximum is that step, and what it counts is no less than what departed
//
// The queue is closed each second minute, which must not count. A grant that is neither started nor returned in its
// minute may count as a departure or not. So may a minute whose rest was too little for the next job, which forfeits
// it.
type simRamp struct {
	steps   []int64
	minutes []*simMinute // minutes with a granted departure
	of      map[simGrant]*simMinute
	anew    bool // the clock went back so far that minutes may be repeated
}

// simMinute is a minute of the store's wall clock in which a departure was granted.
type simMinute struct {
	number  int64
	most    int64
	least   int64 // is the maximum at least
	started int64 // cost of the jobs that started
	granted int64 // cost of all grants
	open    int   // grants that were not returned
	// repeated says that the engine may count this minute and the next one as one: it was told of an earlier time, or
	// the queue was deleted.
	repeated bool
}

// simGrant is a departure of a job.
type simGrant struct {
	job   *simJob
	fence fence
}

// simMaxCost is the highest cost of a job.
const simMaxCost = 3

var simRampSteps = []int64{4, 6, 9, 14, 20, 30}

func simRamped(s *queue.Spec) {
	s.Name, s.Rate, s.Burst = "ramped", leaky.PerSecond(20), 2
	s.Limits = []queue.Limit{{
		Quota: queue.Quota{Max: simRampSteps[0], Per: "m"},
		Ramp:  queue.Ramp{Steps: queue.StepsOf(simRampSteps...), Idle: queue.RampHold},
	}}
}

// newSimRamp returns nil for a queue without a ramp.
func newSimRamp(s *queue.Spec) *simRamp {
	if len(s.Limits) != 1 || !s.Limits[0].Ramp.On() {
		return nil
	}
	return &simRamp{steps: simRampSteps, of: map[simGrant]*simMinute{}}
}

func simMinuteOf(wall leaky.Instant) int64 { return int64(wall) / time.Minute.Microseconds() }

// step returns the maximum of the minute after n minutes in which something left.
func (r *simRamp) step(n int) int64 { return r.steps[min(n, len(r.steps)-1)] }

// reserved notes what was granted, as soon as it is decided: a grant counts even if its answer is lost.
func (s *simulation) reserved(jobs []granted) {
	for i := range jobs {
		j := s.job(jobs[i].job.id)
		r, key := j.of.ramp, simGrant{j, jobs[i].fence}
		if r == nil || r.of[key] != nil {
			continue // a repeated request gets it again
		}
		n := simMinuteOf(s.store.wall(jobs[i].departs))
		last := r.last()
		if last == nil || last.number != n || r.anew {
			if last != nil && n < last.number && !r.anew {
				s.fail("%s leaves in minute %d, and minute %d is used", j, n, last.number)
			}
			last = &simMinute{number: n, most: r.step(used(r.minutes)), least: r.step(surely(r.minutes))}
			r.minutes, r.anew = append(r.minutes, last), false
		}
		r.of[key] = last
		last.open++
		last.granted += j.Cost
	}
}

// used returns in how many minutes something departed, or may have.
func used(minutes []*simMinute) (n int) {
	for _, m := range minutes {
		if m.open > 0 || m.granted+simMaxCost > m.least {
			n++
		}
	}
	return n
}

// surely returns in how many minutes something departed.
func surely(minutes []*simMinute) (n int) {
	for _, m := range minutes {
		if m.started > 0 && !m.repeated {
			n++
		}
	}
	return n
}

// returns returns the minute to which a settlement returns an unused departure, which then does not count. It is the
// latest minute, or nil.
func (r *simRamp) returns(c *simSettle) *simMinute {
	if r == nil || r.anew || !c.valid || c.Verdict != queue.Release && !c.Unused {
		return nil
	}
	if m := r.of[simGrant{c.job, c.fence}]; m == r.last() {
		return m
	}
	return nil
}

// rampsRestart notes that a process died or goes on from its disk, which knows nothing of returned departures.
func (s *simulation) rampsRestart() {
	for _, q := range s.queues {
		if q.ramp != nil && q.ramp.last() != nil {
			q.ramp.last().open++
		}
	}
}

func (r *simRamp) last() *simMinute {
	if len(r.minutes) == 0 {
		return nil
	}
	return r.minutes[len(r.minutes)-1]
}

// startedUnder notes that a job started.
func (s *simulation) startedUnder(r *simRamp, j *simJob, f fence) {
	if r == nil {
		return
	}
	m := r.of[simGrant{j, f}]
	if m == nil {
		s.fail("%s starts, and was not granted", j)
		return
	}
	if m.started += j.Cost; m.started > m.most {
		s.fail("%s: %d started in minute %d, %d may", j.Queue, m.started, m.number, m.most)
	}
}

// rampsGoBack notes that the wall clock jumped back. While it shows the minute before the last used one, nothing
// leaves. If it is earlier, minutes come again.
func (s *simulation) rampsGoBack() {
	for _, q := range s.queues {
		if r := q.ramp; r != nil && r.last() != nil && simMinuteOf(s.at+s.jumped) < r.last().number-1 {
			r.anew, r.last().repeated = true, true
		}
	}
}

// gone notes that a queue was deleted. Its ramp may begin again.
func (r *simRamp) gone() {
	if r != nil {
		r.anew = true
		for _, m := range r.minutes {
			m.repeated = true
		}
	}
}

// checkRamps compares what the engine says of ramps with the minutes in which something left.
func (s *simulation) checkRamps(now leaky.Instant) {
	for _, q := range s.queues {
		r := q.ramp
		if r == nil || r.anew || s.own(q) == nil {
			continue
		}
		i, err := s.store.Get(now, q.spec.Name)
		if err != nil {
			s.fail("%s: %v", q.spec.Name, err)
			return
		}
		i.Now = s.store.wall(now).Time()
		said, _ := i.QuotaState(0)
		n, before, started := simMinuteOf(s.store.wall(now)), r.minutes, int64(0)
		if last := r.last(); last != nil && last.number > n {
			continue // granted ahead
		} else if last != nil && last.number == n {
			before, started = before[:len(before)-1], last.started
		}
		least, most := surely(before), used(before)
		if said.Max < r.step(least) || said.Max > r.step(most) || said.Used < started {
			s.fail("%s: %d of %d are used in minute %d, and %d started; something left in %d to %d minutes before",
				q.spec.Name, said.Used, said.Max, n, started, least, most)
		}
	}
}
