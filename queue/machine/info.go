package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// liveQueue returns the queue of that name. Errors: queue.ErrUnknownQueue.
func (m *Machine) liveQueue(name string) (*queueState, error) {
	if q := m.queues[name]; q != nil {
		return q, nil
	}
	return nil, unknownQueue(name)
}

// Get returns a queue with its statistics. Errors: queue.ErrUnknownQueue.
func (m *Machine) Get(now leaky.Instant, name string) (queue.Info, error) {
	q, err := m.liveQueue(name)
	if err != nil {
		return queue.Info{}, err
	}
	return m.infoWithParent(q, now), nil
}

// GetMany returns queues as Get does, leaving out unknown names.
func (m *Machine) GetMany(now leaky.Instant, names []string) (some []queue.Info) {
	for _, name := range names {
		if q := m.queues[name]; q != nil {
			some = append(some, m.infoWithParent(q, now))
		}
	}
	return some
}

// ReadSpecs returns the specs of queues, leaving out unknown names.
func (m *Machine) ReadSpecs(names []string) (some []queue.KeptSpec) {
	for _, name := range names {
		if q := m.queues[name]; q != nil {
			some = append(some, queue.KeptSpec{Revision: q.revision, Spec: q.fullSpec()})
		}
	}
	return some
}

// Lane returns a queue and one of its lanes. Errors: queue.ErrUnknownQueue, an *invalid.Error.
func (m *Machine) Lane(now leaky.Instant, name, key string) (queue.Info, queue.LaneInfo, error) {
	if err := queue.ValidateLane(key); err != nil {
		return queue.Info{}, queue.LaneInfo{}, err
	}
	q, err := m.liveQueue(name)
	if err != nil {
		return queue.Info{}, queue.LaneInfo{}, err
	}
	lane := q.lane(key, queue.DigestLane(key)).info(now)
	lane.ToWall(m.ahead())
	return m.infoWithParent(q, now), lane, nil
}

// info returns a lane for clients.
func (ln *lane) info(now leaky.Instant) queue.LaneInfo {
	i := queue.LaneInfo{Waiting: int64(ln.waiting.len())}
	if ln.keyed() {
		i.Size, i.Bytes = int64(ln.size), ln.bytes
	}
	p, _ := ln.pacing(now, now)
	if stop := ln.stopsUntil(now); stop > now {
		i.Stop = stop.Time()
	} else if stop != 0 && !p.pacer.Rate.Unlimited() {
		p.bucket = p.pacer.Rise(p.bucket, stop)
	}
	i.Bucket, i.Limits = p.bucket, p.limitStates()
	return i
}

// List returns up to limit queues after a name.
func (m *Machine) List(now leaky.Instant, after string, limit int) []queue.Info {
	list := make([]queue.Info, 0, max(0, min(limit, m.queueNames.len())))
	parents := map[*queueState]*queue.Info{} // each is computed once for all of its children
	for name := range m.namesBehind(after) {
		if len(list) == cap(list) {
			break
		}
		q := m.queues[name]
		i := m.info(q, now)
		if p := q.parent(); p != nil {
			if parents[p] == nil {
				parent := m.info(p, now)
				parents[p] = &parent
			}
			i.Parent = parents[p]
		}
		list = append(list, i)
	}
	return list
}

func (m *Machine) infoWithParent(q *queueState, now leaky.Instant) queue.Info {
	i := m.info(q, now)
	if p := q.parent(); p != nil {
		parent := m.info(p, now)
		i.Parent = &parent
	}
	return i
}

func (m *Machine) info(q *queueState, now leaky.Instant) queue.Info {
	m.trim(q, now, trimMax) // so that dead jobs are counted right
	m.forgetLapsed(q, now, trimMax)
	i := queue.Info{
		Spec: q.fullSpec(), Revision: q.revision, Pause: q.pause.info(m.wall(now)),
		Waiting: q.counts[queue.Waiting], Scheduled: q.counts[queue.Scheduled], Leased: q.counts[queue.Leased],
		Held:     q.counts[queue.Held],
		Deferred: max(q.counts[queue.Deferred], q.overflow.progress.behind), Dead: m.deadCountOf(q.name),
		Counters: q.allCounters(),
		Outflow:  q.outflow.rate(now),
		Next:     q.opens(now).Time(),
		Now:      now.Time(), Bucket: q.bucket, Limits: q.limitStates(), DeferredCost: q.overflow.cost,
		Learned: q.learnedCosts(),
		Back:    q.overflow.readmitted,
		Ahead:   q.costBounds(0, false).ahead(q.counts[queue.Waiting], q.gap(q.turn)),
		Errors:  slices.Clone(q.failures), Rate: q.pacer.Rate,
	}
	if q.adapted != nil {
		i.RateChanges = slices.Clone(q.adapted.log)
	}
	if i.Stop, i.Circuit = q.receiver.info(now); q.receiver.stop != 0 && q.receiver.stop <= now && !q.isParent() {
		p := q.paces
		p.limits = slices.Clone(p.limits)
		p.rise(q.receiver.stop)
		i.Bucket, i.Limits = p.bucket, p.limitStates()
	}
	i.Lanes = int64(q.lanesWaiting)
	i.LaneWeights, _ = q.laneWeights()
	i.Bytes, i.DeadBytes, i.DeferredBytes = q.bytes, m.deadBytesOf(q.name), q.overflow.bytes
	i.MaxBytes = m.byteLimit(q)
	if g := q.group; q.isParent() {
		i.Group = queue.GroupInfo{
			Children: int64(g.children), Members: g.membersWaiting, Waiting: g.waiting, MaxCost: q.groupMaxCost(),
			Weight: g.weightWaiting, Weights: g.weights,
		}
	}
	if ln := q.firstLane(); ln != nil {
		i.OldestWaiting = ln.waiting.front().appended.Time()
	}
	if q.scheduled.len() > 0 {
		i.NextDue = q.scheduled.top().due.Time()
	}
	i.Ready, i.LanesRest = q.readyAt(now)
	if asked := m.lastAsked(q); asked != 0 {
		i.Asked = asked.Time()
	}
	i.ToWall(m.ahead())
	return i
}

// readyAt returns since when, or from when on, a waiting job can leave; zero if unknown. lanes is set if its lanes hold
// it up.
func (q *queueState) readyAt(now leaky.Instant) (at time.Time, lanes bool) {
	from, any := q.pullsFrom(now)
	switch {
	case q.isPullChild() && any:
		return from.Time(), false
	case q.isPullChild() && q.onAgenda(): // the parent is paused
		return at, false
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

// lastAsked returns when a client last asked for q's jobs in this process; 0 if never.
func (m *Machine) lastAsked(q *queueState) leaky.Instant {
	if q.spec.Pull {
		return q.lastAsked
	}
	return m.lastReserve
}

// Totals returns the totals of the store.
func (m *Machine) Totals() queue.Totals {
	return queue.Totals{
		Queues: int64(m.queueNames.len()), Dead: m.deadCount,
		Waiting: m.counts[queue.Waiting], Scheduled: m.counts[queue.Scheduled], Leased: m.counts[queue.Leased],
		Held:     m.counts[queue.Held],
		Deferred: m.counts[queue.Deferred],
	}
}

const meterWindow = 10 * time.Second

// meter measures departures per second with two counters: one for the current window of 10 s and one for the window
// before. The older counter is weighted by the share of its window that is still within the last 10 s, as if its
// departures had been spread evenly: (prev x (1 - elapsed share) + cur) / 10.
type meter struct {
	start     leaky.Instant // of the current window
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

// readingsPage is how many queues are read while everything else waits.
const readingsPage = 1000

// Readings returns a page of readings of queues after a name, in order of name, and whether there are more.
func (m *Machine) Readings(now leaky.Instant, after string) (page []queue.Reading, more bool) {
	page = make([]queue.Reading, 0, min(m.queueNames.len(), readingsPage))
	for name := range m.namesBehind(after) {
		if len(page) == readingsPage {
			return page, true
		}
		page = append(page, m.queues[name].reading(now))
	}
	return page, false
}

func (q *queueState) reading(now leaky.Instant) queue.Reading {
	return queue.Reading{
		Name: q.name, Revision: q.revision, Bytes: q.bytes, Now: now.Time(),
		Size: q.counts[queue.Waiting] + q.counts[queue.Scheduled] + q.counts[queue.Leased] + q.counts[queue.Held],

		Deferred: max(q.counts[queue.Deferred], q.overflow.progress.behind), Counters: q.allCounters(),
		Outflow: q.outflow.rate(now), Rate: q.pacer.Rate, Condition: q.condition(),
	}
}

// condition returns the pause and the receiver's state as a text.
func (q *queueState) condition() string {
	if q.pause == (pause{}) && q.receiver == (receiverState{}) {
		return ""
	}
	return fmt.Sprint(q.pause, q.receiver)
}
