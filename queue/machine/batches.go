package machine

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// batchSet is what a queue knows of its batches. Each job with a label is counted in the record of its batch: when it
// was accepted, and when it ended.
type batchSet struct {
	byLabel  map[string]*batch
	finished sorted[*batch] // by when they ended, then by label
	// The batches of jobs that hold a place, by the job's seq, and of deferred jobs, by the number of their deferral.
	ofJob, ofDeferral map[uint64]*batch
}

// batch is the record of a batch.
type batch struct {
	queue                                                  *queueState
	label                                                  string
	accepted, delivered, dead, cancelled, expired, missing int64
	first, last                                            leaky.Instant // when jobs were appended
	ended                                                  leaky.Instant // 0 while jobs remain
	lasts                                                  []lastJob
	moreLanes                                              bool
	deferred, olderDeferred                                int64 // jobs recorded as deferred, and in the older generation
	changed                                                bool  // Machine.changedBatches has it
	gone                                                   bool  // it was forgotten
}

// lastJob is the job of a batch that leaves its lane last.
type lastJob struct {
	lane queue.LaneDigest
	id   string
	due  leaky.Instant // 0 unless the job was scheduled
	turn int64
}

// mostStale is how many batches past their time are forgotten when a batch is made.
const mostStale = 10

func byBatchEnd(a, b *batch) bool {
	return cmp.Or(cmp.Compare(a.ended, b.ended), strings.Compare(a.label, b.label)) < 0
}

// ownBatches returns the batches of a queue for changes.
func (q *queueState) ownBatches() *batchSet {
	if q.batches == nil {
		q.batches = &batchSet{
			byLabel: map[string]*batch{}, ofJob: map[uint64]*batch{}, ofDeferral: map[uint64]*batch{},
			finished: sorted[*batch]{less: byBatchEnd},
		}
	}
	return q.batches
}

func (b *batch) remain() int64 {
	return b.accepted - b.delivered - b.dead - b.cancelled - b.expired - b.missing
}

// isStale reports whether a batch has been finished for so long that it counts as forgotten.
func (b *batch) isStale(now leaky.Instant) bool {
	return b.ended != 0 && now.Sub(b.ended) >= queue.KeepBatches
}

// batchOf returns the batch with a label, or nil.
func (q *queueState) batchOf(label string, now leaky.Instant) *batch {
	if q.batches == nil {
		return nil
	}
	if b := q.batches.byLabel[label]; b != nil && !b.isStale(now) {
		return b
	}
	return nil
}

// jobBatch returns the label of a job that holds a place.
func (q *queueState) jobBatch(j *job) string {
	if q.batches != nil {
		if b := q.batches.ofJob[j.seq]; b != nil {
			return b.label
		}
	}
	return ""
}

// batchFits reports whether a job with a label can be counted: its batch exists, or there is room for one more.
func (m *Machine) batchFits(q *queueState, label string, now leaky.Instant) bool {
	return q.batches == nil || q.batchOf(label, now) != nil || len(q.batches.byLabel) < m.maxBatches ||
		q.batches.finished.len() > 0
}

func (m *Machine) forgetBatch(b *batch) {
	s := b.queue.batches
	s.finished.remove(b)
	delete(s.byLabel, b.label)
	b.gone = true
	m.current.dropBatch(b)
}

// createBatch makes a batch, and forgets finished ones that are past their time or in its way.
func (m *Machine) createBatch(q *queueState, label string, now leaky.Instant) *batch {
	s := q.ownBatches()
	if old := s.byLabel[label]; old != nil {
		m.forgetBatch(old)
	}
	for range mostStale {
		if s.finished.len() == 0 || len(s.byLabel) < m.maxBatches && !s.finished.top().isStale(now) {
			break
		}
		m.forgetBatch(s.finished.top())
	}
	b := &batch{queue: q, label: strings.Clone(label)}
	s.byLabel[b.label] = b
	return b
}

// batchChanged notes whether a batch is finished, and adds its record to the current commit.
func (m *Machine) batchChanged(b *batch, now leaky.Instant) {
	switch remaining := b.remain(); {
	case remaining == 0 && b.ended == 0:
		b.ended, b.lasts = now, nil
		b.queue.batches.finished.push(b)
	case remaining != 0 && b.ended != 0:
		b.queue.batches.finished.remove(b)
		b.ended = 0
	}
	if !b.changed {
		b.changed = true
		m.changedBatches = append(m.changedBatches, b)
	}
}

// joinBatch counts a job that was appended at an instant in the batch with its label, for which there is room.
func (m *Machine) joinBatch(q *queueState, label string, at, now leaky.Instant) *batch {
	b := q.batchOf(label, now)
	if b == nil {
		b = m.createBatch(q, label, now)
		b.first = at
	}
	b.accepted++
	b.first, b.last = min(b.first, at), max(b.last, at)
	m.batchChanged(b, now)
	return b
}

// rejoinBatch is joinBatch for a job that ended in a state, as far as its batch knows, and now waits again: it is
// counted as remaining instead. since is when the job was appended first.
func (m *Machine) rejoinBatch(q *queueState, label string, s queue.State, since, at, now leaky.Instant) *batch {
	b := q.batchOf(label, now)
	if b == nil || *b.countOf(s) == 0 || since < b.first {
		return m.joinBatch(q, label, at, now)
	}
	*b.countOf(s)--
	b.last = max(b.last, at)
	m.batchChanged(b, now)
	return b
}

// noteLast notes a job that has joined a batch if it leaves its lane last, as far as is known.
func (b *batch) noteLast(l lastJob) {
	for i := range b.lasts {
		o := &b.lasts[i]
		if o.lane != l.lane {
			continue
		}
		if l.due > o.due || l.due == o.due && l.turn >= o.turn {
			*o = l
		}
		return
	}
	if len(b.lasts) == queue.MaxBatchLanes {
		b.moreLanes = true
		return
	}
	b.lasts = append(b.lasts, l)
}

func (b *batch) dropLast(id string) {
	b.lasts = slices.DeleteFunc(b.lasts, func(l lastJob) bool { return l.id == id })
}

// holdBatch notes the batch of a job that takes a place, if it has one.
func (m *Machine) holdBatch(j *job, b *batch, due leaky.Instant) {
	if b != nil {
		j.lane.queue.batches.ofJob[j.seq] = b
		b.noteLast(lastJob{j.lane.digest, j.id, due, j.turn})
	}
}

// countOf returns the count of the jobs that ended in a state; StateNone: the overflow lost them.
func (b *batch) countOf(s queue.State) *int64 {
	switch s {
	case queue.Delivered:
		return &b.delivered
	case queue.Dead:
		return &b.dead
	case queue.Cancelled:
		return &b.cancelled
	case queue.Expired:
		return &b.expired
	}
	return &b.missing
}

// endInBatch counts the end of a job of a batch.
func (m *Machine) endInBatch(b *batch, id string, s queue.State, now leaky.Instant) {
	*b.countOf(s)++
	b.dropLast(id)
	m.batchChanged(b, now)
}

// leaveBatch takes a withdrawn job out of its batch.
func (m *Machine) leaveBatch(b *batch, id string, now leaky.Instant) {
	b.accepted--
	b.dropLast(id)
	m.batchChanged(b, now)
}

// deferInBatch counts deferred jobs of a batch, or less if by is negative.
func (q *queueState) deferInBatch(b *batch, number uint64, by int64) {
	b.deferred += by
	if number <= q.overflow.progress.olderUpTo {
		b.olderDeferred += by
	}
}

// batchOfDeferral returns the batch that counts a deferral, or nil.
func (q *queueState) batchOfDeferral(number uint64) *batch {
	if q.batches == nil || number == 0 || q.overflow.records.get(number) == nil || !q.overflow.counts(number) {
		return nil
	}
	return q.batches.ofDeferral[number]
}

// deferWith notes the batch of a deferral, if it has one.
func (q *queueState) deferWith(b *batch, number uint64) {
	if b != nil {
		q.batches.ofDeferral[number] = b
		q.deferInBatch(b, number, 1)
	}
}

// giveUpInBatches counts the deferred jobs of the older generation as missing, and begins a generation.
func (m *Machine) giveUpInBatches(q *queueState, now leaky.Instant) {
	if q.batches == nil {
		return
	}
	for _, b := range q.batches.byLabel {
		if b.deferred == 0 {
			continue
		}
		b.missing += b.olderDeferred
		b.deferred -= b.olderDeferred
		b.olderDeferred = b.deferred
		m.batchChanged(b, now)
	}
}

// Batches returns batches of a queue, and the commit that the answer waits for. Errors: queue.ErrUnknownQueue, an
// *invalid.Error.
func (m *Machine) Batches(now leaky.Instant, r queue.BatchesRequest) (list []queue.Batch, wait uint64, err error) {
	q := m.queues[r.Queue]
	if q == nil {
		return nil, m.unlessDurable(m.deletedBy), unknownQueue(r.Queue)
	}
	if err := r.Validate(); err != nil {
		return nil, 0, err
	}
	if q.batches == nil {
		return nil, m.lastWait(), nil
	}
	labels := []string{r.Label}
	if r.Label == "" {
		labels = slices.Sorted(maps.Keys(q.batches.byLabel))
	}
	for _, label := range labels {
		if b := q.batchOf(label, now); b != nil && label > r.After && len(list) < r.Limit {
			list = append(list, b.shown(m.ahead()))
		}
	}
	return list, m.lastWait(), nil
}

// shown returns a batch as callers see it.
func (b *batch) shown(ahead time.Duration) queue.Batch {
	v := queue.Batch{
		Label: b.label, Accepted: b.accepted, Delivered: b.delivered, Dead: b.dead, Cancelled: b.cancelled,
		Expired: b.expired, Missing: b.missing, MoreLanes: b.moreLanes,
		FirstAt: b.first.Time(), LastAt: b.last.Time(),
	}
	if b.ended != 0 {
		v.EndedAt = b.ended.Time()
	}
	for i := range b.lasts {
		v.Lasts = append(v.Lasts, b.lasts[i].id)
	}
	v.ToWall(ahead)
	return v
}

func (b *batch) code(c *codec) {
	more, n := 0, len(b.lasts)
	if b.moreLanes {
		more = 1
	}
	c.fields(
		&b.accepted, &b.delivered, &b.dead, &b.cancelled, &b.expired, &b.missing, &b.first, &b.last, &b.ended, &more, &n,
	)
	if b.moreLanes = more == 1; c.decoding {
		b.lasts = make([]lastJob, max(0, min(n, queue.MaxBatchLanes)))
	}
	for i := range b.lasts {
		l := &b.lasts[i]
		c.raw(l.lane[:])
		c.fields(&l.id, &l.due, &l.turn)
	}
}

// batchKey returns the key of a batch's record: the number of its queue, and its label.
func batchKey(b *batch) string {
	return string(binary.BigEndian.AppendUint64(nil, b.queue.number)) + b.label
}

func (s *effects) putBatch(b *batch) {
	c := &codec{}
	b.code(c)
	s.putNamed(batchesTable, batchKey(b), c.b)
}

func (s *effects) dropBatch(b *batch) { s.dropNamed(batchesTable, batchKey(b)) }

func (l *loader) loadBatches(context.Context) error {
	return forEach(l.Table(batchesTable), func(k, v []byte) error {
		if len(k) <= 8 {
			return fmt.Errorf("%w: table %s has a key of %d bytes", queue.ErrCorrupt, batchesTable, len(k))
		}
		q := l.byNumber[binary.BigEndian.Uint64(k)]
		if q == nil {
			return nil
		}
		b := &batch{queue: q, label: string(k[8:])}
		c := decoder(v)
		if b.code(c); c.bad {
			return c.err("batch")
		}
		s := q.ownBatches()
		if s.byLabel[b.label] = b; b.ended != 0 {
			s.finished.push(b)
		}
		return nil
	})
}

// deferredBatch returns the batch that counts a job as deferred, or nil.
func (r *returning) deferredBatch(id string) *batch {
	if _, here := r.seen[id]; here {
		return nil
	}
	return r.queue.batchOfDeferral(r.queue.overflow.records.find(id))
}

// batch returns the batch that counts a job that comes back, or nil. A job that its batch does not count as deferred is
// appended at an instant, unless its deferral was given up: then its batch counts it as missing. Without room for its
// batch a job loses its label.
func (r *returning) batch(m *Machine, in *readmitJob, at leaky.Instant) *batch {
	if b := r.deferredBatch(in.ID); b != nil {
		return b
	}
	switch {
	case in.Batch == "":
		return nil
	case !m.batchFits(r.queue, in.Batch, r.now):
		in.record = jobrecord.WithBatch(in.record, "")
		return nil
	case in.ticket.queue == r.queue.number && in.ticket.number <= r.queue.overflow.progress.givenUpTo:
		return m.rejoinBatch(r.queue, in.Batch, queue.StateNone, leaky.Instant(in.At.UnixMicro()), at, r.now)
	}
	return m.joinBatch(r.queue, in.Batch, at, r.now)
}
