package boltq

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// filling is the latest import into a queue.
type filling struct {
	mark string
	open bool // it is not closed yet
}

// OpenImport implements queue.Mover.
func (e *Engine) OpenImport(ctx context.Context, q queue.MovedQueue, mark string) (closed bool, err error) {
	by, err := queue.By(ctx)
	if err != nil {
		return false, err
	}
	spec, text, err := checked(q.Spec)
	if err != nil {
		return false, err
	}
	err = e.decide(ctx, spec.Name, func(l *line, now leaky.Instant) (change, error) {
		paused := pause{reason: queue.ImportReason, since: now}
		if l == nil { // made and opened in one step
			made, _, err := e.put(nil, spec, 0, now)
			if err != nil {
				return nil, err
			}
			made.note(nil, now, by, false)
			made.text, made.pause = text, paused
			l = made.line
			return l.open(&opening{changing: *made, mark: mark}, &q), nil
		}
		if l.filling.mark == mark {
			closed = !l.filling.open
			return nil, nil
		}
		if err := l.unfit(&spec); err != nil {
			return nil, fmt.Errorf("%s: %w: %w", q.Spec.Name, queue.ErrImport, err)
		}
		return l.open(&opening{changing: changing{line: l, spec: l.spec, revision: l.revision, pause: paused}, mark: mark}, &q), nil
	})
	return closed, err
}

// open lets what comes in meanwhile go behind all that is to be put in.
func (l *line) open(c *opening, q *queue.MovedQueue) *opening {
	c.turn, c.maxCost = l.turn, l.maxCost
	l.turn = max(l.turn, q.Turn)
	l.costs(q.MaxCost)
	return c
}

// unfit returns why a queue cannot be filled, if so.
func (l *line) unfit(spec *queue.Spec) error {
	switch {
	case l.filling.open:
		return fmt.Errorf("import %s into it is not finished", queue.Shorten(l.filling.mark, 80))
	case l.size() > 0 || l.backlog() || l.kept.died > 0:
		return errors.New("it holds jobs")
	case !l.spec.Equal(*spec):
		return errors.New("it is there with other settings")
	}
	return nil
}

func unknownQueue(name string) error {
	return fmt.Errorf("%w: %s", queue.ErrUnknownQueue, queue.Shorten(name, 80))
}

// opening pauses a queue and marks it.
type opening struct {
	changing
	mark          string
	turn, maxCost int64 // as they were
}

func (c *opening) write(t *tables) error {
	if err := t.putFilling(c.line.number, filling{c.mark, true}); err != nil {
		return err
	}
	return c.changing.write(t)
}

func (c *opening) done(e *Engine, now leaky.Instant) {
	c.line.filling = filling{c.mark, true}
	c.changing.done(e, now)
}

func (c *opening) undone(e *Engine, err error) {
	c.line.turn, c.line.maxCost = c.turn, c.maxCost
	c.changing.undone(e, err)
}

// CloseImport implements queue.Mover.
func (e *Engine) CloseImport(ctx context.Context, q queue.MovedQueue, mark string) error {
	by, err := queue.By(ctx)
	if err != nil {
		return err
	}
	return e.decide(ctx, q.Spec.Name, func(l *line, now leaky.Instant) (change, error) {
		if l == nil {
			return nil, unknownQueue(q.Spec.Name)
		}
		if l.filling.mark != mark {
			return nil, notOpen(q.Spec.Name)
		}
		if !l.filling.open {
			return nil, nil
		}
		c := &closing{changing: changing{line: l, spec: l.spec, revision: max(l.revision, q.Revision), paces: l.paces, pause: pauseOf(q.Pause), respec: true}}
		// No revision is that of another spec, here or where it came from.
		e.store.revision = max(e.store.revision, c.revision)
		c.paces.goOn(&q, now)
		c.counts, c.errors = l.brought(&q), q.Errors
		c.notes = []queue.Change{changed(queue.Change{
			At: now.Time(), By: by, What: queue.FilledBy, Revision: c.revision, Was: l.revision, Jobs: l.size(), Detail: queue.ArchiveDetail(mark),
		})}
		if c.revision != l.revision {
			if c.text, err = queue.EncodeSpec(l.spec); err != nil {
				return nil, err
			}
		}
		return c, nil
	})
}

// goOn lets buckets and windows go on from where they were, as those of a queue that is made again, unless they
// are later by now.
func (p *paces) goOn(q *queue.MovedQueue, now leaky.Instant) {
	p.bucket = laterOf(p.pacer, p.bucket, q.Bucket, now)
	p.limits = slices.Clone(p.limits)
	for i := range p.limits[:min(len(p.limits), len(q.Limits))] {
		m, w := &p.limits[i], q.Limits[i].Window
		if m.Paced() {
			m.bucket = laterOf(m.pacer, m.bucket, q.Limits[i].Bucket, now)
		} else if beyond(w, m.window) {
			m.window = w
		}
	}
}

func laterOf(p leaky.Pacer, a, b leaky.Bucket, now leaky.Instant) leaky.Bucket {
	a, b = p.Bounded(a, now), p.Bounded(b, now)
	if b.TAT > a.TAT || b.TAT == a.TAT && b.Rem > a.Rem {
		return b
	}
	return a
}

func notOpen(name string) error {
	return fmt.Errorf("%s: %w: it is not open for it", name, queue.ErrImport)
}

// brought is what an import adds to the counters. What counts is what was put in, in place of what was held: an export of
// a store in use has not quite that. What came in meanwhile is counted already.
func (l *line) brought(q *queue.MovedQueue) counters {
	own := l.kept.plus(l.loose)
	is := queue.MovedCounts{
		Appended: own.appended, SetAside: own.setAside, Returned: own.returned, Missing: own.missing, Cancelled: own.cancelled,
		Replayed: own.replayed, TimedOut: own.timedOut, Delivered: own.delivered, Died: own.died,
	}
	putIn := l.size() - l.coming.all + l.count[queue.Deferred] - is.Balance()
	c := q.Counts
	return counters{
		appended: c.Appended + putIn - q.Held, delivered: c.Delivered, retried: c.Retried, died: c.Died, released: c.Released,
		expired: c.Expired, refused: c.Refused, lost: c.Lost, setAside: c.SetAside, returned: c.Returned, missing: c.Missing,
		cancelled: c.Cancelled, timedOut: c.TimedOut, replayed: c.Replayed, throttled: c.Throttled, down: c.Down,
	}
}

// closing gives a queue what was exported with it, and lets it go on.
type closing struct {
	changing
	counts counters
	errors []queue.LastError
}

func (c *closing) tally(b *batch) {
	c.changing.tally(b)
	d := b.of(c.line)
	d.counters = d.counters.plus(c.counts)
	for _, f := range slices.Backward(c.errors) {
		d.failures = append(d.failures, f)
	}
}

func (c *closing) write(t *tables) error {
	if err := t.putFilling(c.line.number, filling{c.line.filling.mark, false}); err != nil {
		return err
	}
	return c.changing.write(t)
}

func (c *closing) done(e *Engine, now leaky.Instant) {
	l := c.line
	l.filling.open = false
	// Of the buckets of its lanes nothing is known: they are held.
	l.since, l.dearest = now, l.maxCost
	c.changing.done(e, now)
}
