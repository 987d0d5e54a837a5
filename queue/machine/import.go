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

// noImport is the read-only state of the many queues that nothing was imported into.
var noImport importState

// NewQueue is a queue of an import, without jobs, and its spec.
type NewQueue struct {
	Moved *move.Queue
	Spec  SpecText
}

// ImportQueues imports those of the queues that do not exist and fit the other queues and rules. It returns which are
// imported, now or before, and the commit that the answer waits for. Errors: see move.Mover.
func (m *Machine) ImportQueues(
	now leaky.Instant, actor audit.Actor, list []NewQueue, mark string,
) (done []bool, wait uint64, err error) {
	done = make([]bool, len(list))
	var made []NewQueue
	revision := m.nextRevision(now)
	for i, n := range list {
		if q := m.queues[n.Spec.spec.Name]; q != nil {
			done[i] = *q.importing == importState{mark: mark}
			continue
		}
		if m.full() != nil { // and nothing is created yet
			return nil, 0, m.full()
		}
		if m.checkSpec(&n.Spec.spec, true) != nil {
			continue
		}
		p, err := m.firstPaces(&n.Spec.spec, now)
		if err != nil {
			continue
		}
		m.create(n.Spec.spec, p, now)
		// A revision must not name two specs, here or where the queue came from.
		done[i], made, revision = true, append(made, n), max(revision, n.Moved.Revision)
	}
	if made == nil {
		return done, m.lastWait(), nil
	}
	m.store.revision = revision
	entry := audited{entry: audit.Entry{
		Actor: actor, Of: string(queue.OfQueue), What: changekind.Imported, Revision: revision,
		Detail: changelog.ArchiveDetail(mark),
	}}
	for _, n := range made {
		m.completeImported(&n, actor, mark, now)
		entry.list = append(entry.list, n.Spec)
	}
	m.current.audited = append(m.current.audited, entry)
	return done, m.wait(), nil
}

// completeImported gives a queue that was just created everything that the export has, and logs that it was created.
func (m *Machine) completeImported(n *NewQueue, actor audit.Actor, mark string, now leaky.Instant) {
	q := m.queues[n.Spec.spec.Name]
	q.revision = m.store.revision
	q.turn = max(q.turn, n.Moved.Turn)
	q.noteCost(n.Moved.MaxCost)
	change := loggedBy(changekind.Created, actor, q.revision, m.wall(now))
	change.Was, change.Detail, change.unaudited = 0, changelog.ArchiveDetail(mark), true
	m.current.logChange(logUpdate{
		subject: queueSubject(q.name), changes: []logged{change}, revision: q.revision, version: n.Spec.text, created: true,
	})
	m.restoreImported(q, n.Moved, mark, now)
	m.specChanged(q, n.Spec.text, now)
}

// restoreImported gives a queue its counters, errors, pause and paces of the export, and ends its import.
func (m *Machine) restoreImported(q *queueState, moved *move.Queue, mark string, now leaky.Instant) {
	more := q.importedCounters(moved)
	q.counters.Add(more.Values())
	for _, f := range slices.Backward(moved.Errors) {
		m.noteFailure(q, instantOf(f.At), f.ID, f.Reason)
	}
	q.importing = &importState{mark: mark}
	m.current.putImport(q.number, *q.importing)
	// The buckets of its lanes are unknown, so lanes are delayed.
	q.earlier = &earlier{now, int64(q.maxCost)}
	q.pause = pauseOf(moved.Pause)
	q.continueFrom(moved, now)
	if len(moved.Learned) > 0 {
		q.setLearned(moved.Learned)
	}
}

// OpenImport prepares a queue of that spec for an import, and returns the commit that the answer waits for. Errors: see
// move.Mover.
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
	m.current.putImport(q.number, *q.importing)
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

// CloseImport gives a queue the paces, counters and pause of the export, and lets it go on. It returns the commit that
// the answer waits for. Errors: queue.ErrUnknownQueue, move.ErrImport.
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
	m.current.logChange(update)
	m.restoreImported(q, moved, mark, now)
	m.specChanged(q, update.version, now)
	return m.wait(), nil
}

// continueFrom makes buckets and windows continue from those of the export, unless they are already further ahead.
func (p *paces) continueFrom(moved *move.Queue, now leaky.Instant) {
	p.bucket = laterBucket(p.pacer, p.bucket, moved.Bucket, now)
	p.limits = slices.Clone(p.limits)
	for i := range p.limits[:min(len(p.limits), len(moved.Limits))] {
		l, w := &p.limits[i], moved.Limits[i].Window
		if l.Paced() {
			l.bucket = laterBucket(l.pacer, l.bucket, moved.Limits[i].Bucket, now)
		} else if l.IsBudget() {
			l.balance = l.budget.Later(l.balance, leaky.BalanceOf(moved.Limits[i].Bucket), now)
		} else {
			step := max(w.Step, l.window.Step)
			if allowsMore(w, l.window) {
				l.window = w
			}
			l.window.Step = step
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

// importedCounters returns what an import adds to the counters. It counts the imported jobs, not the number in the
// export, which is inexact for a store in use. Jobs that arrived meanwhile have been counted already.
func (q *queueState) importedCounters(moved *move.Queue) queue.Counters {
	own, add := q.allCounters(), moved.Counts
	putIn := q.size() - q.incoming.all + q.counts[queue.Deferred] - own.Balance()
	add.Appended += putIn - moved.Held
	return add
}
