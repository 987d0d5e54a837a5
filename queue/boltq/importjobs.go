package boltq

import (
	"bytes"
	"context"
	"encoding/binary"
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/jobrecord"
	"github.com/penstock/penstock/queue/move"
)

// importJob is one job of an import.
type importJob struct {
	move.Job
	queue, mark string
	head        jobrecord.Head
	lane        string
	fingerprint [8]byte
	outcome     move.Outcome
	err         error
}

// ImportJobs implements move.Mover.
func (e *Engine) ImportJobs(
	ctx context.Context, name, mark string, jobs []move.Job,
) ([]move.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := move.Validate(jobs); err != nil {
		return nil, err
	}
	items := make([]*importJob, len(jobs))
	for i, j := range jobs {
		items[i] = &importJob{Job: j, queue: name, mark: mark}
		if err := items[i].unpack(); err != nil {
			return nil, err
		}
	}
	if err := decideAll(ctx, e, items, e.placeJob); err != nil {
		return nil, err
	}
	outcomes := make([]move.Outcome, len(jobs))
	for i, it := range items {
		if it.err != nil {
			return nil, it.err
		}
		outcomes[i] = it.outcome
	}
	return outcomes, nil
}

// unpack reads what memory keeps of the record.
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

// placeJob decides about a job, unless that depends on a change under way.
func (m *machine) placeJob(it *importJob, c *call, now leaky.Instant) (busy *call) {
	q := m.queues[it.queue]
	switch {
	case q == nil:
		it.err = unknownQueue(it.queue)
		return nil
	case q.busy != nil:
		return q.busy
	case q.importing != importState{it.mark, true}:
		it.err = importNotOpen(it.queue)
		return nil
	}
	print, there, busy := q.fingerprintOf(it.ID, now)
	switch {
	case busy != nil:
		return busy
	case there && print == it.fingerprint:
		it.outcome = move.There
	case there:
		it.outcome = move.Clashes
	case m.room.full != nil:
		it.err = m.room.full
	case !it.State.Ended():
		m.placeAlive(it, q, c)
	case now.Sub(instantOf(it.At)) >= q.spec.Retention.For.D():
		it.outcome = move.Forgotten
	default:
		m.placeEnded(it, q, c)
	}
	return nil
}

// fingerprintOf returns the fingerprint that a queue has of an id, unless that depends on a change under way.
func (q *queueState) fingerprintOf(id string, now leaky.Instant) (print [8]byte, there bool, busy *call) {
	if j := q.jobs[id]; j != nil {
		return j.fingerprint, true, j.busy
	}
	if c := q.changeOf(id); c != nil {
		return print, false, c
	}
	if d := q.endedJobs.find(id, q.spec.Retention, now); d != nil {
		return d.fingerprint, true, nil
	}
	if _, d := q.deferral(id, now); d != nil {
		return d.fingerprint, true, nil
	}
	return print, false, nil
}

// placeAlive reserves the place of a job that holds one. Capacity is not checked: it was when the job was appended.
func (m *machine) placeAlive(it *importJob, q *queueState, c *call) {
	m.store.seq++
	j := &job{
		id: strings.Clone(it.ID), lane: q.lane(it.lane, it.head.Lane), seq: m.store.seq, turn: it.Turn,
		appended:    instantOf(it.AppendedAt),
		fingerprint: it.fingerprint, busy: c, size: uint32(len(it.Record)), cost: uint16(it.Cost),
	}
	if it.Back {
		j.marks = readmitted
		q.overflow.readmitted++
		q.overflow.readmittedBytes += j.bytes()
	}
	q.turn = max(q.turn, j.turnBase()+it.Cost)
	q.noteCost(it.Cost)
	q.plain = q.plain && !j.lane.keyed() && it.head.Priority == 0 && it.head.NotBefore.IsZero()
	q.jobs[j.id] = j
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
	m.enqueue(c, &importChange{call: c, job: j, item: it, lease: importedLease(j, it, due)})
}

// importedLease is what the export says about earlier attempts; nil if there is nothing beyond the record.
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

// importChange puts in a job that holds a place.
type importChange struct {
	call  *call
	job   *job
	item  *importJob
	lease *lease
}

func (c *importChange) prepare(b *batch) {
	b.raise(c.job.lane.queue, ceilingRaises{parentQueue: c.job.lane.queue.parent()}) // they write its turn and cost
	if c.lease != nil {
		b.putLease(c.job.seq, c.item.State, c.lease)
	}
	b.putJob(c.job, c.item.Record)
}

func (c *importChange) apply(m *machine, now leaky.Instant) {
	j := c.job
	j.busy = nil
	c.item.outcome = move.Placed
	if c.item.State == queue.Held {
		j.lane.queue.incoming.all--
		j.lease = c.lease
		m.setState(j, queue.Held)
		j.lane.queue.held.push(j.lease)
		c.call.finish(nil)
		return
	}
	if c.item.HoldsLane && j.lease != nil {
		j.lease.inFlight = true
		j.lane.inFlight++
	}
	arrived := m.enterJob(j, now)
	switch ls := c.lease; {
	case ls != nil && j.lease != nil:
		j.lease.attempts, j.lease.reason, j.lease.timeline, j.lease.onFile = ls.attempts, ls.reason, ls.timeline, true
	case ls != nil:
		j.lease = ls
	}
	if arrived {
		m.armAndWake(j.lane.queue, now)
	}
	c.call.finish(nil)
}

func (c *importChange) rollBack(m *machine, now leaky.Instant, err error) {
	c.job.busy = nil
	if q := c.job.lane.queue; c.item.State == queue.Held {
		q.incoming.all--
	} else {
		q.removeIncoming(c.job)
	}
	m.removeJob(c.job, now)
	c.item.err = err
	c.call.finish(err)
}

func (c *importChange) freesSpace() bool { return false }

// placeEnded adds a job that has ended.
func (m *machine) placeEnded(it *importJob, q *queueState, c *call) {
	m.store.ended++
	d := &endedJob{
		id: strings.Clone(it.ID), key: m.store.ended, state: it.State, result: it.State, fingerprint: it.fingerprint,
		cost: uint16(it.Cost), attempts: it.Attempts,
		appended: instantOf(it.AppendedAt), at: instantOf(it.At), reason: strings.Clone(it.Reason),
	}
	if it.State == queue.Dead {
		m.store.seq++
		d.seq = m.store.seq
	}
	q.claim(d.id, c)
	m.enqueue(c, &importEndedChange{call: c, queue: q, job: d, item: it})
}

// importEndedChange adds a job that has ended elsewhere.
type importEndedChange struct {
	call  *call
	queue *queueState
	job   *endedJob
	item  *importJob
}

func (c *importEndedChange) prepare(b *batch) {
	if d := c.job; d.seq != 0 {
		j := &job{id: d.id, lane: &c.queue.defaultLane, seq: d.seq, turn: firstTurn, appended: d.appended}
		b.putJob(j, c.item.Record)
	}
	b.putEnded(c.queue, c.job, c.item.Timeline)
}

func (c *importEndedChange) apply(m *machine, _ leaky.Instant) {
	c.queue.unclaim(c.job.id)
	c.queue.endedJobs.add(c.job)
	if c.job.state == queue.Dead {
		m.addDead(c.queue.spec.Name, c.job)
	}
	c.item.outcome = move.Placed
	c.call.finish(nil)
}

func (c *importEndedChange) rollBack(_ *machine, _ leaky.Instant, err error) {
	c.queue.unclaim(c.job.id)
	c.item.err = err
	c.call.finish(err)
}

func (c *importEndedChange) freesSpace() bool { return false }
