package machine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/internal/changelog"
)

// importState is the latest import into a queue.
type importState struct {
	mark string
	open bool // not closed yet
}

// noImport is that of queues that nothing was imported into, which most are. It is only read.
var noImport importState

// OpenImport makes a queue of that spec ready to be filled, and returns the commit that the answer waits for. Errors:
// see move.Mover.
func (m *Machine) OpenImport(
	now leaky.Instant, actor audit.Actor, moved *move.Queue, s SpecText, mark string,
) (closed bool, wait uint64, err error) {
	q := m.queues[s.spec.Name]
	if q == nil { // created and opened in one step
		if _, _, err := m.Put(now, actor, s, 0); err != nil {
			return false, 0, err
		}
		q = m.queues[s.spec.Name]
	} else if q.importing.mark == mark {
		return !q.importing.open, m.lastWait(), nil
	} else if err := q.checkImportable(&s.spec); err != nil {
		return false, 0, fmt.Errorf("%s: %w: %w", moved.Spec.Name, move.ErrImport, err)
	}
	// Jobs that arrive during the import go behind all imported ones.
	q.turn = max(q.turn, moved.Turn)
	q.noteCost(moved.MaxCost)
	q.importing = &importState{mark, true}
	m.present.putImport(q.number, *q.importing)
	q.pause = pause{reason: move.PauseReason, since: now}
	m.keepSpec(q, s.text)
	m.conditionChanged(q, now)
	return false, m.wait(), nil
}

// checkImportable returns why nothing can be imported into q, or nil.
func (q *queueState) checkImportable(spec *queue.Spec) error {
	switch {
	case q.importing.open:
		return fmt.Errorf("import %s into it is not finished", clip.Quote(q.importing.mark, 80))
	case q.size() > 0 || q.hasBacklog() || q.counters.Died > 0:
		return errors.New("it holds jobs")
	case !q.fullSpec().Equal(*spec):
		return errors.New("it is there with other settings")
	}
	return nil
}

func unknownQueue(name string) error {
	return fmt.Errorf("%w: %s", queue.ErrUnknownQueue, clip.Quote(name, 80))
}

// CloseImport gives a queue the paces, counters and pause of the export, lets it go on, and returns the commit that the
// answer waits for. Errors: queue.ErrUnknownQueue, move.ErrImport.
func (m *Machine) CloseImport(
	now leaky.Instant, actor audit.Actor, moved *move.Queue, mark string,
) (wait uint64, err error) {
	q := m.queues[moved.Spec.Name]
	switch {
	case q == nil:
		return 0, unknownQueue(moved.Spec.Name)
	case q.importing.mark != mark:
		return 0, importNotOpen(moved.Spec.Name)
	case !q.importing.open:
		return m.lastWait(), nil
	}
	// A revision must not name two specs, here or where the queue came from.
	revision := max(q.revision, moved.Revision)
	n := loggedBy(changekind.Imported, actor, revision, m.wall(now))
	n.Was, n.Jobs, n.Detail = q.revision, q.size(), changelog.ArchiveDetail(mark)
	update := logUpdate{subject: queueSubject(q.name), changes: []logged{n}, revision: revision}
	if revision != q.revision {
		if update.version, err = queue.EncodeSpec(q.fullSpec()); err != nil {
			return 0, err
		}
	}
	m.store.revision, q.revision = max(m.store.revision, revision), revision
	m.present.logChange(update)
	more := q.importedCounters(moved)
	q.counters.Add(more.Values())
	for _, f := range slices.Backward(moved.Errors) {
		m.noteFailure(q, instantOf(f.At), f.ID, f.Reason)
	}
	q.importing = &importState{mark: mark}
	m.present.putImport(q.number, *q.importing)
	// The buckets of its lanes are unknown, so they are delayed.
	q.openedAt, q.maxCostAtOpen = now, q.maxCost
	q.pause = pauseOf(moved.Pause)
	q.continueFrom(moved, now)
	m.specChanged(q, update.version, now)
	return m.wait(), nil
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
	own, add := q.allCounters(), moved.Counts
	putIn := q.size() - q.incoming.all + q.counts[queue.Deferred] - own.Balance()
	add.Appended += putIn - moved.Held
	return add
}
