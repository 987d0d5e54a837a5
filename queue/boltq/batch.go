package boltq

import (
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Limits of one commit. The rest goes into the next.
const (
	batchChanges = 4096
	batchBytes   = 16 << 20
	batchForgets = 4096
)

// batch is what one commit puts on disk: the effects of changes, the resulting records of their queues, and the
// deletion of records that memory has forgotten.
type batch struct {
	effects
	now             leaky.Instant
	changes         []change
	deltas          map[*queueState]*queueDelta
	order           []*queueDelta
	forgotten       []*endedJob
	lapsedDeferrals []uint64 // keys of records to delete
	droppedTallies  []uint64 // keys of records to delete
	tallies         []*tally
	documents       int // that it writes
	store           storeRecord
	logUpdates      []logUpdate     // for the log of changes
	audited         []audited       // for the audit log
	owedAudit       []owedAudit     // what was owed before
	auditedActs     map[*jobAct]int // where those of acts on jobs stand in it
	auditDropped    uint64          // what writeAudit returned
}

// queueDelta is what a batch changes in a queue's record.
type queueDelta struct {
	queue    *queueState
	counters queue.Counters // what the changes count
	unsaved  queue.Counters // what was counted before and goes along
	ceiling  ceilings
	progress overflowProgress
	receiver *receiverState    // nil if it stays as it is
	failures []queue.LastError // newest last
	adapted  *adaptedRate      // after the changes; nil if they leave it as it is
	gone     bool              // the batch deletes the queue
	record   queueRecord
}

// deltaOf returns the batch's delta of a queue, made on first use.
func (b *batch) deltaOf(q *queueState) *queueDelta {
	d := b.deltas[q]
	if d == nil {
		d = &queueDelta{queue: q, ceiling: q.ceiling, progress: q.overflow.progress}
		b.deltas[q] = d
		b.order = append(b.order, d)
	}
	return d
}

// raise raises the ceilings of a queue and its parent.
func (b *batch) raise(q *queueState, r ceilingRaises) {
	b.deltaOf(q).raise(r.own)
	if r.parentQueue != nil { // the delta also writes the parent's greatest cost
		b.deltaOf(r.parentQueue).raise(r.parent)
	}
}

func (d *queueDelta) raise(to ceilings) { d.ceiling = d.ceiling.max(to) }

func (d *queueDelta) addFailure(at leaky.Instant, id, reason string) {
	d.failures = append(d.failures, queue.LastError{At: at.Time(), ID: id, Reason: reason})
}

// size is about how many bytes a change adds to a commit.
func size(c change) int {
	switch c := c.(type) {
	case *appendChange:
		return len(c.record)
	case *readmitChange:
		return c.size()
	case *importChange:
		return len(c.item.Record)
	case *importEndedChange:
		return len(c.item.Record)
	case *replayChange:
		return int(c.job.size)
	}
	return 64
}

// addRecords adds the records that belong to no change: of queues, of what memory has forgotten, of tallies, and of the
// store.
func (m *machine) addRecords(b *batch) {
	for _, d := range b.order {
		if d.gone || d.queue.gone {
			continue
		}
		b.putQueue(d.queue.number, d.record)
		if len(d.failures) > 0 {
			b.putFailures(d)
		}
		if d.adapted != nil {
			b.putAdapted(d.queue.number, d.adapted)
		}
	}
	each(b.forgotten, b.dropEnded)
	each(b.lapsedDeferrals, b.dropDeferral)
	for _, t := range b.tallies {
		b.putTally(t.number, t.record())
		t.batched, t.dirty, t.onFile = false, false, true
		t.repack()
	}
	each(b.droppedTallies, b.dropTally)
	m.store.commit++
	b.store = m.store
	b.store.now = b.now
	b.putStore(b.store)
}

// takeBatch makes a batch of what is pending, up to the limits.
func (m *machine) takeBatch(now leaky.Instant) *batch {
	n, bytes := 0, 0
	for n < len(m.pending) && n < batchChanges && bytes < batchBytes {
		bytes += size(m.pending[n])
		n++
	}
	b := &batch{changes: m.pending[:n:n]}
	if m.pending = m.pending[n:]; len(m.pending) == 0 {
		m.pending = nil
	}
	b.forgotten = m.forgotten[:min(len(m.forgotten), batchForgets)]
	m.forgotten = m.forgotten[len(b.forgotten):]
	b.lapsedDeferrals = m.lapsedDeferrals[:min(len(m.lapsedDeferrals), batchForgets)]
	m.lapsedDeferrals = m.lapsedDeferrals[len(b.lapsedDeferrals):]
	b.droppedTallies = m.droppedTallies.take(batchForgets)
	m.prepareBatch(b, now)
	m.addRecords(b)
	return b
}

// prepareBatch works out the records as they will be after the batch.
func (m *machine) prepareBatch(b *batch, now leaky.Instant) {
	b.now = now
	b.deltas, b.order, b.logUpdates = map[*queueState]*queueDelta{}, nil, nil
	b.effects, b.documents = effects{list: make([]effect, 0, len(b.changes)+8)}, 0
	b.audited, b.auditedActs = nil, map[*jobAct]int{}
	b.owedAudit, m.owedAudit = m.owedAudit, nil
	for i := range b.owedAudit {
		b.owedAudit[i].addTo(b)
	}
	for _, c := range b.changes {
		c.prepare(b)
	}
	for _, d := range b.order {
		q := d.queue
		d.unsaved, q.unsaved = q.unsaved, queue.Counters{}
		if d.adapted != nil {
			d.ceiling.tat = q.stretchedCeiling(d.ceiling.tat, d.adapted.pace(q.pacer), b.now)
		}
		r := q.receiver
		if d.receiver != nil {
			r = *d.receiver
		}
		d.record = q.record(counted(q.saved, d.counters, d.unsaved), d.ceiling, d.progress, r)
	}
}

// applyBatch applies a batch that is on disk to memory.
func (m *machine) applyBatch(b *batch, now leaky.Instant) {
	for _, d := range b.order {
		d.queue.saved = d.record.counters
		d.queue.ceiling = d.ceiling
		for _, f := range d.failures {
			d.queue.noteFailure(f)
		}
	}
	for _, c := range b.changes {
		switch c.(type) {
		case *endChange, *returnChange, *releaseChange:
		default: // it may be about the queue's rate, or delete the queue
			m.setAdaptedRates(now)
		}
		c.apply(m, now)
	}
	m.setAdaptedRates(now)
}

// rollBackBatch undoes a batch that is not on disk, in reverse order, so that turns are given back in the order
// opposite to that of taking them.
func (m *machine) rollBackBatch(b *batch, now leaky.Instant, err error) {
	m.returnUnsaved(b)
	for i := len(b.changes) - 1; i >= 0; i-- {
		b.changes[i].rollBack(m, now, err)
	}
	m.requeueForgotten(b)
	m.oweAgain(b)
}

// oweAgain leaves what a batch should have written, whatever else it did, to a later one.
func (m *machine) oweAgain(b *batch) {
	m.owedAudit = slices.Concat(b.owedAudit, m.owedAudit)
	b.owedAudit = nil
}

// requeueForgotten leaves what a batch should have deleted to a later one.
func (m *machine) requeueForgotten(b *batch) {
	m.forgotten, b.forgotten = append(b.forgotten, m.forgotten...), nil
	m.lapsedDeferrals, b.lapsedDeferrals = append(b.lapsedDeferrals, m.lapsedDeferrals...), nil
	m.droppedTallies.add(b.droppedTallies...)
	b.droppedTallies = nil
}

// addTally puts a tally into the batch, in the state that it has when the batch is prepared.
func (b *batch) addTally(t *tally) {
	if !t.batched && !t.gone {
		t.batched = true
		b.tallies = append(b.tallies, t)
	}
}

// returnUnsaved gives back the counters and tallies that a batch took along.
func (m *machine) returnUnsaved(b *batch) {
	for _, t := range b.tallies {
		if !t.gone {
			m.markDirty(t)
		}
	}
	for _, d := range b.order {
		q := d.queue
		q.unsaved.Add(d.unsaved.Values())
		q.pledged = q.ceiling // whoever relied on a pledge looks again
	}
}

// change is one thing to put on disk. All methods run under the engine's mutex.
type change interface {
	// prepare adds to the batch's effects, deltas, tallies and log. If the batch fails it may be called again, with
	// another one.
	prepare(b *batch)
	// apply applies it to memory: it is on disk.
	apply(m *machine, now leaky.Instant)
	// rollBack gives up what was reserved: it is not on disk.
	rollBack(m *machine, now leaky.Instant, err error)
	// freesSpace reports whether it makes room in the file. When a commit fails for want of room, such changes are
	// tried again alone.
	freesSpace() bool
}

// fileChange is a change of the file alone, which leaves memory as it is. Others embed it and say what they add.
type fileChange struct{ call *call }

func (fileChange) prepare(*batch) {}

func (c fileChange) apply(*machine, leaky.Instant) { c.call.finish(nil) }

func (c fileChange) rollBack(_ *machine, _ leaky.Instant, err error) { c.call.finish(err) }

func (fileChange) freesSpace() bool { return true }
