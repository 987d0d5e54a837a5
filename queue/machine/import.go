package machine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/jobrecord"
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

type importJob struct {
	move.Job
	head        jobrecord.Head
	lane        string
	fingerprint [8]byte
}

// ImportJobs puts jobs where they were, and returns the commit that the answers wait for. Errors:
// queue.ErrUnknownQueue, move.ErrImport, an *invalid.Error.
func (m *Machine) ImportJobs(
	now leaky.Instant, name, mark string, jobs []move.Job,
) (outcomes []move.Outcome, wait uint64, err error) {
	if err := move.Validate(jobs); err != nil {
		return nil, 0, err
	}
	items := make([]importJob, len(jobs))
	for i, j := range jobs {
		j.Record = bytes.Clone(j.Record) // the caller may give up, and reuse it before it is written
		items[i] = importJob{Job: j}
		if err := items[i].unpack(); err != nil {
			return nil, 0, err
		}
	}
	q := m.queues[name]
	switch {
	case q == nil:
		return nil, 0, unknownQueue(name)
	case *q.importing != importState{mark, true}:
		return nil, 0, importNotOpen(name)
	}
	outcomes = make([]move.Outcome, len(jobs))
	for i := range items {
		if outcomes[i], err = m.placeJob(&items[i], q, now); err != nil {
			return nil, m.lastWait(), err
		}
	}
	return outcomes, m.lastWait(), nil
}

func (it *importJob) unpack() (err error) {
	binary.BigEndian.PutUint64(it.fingerprint[:], it.Fingerprint)
	if it.State.Ended() && it.State != queue.Dead {
		return nil
	}
	if it.head, err = jobrecord.UnpackHead(it.Record); err != nil {
		return err
	}
	it.fingerprint, it.Cost = [8]byte(it.Record[jobrecord.FingerprintAt:]), it.head.Cost
	it.lane, _, err = jobrecord.UnpackLane(it.Record)
	return err
}

func (m *Machine) placeJob(it *importJob, q *queueState, now leaky.Instant) (move.Outcome, error) {
	print, there := q.fingerprintOf(it.ID, now)
	switch {
	case there && print == it.fingerprint:
		return move.There, nil
	case there:
		return move.Clashes, nil
	case m.full() != nil:
		return 0, m.full()
	case !it.State.Ended():
		m.placeAlive(it, q, now)
	case now.Sub(instantOf(it.At)) >= q.spec.Retention.For.D():
		return move.Forgotten, nil
	default:
		m.placeEnded(it, q, now)
	}
	return move.Placed, nil
}

// fingerprintOf returns the fingerprint that a queue has for an id.
func (q *queueState) fingerprintOf(id string, now leaky.Instant) (print [8]byte, there bool) {
	if j := q.jobs[id]; j != nil {
		return j.fingerprint, true
	}
	if d := q.endedJobs.find(id, q.spec.Retention, now); d != nil {
		return d.fingerprint, true
	}
	if _, d := q.deferral(id, now); d != nil {
		return d.fingerprint, true
	}
	return print, false
}

// placeAlive restores the place of a job. Capacity is not checked: it was when the job was appended.
func (m *Machine) placeAlive(it *importJob, q *queueState, now leaky.Instant) {
	b := m.importInBatch(it, q, now)
	m.store.seq++
	j := &job{
		id: strings.Clone(it.ID), lane: q.lane(it.lane, it.head.Lane), seq: m.store.seq, turn: it.Turn,
		appended:    instantOf(it.AppendedAt),
		fingerprint: it.fingerprint, size: uint32(len(it.Record)), cost: uint16(it.Cost),
	}
	j.setCosts(it.Record)
	if it.Back {
		q.countReadmitted(j)
	}
	q.turn = max(q.turn, j.turnBase()+it.Cost)
	q.noteCost(it.Cost)
	q.plain = q.plain && !j.lane.keyed() && it.head.Priority == 0 && it.head.NotBefore.IsZero()
	q.addJob(j)
	q.setExpiry(j, instantOf(it.head.ExpiresAt))
	var due leaky.Instant
	if it.State != queue.Waiting {
		due = instantOf(it.At)
	}
	if it.State == queue.Held {
		q.incoming.all++
		q.addToLane(j)
	} else {
		q.addIncoming(j, due)
	}
	if last := due; last <= m.wall(now) {
		m.holdBatch(j, b, 0)
	} else {
		m.holdBatch(j, b, last)
	}
	c, ls := m.touch(q), importedLease(j, it, due)
	if p := q.parent(); p != nil {
		m.touch(p) // its record has the turn and the greatest cost
	}
	if ls != nil {
		c.putLease(j.seq, it.State, ls)
	}
	c.putJob(j, it.Record)
	m.arrive(arrival{job: j, lease: ls, state: it.State, holdsLane: it.HoldsLane, imported: true}, it.Record)
}

// importedLease returns what the export says about earlier attempts, or nil if that is nothing beyond the record.
func importedLease(j *job, it *importJob, due leaky.Instant) *lease {
	if it.State != queue.Held && it.Attempts == 0 && it.Reason == "" &&
		(due == 0 || due == instantOf(it.head.NotBefore)) {
		return nil
	}
	return &lease{
		job: j, attempts: it.Attempts, due: due, reason: strings.Clone(it.Reason), timeline: bytes.Clone(it.Timeline),
		heapIndex: -1, onFile: true,
	}
}

// importInBatch counts an imported job in the batch with its label, if it has one. Without room for the batch the job
// loses its label.
func (m *Machine) importInBatch(it *importJob, q *queueState, now leaky.Instant) *batch {
	switch {
	case it.head.Batch == "":
		return nil
	case !m.batchFits(q, it.head.Batch, now):
		it.Record = jobrecord.WithBatch(it.Record, "")
		return nil
	}
	return m.joinBatch(q, it.head.Batch, instantOf(it.AppendedAt), now)
}

func (m *Machine) placeEnded(it *importJob, q *queueState, now leaky.Instant) {
	b := m.importInBatch(it, q, now)
	if b != nil {
		m.endInBatch(b, it.ID, queue.Dead, now)
	}
	m.store.ended++
	d := &endedJob{
		id: strings.Clone(it.ID), key: m.store.ended, state: it.State, result: it.State, fingerprint: it.fingerprint,
		cost: uint16(it.Cost), attempts: it.Attempts,
		appended: instantOf(it.AppendedAt), at: instantOf(it.At), reason: strings.Clone(it.Reason),
	}
	if m.keepEnded(q, d); it.State == queue.Dead {
		m.store.seq++
		d.seq, d.size = m.store.seq, uint32(len(it.Record))
		m.addDead(q.name, d)
		j := &job{id: d.id, lane: q.ensureDefaultLane(), seq: d.seq, turn: firstTurn, appended: d.appended}
		m.current.putJob(j, it.Record)
	}
	m.current.putEnded(q, d, it.Timeline)
	m.wait()
}
