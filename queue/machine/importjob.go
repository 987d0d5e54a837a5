package machine

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

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
