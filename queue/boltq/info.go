package boltq

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// readable returns why nothing can be read, if so. A store that failed can
// still be looked at.
func (e *Engine) readable(ctx context.Context) error {
	if e.closing {
		return queue.ErrClosed
	}
	return ctx.Err()
}

// live returns the queue of that name, unless it is only being created.
func (e *Engine) live(name string) (*line, error) {
	if l := e.lines[name]; l != nil && l.live {
		return l, nil
	}
	return nil, unknownQueue(name)
}

// Get implements queue.Specs.
func (e *Engine) Get(ctx context.Context, name string) (queue.Info, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.readable(ctx); err != nil {
		return queue.Info{}, err
	}
	now := e.now() // whatever comes of it, this was seen of the clock
	l, err := e.live(name)
	if err != nil {
		return queue.Info{}, err
	}
	return e.infoWithParent(l, now), nil
}

// Lane implements queue.Specs.
func (e *Engine) Lane(ctx context.Context, name, key string) (queue.Info, queue.LaneInfo, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.readable(ctx); err != nil {
		return queue.Info{}, queue.LaneInfo{}, err
	}
	if err := queue.ValidateLane(key); err != nil {
		return queue.Info{}, queue.LaneInfo{}, err
	}
	now := e.now()
	l, err := e.live(name)
	if err != nil {
		return queue.Info{}, queue.LaneInfo{}, err
	}
	ln := l.lane(key, queue.DigestLane(key))
	lane := queue.LaneInfo{Waiting: int64(ln.fifo.len())}
	if ln.keyed() {
		lane.Held, lane.Bytes = ln.held, ln.bytes
	}
	var p leaky.Pacer
	lane.Bucket, p, _ = ln.paced(now, now)
	if stop := ln.stops(now); stop > now {
		lane.Stop = stop.Time()
	} else if stop != 0 && !p.Rate.Unlimited() {
		lane.Bucket = p.Rise(lane.Bucket, stop)
	}
	return e.infoWithParent(l, now), lane, nil
}

// List implements queue.Specs.
func (e *Engine) List(ctx context.Context, after string, limit int) ([]queue.Info, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.readable(ctx); err != nil {
		return nil, err
	}
	now := e.now()
	from, found := slices.BinarySearch(e.names, after)
	if found {
		from++
	}
	to := min(len(e.names), from+max(0, limit))
	list := make([]queue.Info, 0, to-from)
	parents := map[*line]*queue.Info{} // one for all of its children
	for _, name := range e.names[from:to] {
		l := e.lines[name]
		i := e.info(l, now)
		if p := l.parent(); p != nil {
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

func (e *Engine) infoWithParent(l *line, now leaky.Instant) queue.Info {
	i := e.info(l, now)
	if p := l.parent(); p != nil {
		parent := e.info(p, now)
		i.Parent = &parent
	}
	return i
}

func (e *Engine) info(l *line, now leaky.Instant) queue.Info {
	e.trim(l, now, patrolMax) // so that the dead are counted right
	e.expunge(l, now, patrolMax)
	c := l.kept.plus(l.loose)
	i := queue.Info{
		Spec: l.spec, Revision: l.revision, Pause: l.pause.told(now),
		Waiting: l.count[queue.Waiting], Scheduled: l.count[queue.Scheduled], Leased: l.count[queue.Leased], Held: l.count[queue.Held],
		Deferred: max(l.count[queue.Deferred], l.aside.way.behind), Dead: e.deadOf(l.spec.Name),
		Appended: c.appended, SetAside: c.setAside, Returned: c.returned, Missing: c.missing, Cancelled: c.cancelled, TimedOut: c.timedOut, Replayed: c.replayed,
		Delivered: c.delivered, Retried: c.retried, Died: c.died,
		Released: c.released, Expired: c.expired, Refused: c.refused, Lost: c.lost, Throttled: c.throttled, Down: c.down,
		Outflow: l.outflow.rate(now),
		Next:    l.opens(now).Time(),
		Now:     now.Time(), Bucket: l.bucket, Limits: l.states(), DeferredCost: l.aside.cost, Back: l.aside.back,
		Ahead:  l.risk(0, false).ahead(l.count[queue.Waiting], l.gap(l.turn)),
		Errors: slices.Clone(l.failures), Rate: l.pacer.Rate,
	}
	if l.adapted != nil {
		i.Adaptions = slices.Clone(l.adapted.log)
	}
	if i.Stop, i.Circuit = l.heard.said(now); l.heard.stop != 0 && l.heard.stop <= now && !l.heads() {
		p := l.paces
		p.limits = slices.Clone(p.limits)
		p.rise(l.heard.stop)
		i.Bucket, i.Limits = p.bucket, p.states()
	}
	i.Spec.Deliver = slices.Clone(l.spec.Deliver)
	i.Lanes = int64(l.peopled)
	i.Bytes, i.MaxBytes = l.bytes, e.byteLimit(l)
	if g := l.kin; l.heads() {
		i.Group = queue.GroupInfo{Children: int64(g.children), Members: g.peopled, Waiting: g.waiting, MaxCost: l.dearestOfAll()}
	}
	if ln := l.first(); ln != nil {
		i.OldestWaiting = ln.fifo.front().appended.Time()
	}
	if l.later.len() > 0 {
		i.NextDue = l.later.top().due.Time()
	}
	i.Ready, i.LanesRest = l.ready()
	if asked := e.asked(l); asked != 0 {
		i.Asked = asked.Time()
	}
	return i
}

// ready is since when, or when, a job that waits can leave, zero if that is not known, and whether its lanes hold it.
func (l *line) ready() (at time.Time, lanes bool) {
	switch {
	case l.heads() && l.kin.agendaAt >= 0:
		return l.kin.departs.Time(), false
	case l.heads():
	case l.kin != nil && l.placed() && l.kin.agendaAt >= 0:
		return max(l.departs, l.kin.departs).Time(), false
	case l.kin == nil && l.placed():
		return l.departs.Time(), false
	}
	if l.peopled == 0 || !l.awake() || l.crowded() || !l.still() {
		return at, false
	}
	if until, any := l.wakes(); any {
		at = until.Time()
	}
	return at, true
}

// asked is when its jobs were last asked for in this process, 0 if they were not.
func (e *Engine) asked(l *line) leaky.Instant {
	if l.spec.Pull {
		return l.asked
	}
	return e.reserved
}

// Totals implements queue.Specs.
func (e *Engine) Totals(ctx context.Context) (queue.Totals, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.readable(ctx); err != nil {
		return queue.Totals{}, err
	}
	return queue.Totals{
		Queues: int64(len(e.names)), Dead: e.dead,
		Waiting: e.count[queue.Waiting], Scheduled: e.count[queue.Scheduled], Leased: e.count[queue.Leased], Held: e.count[queue.Held],
		Deferred: e.count[queue.Deferred],
	}, nil
}

// Job implements queue.Jobs.
func (e *Engine) Job(ctx context.Context, name, id string) (queue.JobInfo, error) {
	f, err := e.find(ctx, name, id)
	if err != nil {
		return f.info, err
	}
	if f.dead != nil {
		e.readDead([]*queue.JobInfo{&f.info}, []*ended{f.dead})
	} else {
		// What is under way or delivered stands behind what failed.
		last := f.info.Timeline
		if f.info.Timeline, err = queue.UnpackTimeline(f.past); err != nil {
			return f.info, err
		}
		f.info.Timeline = append(f.info.Timeline, last...)
	}
	e.readContent(&f)
	return f.info, nil
}

// found is where a job is, and where the rest of it is kept.
type found struct {
	info queue.JobInfo
	past []byte // of one that holds a place, its timeline as stored
	dead *ended // of a dead one, what is remembered of it
	seq  uint64 // of its record; 0 if that is not kept
}

// readContent reads what the job carries. Of one that ended just now there may be nothing left.
func (e *Engine) readContent(f *found) {
	if f.seq == 0 {
		return
	}
	_ = e.db.View(func(tx *bbolt.Tx) error { // else it is shown without
		t := &tables{tx: tx}
		record, err := t.getRecord(f.seq)
		if err == nil {
			err = queue.UnpackContent(record, &f.info)
		}
		return err
	})
}

// find returns where a job is, and what more is to be read of it without the lock.
func (e *Engine) find(ctx context.Context, name, id string) (found, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.readable(ctx); err != nil {
		return found{}, err
	}
	now := e.now()
	l, err := e.live(name)
	if err != nil {
		if d := e.letter(name, id, now); d != nil {
			return foundDead(name, d), nil
		}
		return found{}, err
	}
	if j := l.jobs[id]; j != nil && j.state != queue.StateNone {
		f := found{info: l.look(j, now), seq: j.seq}
		if j.flight != nil {
			f.past = j.flight.past
		}
		return f, nil
	}
	if d := l.ended.find(id, l.spec.Retention, now); d != nil {
		if d.state == queue.Dead {
			return foundDead(name, d), nil
		}
		f := found{info: shown(name, d)}
		if d.departed != 0 {
			f.info.AddLast(queue.Attempt{At: d.departed.Time(), Drainer: d.drainer})
		}
		return f, nil
	}
	if number, d := l.deferral(id, now); d != nil {
		return found{info: l.lookAside(id, number, d, now)}, nil
	}
	if d := e.letter(name, id, now); d != nil { // of a former queue
		return foundDead(name, d), nil
	}
	return found{}, fmt.Errorf("%w: %s in %s", queue.ErrUnknownJob, queue.Shorten(id, 80), name)
}

func foundDead(name string, d *ended) found {
	return found{info: shown(name, d), dead: d, seq: d.seq}
}

// look is where a job that holds a place is.
func (l *line) look(j *job, now leaky.Instant) queue.JobInfo {
	i := queue.JobInfo{
		Queue: l.spec.Name, ID: j.id, State: j.state, Cost: int64(j.cost), Lane: j.lane.key, Priority: j.priority(), AppendedAt: j.appended.Time(),
		ExpiresAt: j.expiresAt(),
	}
	if f := j.flight; f != nil {
		i.Attempts, i.Reason = f.attempts, f.reason
	}
	switch j.state {
	case queue.Waiting:
		i.Position = int64(j.lane.fifo.rank(j)) + 1
		i.ETA = l.expected(j, l.risk(int64(j.cost), false), now)
		i.Why = l.reason(j, now)
	case queue.Scheduled:
		i.DueAt = j.flight.due.Time()
		i.ETA = l.expected(j, l.risk(int64(j.cost), false), now)
		i.Why = l.reason(j, now)
	case queue.Leased:
		i.DueAt = j.flight.due.Time()
		i.AddLast(queue.Attempt{At: i.DueAt, Drainer: j.flight.drainer})
	case queue.Held:
		i.HeldAt = j.flight.due.Time()
		i.Why = queue.Why{By: queue.ByHeld, Reason: i.Reason}
	}
	return i
}

// lookAside is where a deferred job is: what is recorded is taken to come back in
// order, and to cost what it does on average.
func (l *line) lookAside(id string, number uint64, d *deferral, now leaky.Instant) queue.JobInfo {
	i := queue.JobInfo{Queue: l.spec.Name, ID: id, State: queue.Cancelled, Cost: int64(d.cost), AppendedAt: d.at.Time()}
	if d.state == called {
		return i
	}
	count := l.count[queue.Deferred]
	place := max(1, int64(number)-(int64(l.aside.tickets)-count))
	before := float64(l.aside.cost) * float64(place-1) / float64(count)
	waiting := l.count[queue.Waiting]
	i.State, i.Position, i.Why = queue.Deferred, waiting+place, l.spec.Deferred.WhyDeferred(now.Time())
	i.ETA.At = l.etaAside(waiting, l.gap(l.turn), int64(before), l.kinship(false), l.risk(int64(d.cost), false), now).Time()
	return i
}

// Partitions implements queue.Outflow: an embedded store is one.
func (e *Engine) Partitions() int { return 1 }
