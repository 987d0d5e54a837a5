package boltq

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Limits of one commit. What is over goes in the next.
const (
	batchChanges = 4096
	batchBytes   = 16 << 20
	batchForgets = 4096
)

// batch is what one commit puts on disk: changes, what they make of their
// queues' records, and the records of jobs that memory has forgotten.
type batch struct {
	now     leaky.Instant
	changes []change
	deltas  map[*line]*delta
	order   []*delta
	forget  []*ended
	expunge []uint64 // records of deferred jobs
	dropped []uint64 // records of tallies
	tallies []*tally
	records [][]byte // of those
	store   storeRecord
	notes   []noting // for the record of changes
}

// delta is what a batch changes in a queue's record.
type delta struct {
	line     *line
	counters counters // by the changes
	loose    counters // that go along
	ceiling  ceilings
	way      way
	heard    *heard            // nil if it stays as it is
	failures []queue.LastError // newest last
	adapted  *adapted          // as the changes make it; nil if they do not
	gone     bool              // the queue is deleted in this batch
	record   lineRecord
}

// of returns the batch's delta of a queue.
func (b *batch) of(l *line) *delta {
	d := b.deltas[l]
	if d == nil {
		d = &delta{line: l, ceiling: l.ceiling, way: l.aside.way}
		b.deltas[l] = d
		b.order = append(b.order, d)
	}
	return d
}

// raise raises the ceilings of a queue and its parent.
func (b *batch) raise(l *line, r raises) {
	b.of(l).raise(r.own)
	if r.above != nil { // with its greatest cost
		b.of(r.above).raise(r.parent)
	}
}

func (d *delta) raise(to ceilings) { d.ceiling = d.ceiling.with(to) }

func (d *delta) fail(at leaky.Instant, id, reason string) {
	d.failures = append(d.failures, queue.LastError{At: at.Time(), ID: id, Reason: reason})
}

// size is about what a change adds to a commit.
func size(c change) int {
	switch c := c.(type) {
	case *appending:
		return len(c.record)
	case *readmitting:
		return c.size()
	case *placing:
		return len(c.it.Record)
	case *recalling:
		return len(c.it.Record)
	case *reviving:
		return int(c.job.size)
	}
	return 64
}

// take makes a batch of what is pending, up to the limits.
func (e *Engine) take() *batch {
	n, bytes := 0, 0
	for n < len(e.pending) && n < batchChanges && bytes < batchBytes {
		bytes += size(e.pending[n])
		n++
	}
	b := &batch{changes: e.pending[:n:n]}
	if e.pending = e.pending[n:]; len(e.pending) == 0 {
		e.pending = nil
	}
	b.forget = e.forget[:min(len(e.forget), batchForgets)]
	e.forget = e.forget[len(b.forget):]
	b.expunge = e.expunged[:min(len(e.expunged), batchForgets)]
	e.expunged = e.expunged[len(b.expunge):]
	b.dropped = e.dropped.take(batchForgets)
	e.tally(b)
	return b
}

// tally works out the records of the batch's queues as they will be.
func (e *Engine) tally(b *batch) {
	b.now = e.now()
	b.deltas, b.order, b.notes = map[*line]*delta{}, nil, nil
	for _, c := range b.changes {
		c.tally(b)
	}
	for _, d := range b.order {
		l := d.line
		d.loose, l.loose = l.loose, counters{}
		if d.adapted != nil {
			d.ceiling.tat = l.stretched(d.ceiling.tat, d.adapted.pace(l.pacer), b.now)
		}
		h := l.heard
		if d.heard != nil {
			h = *d.heard
		}
		d.record = l.record(l.kept.plus(d.counters).plus(d.loose), d.ceiling, d.way, h)
	}
	for _, t := range b.tallies {
		b.records = append(b.records, t.record())
		t.batched, t.dirty, t.filed = false, false, true
		t.rest()
	}
	e.store.commit++
	b.store = e.store
	b.store.now = b.now
}

// landed applies a batch that is on disk.
func (e *Engine) landed(b *batch) {
	now := e.now()
	for _, d := range b.order {
		d.line.kept = d.record.counters
		d.line.ceiling = d.ceiling
		for _, f := range d.failures {
			d.line.fail(f)
		}
	}
	for _, c := range b.changes {
		c.done(e, now)
	}
}

// sunk gives up a batch that is not on disk. Later places are given up first,
// so that turns are taken back in the order opposite to that of giving.
func (e *Engine) sunk(b *batch, err error) {
	e.unloose(b)
	for i := len(b.changes) - 1; i >= 0; i-- {
		b.changes[i].undone(e, err)
	}
	e.keepForLater(b)
}

// keepForLater takes back what a batch should have forgotten.
func (e *Engine) keepForLater(b *batch) {
	e.forget, b.forget = append(b.forget, e.forget...), nil
	e.expunged, b.expunge = append(b.expunge, e.expunged...), nil
	e.dropped.add(b.dropped...)
	b.dropped = nil
}

// keepTally puts a tally into the batch, as it is when the batch is made.
func (b *batch) keepTally(t *tally) {
	if !t.batched && !t.gone {
		t.batched = true
		b.tallies = append(b.tallies, t)
	}
}

// unloose gives back the loose counters and the tallies that a batch took along.
func (e *Engine) unloose(b *batch) {
	for _, t := range b.tallies {
		if !t.gone {
			e.change(t)
		}
	}
	for _, d := range b.order {
		l := d.line
		l.loose = l.loose.plus(d.loose)
		l.pledged = l.ceiling // whoever relied on a pledge looks again
	}
}
