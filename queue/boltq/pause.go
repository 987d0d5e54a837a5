package boltq

import (
	"context"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/changekind"
	"github.com/penstock/penstock/queue/internal/changelog"
)

// pause is why nothing leaves a queue. One that is over stays until a Reserve, or a change of the queue, removes
// it.
type pause struct {
	by, note, reason string
	since, until     leaky.Instant // since is 0 without a pause, until is 0 without an end
}

// active reports whether there is a pause that is not over.
func (p *pause) active(now leaky.Instant) bool { return p.since != 0 && !p.ended(now) }

// ended reports whether the pause has an end that has come.
func (p *pause) ended(now leaky.Instant) bool { return p.until != 0 && p.until <= now }

// info is the pause as callers see it.
func (p *pause) info(now leaky.Instant) queue.Pause {
	if !p.active(now) {
		return queue.Pause{}
	}
	t := queue.Pause{By: p.by, Note: p.note, Reason: p.reason, Since: p.since.Time()}
	if p.until != 0 {
		t.Until = p.until.Time()
	}
	return t
}

// pauseOf is the opposite of info.
func pauseOf(p queue.Pause) pause {
	return pause{by: p.By, note: p.Note, reason: p.Reason, since: instantOf(p.Since), until: instantOf(p.Until)}
}

// activePauses are the pauses that concern a queue: its own and its parent's.
func (q *queueState) activePauses() []*pause {
	if p := q.parent(); p != nil {
		return []*pause{&q.pause, &p.pause}
	}
	return []*pause{&q.pause}
}

// paused reports whether a pause keeps q's jobs from leaving.
func (q *queueState) paused(now leaky.Instant) bool {
	return slices.ContainsFunc(q.activePauses(), func(p *pause) bool { return p.active(now) })
}

// resumesAt is from when on jobs may leave as far as pauses and the receiver's stop go; known is false if a pause
// has no end.
func (q *queueState) resumesAt(now leaky.Instant) (at leaky.Instant, known bool) {
	at, known = max(now, q.receiver.stop), true
	for _, p := range q.activePauses() {
		if p.active(now) {
			at, known = max(at, p.until), known && p.until != 0
		}
	}
	return at, known
}

// Pause implements queue.Specs.
func (e *Engine) Pause(ctx context.Context, name string, p queue.Pause) error {
	p.Normalize()
	if err := p.Validate(); err != nil {
		return err
	}
	actor, err := queue.ActorOf(ctx)
	if err != nil {
		return err
	}
	return e.decide(ctx, name, func(q *queueState, now leaky.Instant) (change, error) {
		if q == nil {
			return nil, unknownQueue(name)
		}
		if err := p.ValidateAhead(now.Time()); err != nil {
			return nil, err
		}
		to := pause{
			by: actor.Name, note: actor.Note, reason: p.Reason, since: now, until: instantOf(p.Until),
		}
		same := to
		if same.since = q.pause.since; q.pause.active(now) && same == q.pause {
			return nil, nil
		}
		c := q.pauseChange(to, now)
		n := loggedBy(changekind.Paused, actor, q.revision, now)
		n.Reason, n.Until = to.reason, p.Until
		c.notes = append(c.notes, n)
		return c, nil
	})
}

// Resume implements queue.Specs.
func (e *Engine) Resume(ctx context.Context, name string) error {
	actor, err := queue.ActorOf(ctx)
	if err != nil {
		return err
	}
	return e.decide(ctx, name, func(q *queueState, now leaky.Instant) (change, error) {
		if q == nil {
			return nil, unknownQueue(name)
		}
		r := q.receiver
		r.resume(now)
		n := loggedBy(changekind.Resumed, actor, q.revision, now)
		if r != q.receiver {
			n.Detail = changelog.StopLifted
		}
		if !q.pause.active(now) {
			if r == q.receiver {
				return nil, nil
			}
			return &specChange{
				queue: q, spec: q.spec, revision: q.revision, pause: q.pause, receiver: &r, notes: []logged{n},
			}, nil
		}
		c := q.pauseChange(pause{}, now)
		c.receiver = &r
		c.notes = append(c.notes, n)
		return c, nil
	})
}

// pauseChange is the change to another pause.
func (q *queueState) pauseChange(to pause, now leaky.Instant) *specChange {
	return &specChange{queue: q, spec: q.spec, revision: q.revision, pause: to, notes: q.pauseLapsed(now)}
}

// endPauses ends pauses that are over: in a bounded number of queues, or if pulled is set in that queue and its
// parent.
func (m *machine) endPauses(c *call, pulled *queueState, now leaky.Instant) {
	if pulled != nil {
		m.endPauseIfOver(pulled, c, now)
		if p := pulled.parent(); p != nil {
			m.endPauseIfOver(p, c, now)
		}
		return
	}
	var seen []*queueState
	for len(seen) < timerQueuesMax && m.timers.len() > 0 && m.timers.top().timerAt <= now {
		q := m.timers.pop()
		seen = append(seen, q)
		m.endPauseIfOver(q, c, now)
	}
	for _, q := range seen {
		m.timers.push(q)
	}
}

func (m *machine) endPauseIfOver(q *queueState, c *call, now leaky.Instant) {
	if q.busy != nil || !q.pause.ended(now) || m.room.full != nil {
		return
	}
	ch := q.pauseChange(pause{}, now)
	ch.endsPause = true
	ch.bind(c).busy = c
	m.enqueue(c, ch)
}
