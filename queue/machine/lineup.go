package machine

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Lineup returns a queue and what waits in it.
func (m *Machine) Lineup(now leaky.Instant, name string) (l queue.Lineup, err error) {
	q, err := m.liveQueue(name)
	if err != nil {
		return l, err
	}
	for ln := range q.waitingLanes(queue.LaneDigest{}) {
		if len(l.Lanes) == queue.MaxLineupLanes {
			break
		}
		l.Lanes = append(l.Lanes, ln.state(now, m.ahead()))
	}
	l.Due, l.Flight = q.due(), q.endedJobs.flight(q.spec.Retention, now)
	for _, s := range q.siblings(now) {
		s.ToWall(m.ahead())
		l.Siblings = append(l.Siblings, s)
	}
	l.Info = m.infoWithParent(q, now)
	return l, nil
}

// Lanes returns a page of the lanes of a queue that have waiting jobs. Errors: queue.ErrUnknownQueue, an
// *invalid.Error.
func (m *Machine) Lanes(now leaky.Instant, r queue.LanesRequest) (p queue.LanesPage, err error) {
	q, err := m.liveQueue(r.Queue)
	if err == nil {
		err = r.Validate()
	}
	if err != nil {
		return p, err
	}
	for ln := range q.waitingLanes(r.After) {
		if len(p.Lanes) == r.Limit {
			p.More = true
			break
		}
		s := ln.state(now, m.ahead())
		s.Key = ln.key
		p.Lanes = append(p.Lanes, s)
	}
	return p, nil
}

// waitingLanes yields the lanes with waiting jobs after a digest, the lane without a key first.
func (q *queueState) waitingLanes(after queue.LaneDigest) func(yield func(*lane) bool) {
	return func(yield func(*lane) bool) {
		if after == (queue.LaneDigest{}) && !q.defaultLane.noneWaits() && !yield(q.defaultLane) {
			return
		}
		for ln := range q.laneOrder.from(func(ln *lane) bool { return bytes.Compare(ln.digest[:], after[:]) > 0 }) {
			if !ln.noneWaits() && !yield(ln) {
				return
			}
		}
	}
}

// state returns a lane for clients, without its key.
func (ln *lane) state(now leaky.Instant, ahead time.Duration) queue.LaneState {
	s := queue.LaneState{LaneInfo: ln.info(now), Digest: ln.digest, Cost: ln.waitingCost()}
	s.ToWall(ahead)
	return s
}

// waitingCost returns the cost of the waiting jobs. It is exact while turns tell it, or else estimated from the first
// and the last job.
func (ln *lane) waitingCost() int64 {
	q, n := ln.queue, int64(ln.waiting.len())
	switch {
	case n == 0 || q.maxCost <= 1:
		return n
	case q.plain && !ln.keyed():
		return q.costBounds(0, false).ahead(n, q.gap(q.turn))
	}
	return n * int64(ln.waiting.front().cost+ln.waiting.back().cost) / 2
}

// due returns the scheduled jobs in at most queue.MaxDue steps.
func (q *queueState) due() (steps []queue.DueJobs) {
	n := q.scheduled.len()
	many := min(n, queue.MaxDue)
	for step := range many {
		rank := step * n / many
		ls, jobs := q.scheduled.at(rank), int64((step+1)*n/many-rank)
		steps = append(steps, queue.DueJobs{
			At: ls.due.Time(), Lane: ls.job.lane.digest, Jobs: jobs, Cost: jobs * int64(ls.job.cost),
		})
	}
	return steps
}

// flight returns how long the jobs delivered last were in flight, on average; 0 if that is not known.
func (e *endedJobs) flight(r queue.Retention, now leaky.Instant) (mean time.Duration) {
	jobs, length := time.Duration(0), e.others.len()
	for i := max(0, length-queue.MaxFlights); i < length; i++ {
		if d := e.others.at(i); d.departed != 0 && e.byID[d.id] == d && !tooOld(d, r, now) {
			jobs, mean = jobs+1, mean+max(0, d.at.Sub(d.departed))
		}
	}
	return mean / max(1, jobs)
}

// siblings returns the other members of the queue's group that have jobs to let out. Of pull children it returns those
// whose clients wait.
func (q *queueState) siblings(now leaky.Instant) (list []queue.Sibling) {
	g := q.group
	if g == nil {
		return nil
	}
	for _, members := range []*heap[*queueState]{&g.ready, &g.resting, &g.claims} {
		for m := range members.all {
			if m == q || m.spec.Pull && !m.hasClients(now) || m.counts[queue.Waiting] == 0 {
				continue
			}
			if len(list) == queue.MaxSiblings {
				return list
			}
			list = append(list, m.asSibling(now))
		}
	}
	return list
}

func (q *queueState) asSibling(now leaky.Instant) queue.Sibling {
	n := q.counts[queue.Waiting]
	s := queue.Sibling{Waiting: n, Weight: q.spec.Share(), Cost: q.costBounds(0, false).ahead(n, q.gap(q.turn))}
	if !q.isParent() {
		s.Rate, s.Burst, s.Bucket = q.pacer.Rate, q.pacer.Burst, q.bucket
	}
	return s
}

// fewLanes is how many lanes are followed one by one. Of more lanes, those whose taps are about the same are one pool.
const fewLanes = 64

// kind is what lanes of a pool have in common, rounded.
type kind struct {
	rate, credit, opens, cost float64
	burst, weight             float64
	hours                     queue.Hours
}

// addLanes adds the lanes with waiting jobs. apart are lanes to follow on their own.
func (c *forecaster) addLanes(apart map[queue.LaneDigest]bool) {
	waiting, lanes := c.lineup.Waiting, c.lineup.Info.Lanes
	pools := map[kind]int{}
	for n := range c.lineup.Lanes {
		ln := &c.lineup.Lanes[n]
		if ln.Waiting == 0 {
			continue
		}
		waiting, lanes = waiting-ln.Waiting, lanes-1
		p := c.newPool(ln.Digest, &ln.LaneInfo, float64(ln.Cost)/float64(ln.Waiting))
		end := laneEnd{float64(ln.Cost), 1, n}
		if len(c.lineup.Lanes) > fewLanes && !apart[ln.Digest] {
			k := p.kind()
			if at, known := pools[k]; known {
				c.pools[at].add(end)
				continue
			}
			pools[k] = len(c.pools)
		} else {
			c.poolOf[ln.Digest] = len(c.pools)
		}
		p.add(end)
		c.pools = append(c.pools, p)
	}
	if waiting > 0 && lanes > 0 && int64(len(c.lineup.Lanes)) >= queue.MaxLineupLanes {
		p := c.newPool(queue.LaneDigest{1}, &queue.LaneInfo{}, c.cost)
		p.add(laneEnd{float64(waiting) * c.cost / float64(lanes), float64(lanes), -1})
		c.pools = append(c.pools, p)
	}
	for i := range c.pools {
		slices.SortFunc(c.pools[i].ends, func(a, b laneEnd) int { return cmp.Compare(a.depth, b.depth) })
	}
}

func (p *pool) kind() kind {
	round := func(v float64) float64 { // to a sixteenth of an octave
		if v <= 0 || v >= inf {
			return v
		}
		return math.Exp2(math.Round(math.Log2(v)*16) / 16)
	}
	k := kind{
		rate: round(p.rate), burst: p.burst, weight: p.weight, opens: math.Ceil(p.opens), cost: round(p.jobCost),
		credit: p.credit,
	}
	if p.hours != nil {
		k.hours = p.rules
	}
	if p.credit < inf {
		k.credit = math.Round(p.credit / p.jobCost)
	}
	return k
}

// newPool returns an empty lane.
func (c *forecaster) newPool(digest queue.LaneDigest, state *queue.LaneInfo, cost float64) pool {
	if a := c.appended; a.Jobs > 0 && digest == queue.DigestLane(a.Lane) {
		waiting, appended := float64(state.Waiting), float64(a.Jobs)
		cost = (waiting*cost + appended*float64(max(1, a.Cost))) / (waiting + appended)
	}
	rule, own := c.rules[digest]
	if !own && digest != (queue.LaneDigest{}) {
		rule = c.spec.Lanes.LaneRule
	}
	p := pool{
		tap: c.tap(rule.Pacer(), state.Bucket, cost, verdict{by: cause.LaneRate}), jobCost: cost,
		weight: float64(rule.Share()),
	}
	c.limitLane(&p.tap, &rule, state, cost)
	most, by := rule.MaxInFlight, cause.LaneMaxInFlight
	if c.spec.Ordered {
		most, by = 1, cause.Ordered
	}
	if most > 0 && c.lineup.Flight > 0 {
		if t := c.places(most, most-(state.Size-state.Waiting), cost, by); t.rate < p.rate {
			p.tap = t
		}
	}
	p.rests = p.rate < inf && p.burst < 2*cost
	if !state.Stop.IsZero() {
		p.opens = state.Stop.Sub(c.lineup.Now).Seconds()
	}
	if rule.Hours.On() {
		s, _ := rule.Hours.Schedule("hours") // the spec is valid
		p.hours, p.rules = c.hours(s), rule.Hours
		p.shuts = verdict{by: cause.LaneHours, reason: rule.Hours.String()}
	}
	return p
}

// pool returns the pool of a lane, new for jobs of that cost if it has no waiting jobs.
func (c *forecaster) pool(digest queue.LaneDigest, cost float64) int {
	n, known := c.poolOf[digest]
	if !known {
		n = len(c.pools)
		c.poolOf[digest] = n
		state := queue.LaneInfo{}
		if digest == queue.DigestLane(c.appended.Lane) {
			state = c.appended.State
		}
		c.pools = append(c.pools, c.newPool(digest, &state, cost))
	}
	return n
}

// limitLane adds the limits of a lane to its tap, which then has the slowest rate, and the least burst and credit.
func (c *forecaster) limitLane(t *tap, rule *queue.LaneRule, state *queue.LaneInfo, cost float64) {
	for n, of := range rule.Limits.List() {
		l, _ := newLimit(of, nil, c.now) // only quotas can fail
		if n < len(state.Limits) {
			l.setShown(state.Limits[n])
		}
		own := c.budgetTap(&l, cost, verdict{by: cause.LaneRate, reason: of.String()})
		if t.rate == inf {
			*t = own
			continue
		}
		waits := max((cost-own.credit)/own.rate, (cost-t.credit)/t.rate)
		burst := min(own.burst, t.burst)
		if own.rate < t.rate {
			*t = own
		}
		t.burst, t.credit = burst, min(burst, cost-waits*t.rate)
	}
}
