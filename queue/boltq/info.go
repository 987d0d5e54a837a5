package boltq

import (
	"context"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// readable returns why nothing can be read, or nil. A store that failed can still be read.
func (e *Engine) readable(ctx context.Context) error {
	if e.closing {
		return queue.ErrClosed
	}
	return ctx.Err()
}

// liveQueue returns the queue of that name, unless that is only being created.
func (m *machine) liveQueue(name string) (*queueState, error) {
	if q := m.queues[name]; q != nil && q.live {
		return q, nil
	}
	return nil, unknownQueue(name)
}

// Get implements queue.Specs.
func (e *Engine) Get(ctx context.Context, name string) (queue.Info, error) {
	e.lock()
	defer e.unlock()
	if err := e.readable(ctx); err != nil {
		return queue.Info{}, err
	}
	now := e.now() // even if the call fails, a caller may have seen this time
	q, err := e.liveQueue(name)
	if err != nil {
		return queue.Info{}, err
	}
	return e.infoWithParent(q, now), nil
}

// Lane implements queue.Specs.
func (e *Engine) Lane(ctx context.Context, name, key string) (queue.Info, queue.LaneInfo, error) {
	e.lock()
	defer e.unlock()
	if err := e.readable(ctx); err != nil {
		return queue.Info{}, queue.LaneInfo{}, err
	}
	if err := queue.ValidateLane(key); err != nil {
		return queue.Info{}, queue.LaneInfo{}, err
	}
	now := e.now()
	q, err := e.liveQueue(name)
	if err != nil {
		return queue.Info{}, queue.LaneInfo{}, err
	}
	ln := q.lane(key, queue.DigestLane(key))
	lane := queue.LaneInfo{Waiting: int64(ln.waiting.len())}
	if ln.keyed() {
		lane.Held, lane.Bytes = ln.size, ln.bytes
	}
	var p leaky.Pacer
	lane.Bucket, p, _ = ln.pacing(now, now)
	if stop := ln.stopsUntil(now); stop > now {
		lane.Stop = stop.Time()
	} else if stop != 0 && !p.Rate.Unlimited() {
		lane.Bucket = p.Rise(lane.Bucket, stop)
	}
	return e.infoWithParent(q, now), lane, nil
}

// List implements queue.Specs.
func (e *Engine) List(ctx context.Context, after string, limit int) ([]queue.Info, error) {
	e.lock()
	defer e.unlock()
	if err := e.readable(ctx); err != nil {
		return nil, err
	}
	now := e.now()
	from, found := slices.BinarySearch(e.queueNames, after)
	if found {
		from++
	}
	to := min(len(e.queueNames), from+max(0, limit))
	list := make([]queue.Info, 0, to-from)
	parents := map[*queueState]*queue.Info{} // each is worked out once for all of its children
	for _, name := range e.queueNames[from:to] {
		q := e.queues[name]
		i := e.info(q, now)
		if p := q.parent(); p != nil {
			if parents[p] == nil {
				parent := e.info(p, now)
				parents[p] = &parent
			}
			i.Parent = parents[p]
		}
		list = append(list, i)
	}
	return list, nil
}

func (m *machine) infoWithParent(q *queueState, now leaky.Instant) queue.Info {
	i := m.info(q, now)
	if p := q.parent(); p != nil {
		parent := m.info(p, now)
		i.Parent = &parent
	}
	return i
}

func (m *machine) info(q *queueState, now leaky.Instant) queue.Info {
	m.trim(q, now, trimMax) // so that dead jobs are counted right
	m.forgetLapsed(q, now, trimMax)
	i := queue.Info{
		Spec: q.spec, Revision: q.revision, Pause: q.pause.info(now),
		Waiting: q.counts[queue.Waiting], Scheduled: q.counts[queue.Scheduled], Leased: q.counts[queue.Leased],
		Held:     q.counts[queue.Held],
		Deferred: max(q.counts[queue.Deferred], q.overflow.progress.behind), Dead: m.deadCountOf(q.spec.Name),
		Counters: counted(q.saved, q.unsaved),
		Outflow:  q.outflow.rate(now),
		Next:     q.opens(now).Time(),
		Now:      now.Time(), Bucket: q.bucket, Limits: q.limitStates(), DeferredCost: q.overflow.cost,
		Back:   q.overflow.readmitted,
		Ahead:  q.costBounds(0, false).ahead(q.counts[queue.Waiting], q.gap(q.turn)),
		Errors: slices.Clone(q.failures), Rate: q.pacer.Rate,
	}
	if q.adapted != nil {
		i.Adaptions = slices.Clone(q.adapted.log)
	}
	if i.Stop, i.Circuit = q.receiver.info(now); q.receiver.stop != 0 && q.receiver.stop <= now && !q.isParent() {
		p := q.paces
		p.limits = slices.Clone(p.limits)
		p.rise(q.receiver.stop)
		i.Bucket, i.Limits = p.bucket, p.limitStates()
	}
	i.Spec.Deliver = slices.Clone(q.spec.Deliver)
	i.Lanes = int64(q.lanesWaiting)
	i.Bytes, i.MaxBytes = q.bytes, m.byteLimit(q)
	if g := q.group; q.isParent() {
		i.Group = queue.GroupInfo{
			Children: int64(g.children), Members: g.membersWaiting, Waiting: g.waiting, MaxCost: q.groupMaxCost(),
		}
	}
	if ln := q.firstLane(); ln != nil {
		i.OldestWaiting = ln.waiting.front().appended.Time()
	}
	if q.scheduled.len() > 0 {
		i.NextDue = q.scheduled.top().due.Time()
	}
	i.Ready, i.LanesRest = q.readyAt()
	if asked := m.lastAsked(q); asked != 0 {
		i.Asked = asked.Time()
	}
	return i
}

// readyAt is since when, or from when on, a waiting job can leave, zero if that is not known; lanes says that its
// lanes hold it up.
func (q *queueState) readyAt() (at time.Time, lanes bool) {
	switch {
	case q.isParent() && q.group.agendaIndex >= 0:
		return q.group.departsAt.Time(), false
	case q.isParent():
	case q.group != nil && q.onAgenda() && q.group.agendaIndex >= 0:
		return max(q.departsAt, q.group.departsAt).Time(), false
	case q.group == nil && q.onAgenda():
		return q.departsAt.Time(), false
	}
	if q.lanesWaiting == 0 || !q.runnable() || q.atMaxInFlight() || !q.allLanesBlocked() {
		return at, false
	}
	if until, any := q.lanesResumeAt(); any {
		at = until.Time()
	}
	return at, true
}

// lastAsked is when q's jobs were last asked for in this process, 0 if they were not.
func (m *machine) lastAsked(q *queueState) leaky.Instant {
	if q.spec.Pull {
		return q.lastAsked
	}
	return m.lastReserve
}

// Totals implements queue.Specs.
func (e *Engine) Totals(ctx context.Context) (queue.Totals, error) {
	e.lock()
	defer e.unlock()
	if err := e.readable(ctx); err != nil {
		return queue.Totals{}, err
	}
	return queue.Totals{
		Queues: int64(len(e.queueNames)), Dead: e.deadCount,
		Waiting: e.counts[queue.Waiting], Scheduled: e.counts[queue.Scheduled], Leased: e.counts[queue.Leased],
		Held:     e.counts[queue.Held],
		Deferred: e.counts[queue.Deferred],
	}, nil
}

// Partitions implements queue.Outflow: an embedded store is one.
func (e *Engine) Partitions() int { return 1 }

const meterWindow = 10 * time.Second

// meter measures departures a second with two counters: those of the present
// window of 10 s and those of the one before. The older one counts with the
// share of it that is still within the last 10 s, as if its departures had been
// spread evenly: (prev x (1 - elapsed share) + cur) / 10.
type meter struct {
	start     leaky.Instant // of the present window
	cur, prev int64
}

func (m *meter) advance(now leaky.Instant) {
	switch age := now.Sub(m.start); {
	case age < meterWindow:
		return
	case age < 2*meterWindow:
		m.prev, m.cur = m.cur, 0
		m.start = m.start.Add(meterWindow)
	default:
		m.prev, m.cur = 0, 0
		m.start = now
	}
}

func (m *meter) add(now leaky.Instant, n int64) {
	m.advance(now)
	m.cur += n
	if m.cur < 0 { // given back after the window of the grant
		m.prev = max(0, m.prev+m.cur)
		m.cur = 0
	}
}

func (m *meter) rate(now leaky.Instant) float64 {
	m.advance(now)
	share := now.Sub(m.start).Seconds() / meterWindow.Seconds()
	return (float64(m.prev)*(1-share) + float64(m.cur)) / meterWindow.Seconds()
}
