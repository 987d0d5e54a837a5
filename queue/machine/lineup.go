package machine

import (
	"bytes"
	"time"

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
	l.Due = q.due()
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
	last := ln.waiting.front()
	if f := &ln.waiting.low; f.n > 0 {
		last = f.at(f.n - 1)
	}
	return n * int64(ln.waiting.front().cost+last.cost) / 2
}

// due returns the scheduled jobs in at most queue.MaxDue steps.
func (q *queueState) due() (steps []queue.DueJobs) {
	n := int64(q.scheduled.len())
	rank := int64(0)
	for ls := range q.scheduled.from(func(*lease) bool { return true }) {
		if step := int64(len(steps)); rank == step*n/min(n, queue.MaxDue) {
			jobs := (step+1)*n/min(n, queue.MaxDue) - rank
			steps = append(steps, queue.DueJobs{
				At: ls.due.Time(), Lane: ls.job.lane.digest, Jobs: jobs, Cost: jobs * int64(ls.job.cost),
			})
		}
		rank++
	}
	return steps
}

// siblings returns the other members of the queue's group that have jobs to let out.
func (q *queueState) siblings(now leaky.Instant) (list []queue.Sibling) {
	g := q.group
	if g == nil {
		return nil
	}
	for _, members := range []*heap[*queueState]{&g.ready, &g.resting} {
		for m := range members.all {
			if m == q || m.counts[queue.Waiting] == 0 {
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
	s := queue.Sibling{Waiting: n, Cost: q.costBounds(0, false).ahead(n, q.gap(q.turn))}
	if !q.isParent() {
		s.Rate, s.Burst, s.Bucket = q.pacer.Rate, q.pacer.Burst, q.bucket
	}
	return s
}
