package boltq

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/changekind"
	"github.com/penstock/penstock/queue/internal/changelog"
	"github.com/penstock/penstock/queue/move"
)

// importState is the latest import into a queue.
type importState struct {
	mark string
	open bool // not closed yet
}

// OpenImport implements move.Mover.
func (e *Engine) OpenImport(ctx context.Context, moved move.Queue, mark string) (closed bool, err error) {
	actor, err := queue.ActorOf(ctx)
	if err != nil {
		return false, err
	}
	spec, text, err := normalized(moved.Spec)
	if err != nil {
		return false, err
	}
	err = e.decide(ctx, spec.Name, func(q *queueState, now leaky.Instant) (change, error) {
		paused := pause{reason: move.PauseReason, since: now}
		if q == nil { // created and opened in one step
			made, _, err := e.decidePut(nil, spec, 0, now)
			if err != nil {
				return nil, err
			}
			made.note(nil, now, actor, text, false)
			made.pause = paused
			q = made.queue
			return q.openImport(&openImportChange{specChange: *made, mark: mark}, &moved), nil
		}
		if q.importing.mark == mark {
			closed = !q.importing.open
			return nil, nil
		}
		if err := q.checkImportable(&spec); err != nil {
			return nil, fmt.Errorf("%s: %w: %w", moved.Spec.Name, move.ErrImport, err)
		}
		return q.openImport(
			&openImportChange{
				specChange: specChange{queue: q, spec: q.spec, revision: q.revision, pause: paused}, mark: mark,
			},
			&moved,
		), nil
	})
	return closed, err
}

// openImport makes jobs that arrive during the import go behind all imported ones.
func (q *queueState) openImport(c *openImportChange, moved *move.Queue) *openImportChange {
	c.turn, c.maxCost = q.turn, q.maxCost
	q.turn = max(q.turn, moved.Turn)
	q.noteCost(moved.MaxCost)
	return c
}

// checkImportable returns why nothing can be imported into q, or nil.
func (q *queueState) checkImportable(spec *queue.Spec) error {
	switch {
	case q.importing.open:
		return fmt.Errorf("import %s into it is not finished", queue.Shorten(q.importing.mark, 80))
	case q.size() > 0 || q.hasBacklog() || q.saved.Died > 0:
		return errors.New("it holds jobs")
	case !q.spec.Equal(*spec):
		return errors.New("it is there with other settings")
	}
	return nil
}

func unknownQueue(name string) error {
	return fmt.Errorf("%w: %s", queue.ErrUnknownQueue, queue.Shorten(name, 80))
}

// openImportChange pauses a queue and notes the import's mark.
type openImportChange struct {
	specChange
	mark          string
	turn, maxCost int64 // as they were before
}

func (c *openImportChange) prepare(b *batch) {
	c.specChange.prepare(b)
	b.putImport(c.queue.number, importState{c.mark, true})
}

func (c *openImportChange) apply(m *machine, now leaky.Instant) {
	c.queue.importing = importState{c.mark, true}
	c.specChange.apply(m, now)
}

func (c *openImportChange) rollBack(m *machine, now leaky.Instant, err error) {
	c.queue.turn, c.queue.maxCost = c.turn, c.maxCost
	c.specChange.rollBack(m, now, err)
}

// CloseImport implements move.Mover.
func (e *Engine) CloseImport(ctx context.Context, moved move.Queue, mark string) error {
	actor, err := queue.ActorOf(ctx)
	if err != nil {
		return err
	}
	return e.decide(ctx, moved.Spec.Name, func(q *queueState, now leaky.Instant) (change, error) {
		if q == nil {
			return nil, unknownQueue(moved.Spec.Name)
		}
		if q.importing.mark != mark {
			return nil, importNotOpen(moved.Spec.Name)
		}
		if !q.importing.open {
			return nil, nil
		}
		c := &closeImportChange{
			specChange: specChange{
				queue: q, spec: q.spec, revision: max(q.revision, moved.Revision), paces: q.paces,
				pause: pauseOf(moved.Pause), putsSpec: true,
			},
		}
		// A revision must not name two specs, here or where the queue came from.
		e.store.revision = max(e.store.revision, c.revision)
		c.paces.continueFrom(&moved, now)
		c.counts, c.errors = q.importedCounters(&moved), moved.Errors
		n := loggedBy(changekind.Imported, actor, c.revision, now)
		n.Was, n.Jobs, n.Detail = q.revision, q.size(), changelog.ArchiveDetail(mark)
		c.notes = []logged{n}
		if c.revision != q.revision {
			if c.text, err = queue.EncodeSpec(q.spec); err != nil {
				return nil, err
			}
		}
		return c, nil
	})
}

// continueFrom lets buckets and windows continue from those of the export, unless they are further by now.
func (p *paces) continueFrom(moved *move.Queue, now leaky.Instant) {
	p.bucket = laterBucket(p.pacer, p.bucket, moved.Bucket, now)
	p.limits = slices.Clone(p.limits)
	for i := range p.limits[:min(len(p.limits), len(moved.Limits))] {
		m, w := &p.limits[i], moved.Limits[i].Window
		if m.Paced() {
			m.bucket = laterBucket(m.pacer, m.bucket, moved.Limits[i].Bucket, now)
		} else if allowsMore(w, m.window) {
			m.window = w
		}
	}
}

func laterBucket(p leaky.Pacer, a, b leaky.Bucket, now leaky.Instant) leaky.Bucket {
	a, b = p.Bounded(a, now), p.Bounded(b, now)
	if b.TAT > a.TAT || b.TAT == a.TAT && b.Rem > a.Rem {
		return b
	}
	return a
}

func importNotOpen(name string) error {
	return fmt.Errorf("%s: %w: it is not open for it", name, move.ErrImport)
}

// importedCounters is what an import adds to the counters. It counts the jobs that were imported, not those that
// the export says the queue held: an export of a store in use is not exact. What arrived meanwhile has been counted
// already.
func (q *queueState) importedCounters(moved *move.Queue) queue.Counters {
	own, add := counted(q.saved, q.unsaved), moved.Counts
	putIn := q.size() - q.incoming.all + q.counts[queue.Deferred] - own.Balance()
	add.Appended += putIn - moved.Held
	return add
}

// closeImportChange gives a queue the paces and counters of the export, and lets it go on.
type closeImportChange struct {
	specChange
	counts queue.Counters
	errors []queue.LastError
}

func (c *closeImportChange) prepare(b *batch) {
	c.specChange.prepare(b)
	d := b.deltaOf(c.queue)
	d.counters.Add(c.counts.Values())
	for _, f := range slices.Backward(c.errors) {
		d.failures = append(d.failures, f)
	}
	b.putImport(c.queue.number, importState{c.queue.importing.mark, false})
}

func (c *closeImportChange) apply(m *machine, now leaky.Instant) {
	q := c.queue
	q.importing.open = false
	// The buckets of its lanes are unknown, so they are delayed.
	q.openedAt, q.maxCostAtOpen = now, q.maxCost
	c.specChange.apply(m, now)
}
