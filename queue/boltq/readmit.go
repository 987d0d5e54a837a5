package boltq

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/jobrecord"
	"github.com/penstock/penstock/queue/readmit"
)

// readmitCall is one call of Readmit.
type readmitCall struct {
	queue.ReadmitRequest
	jobs   []readmitJob
	answer queue.Readmitted
	err    error
}

// readmitJob is one job that comes back.
type readmitJob struct {
	*queue.Readmission
	ticket      ticket
	lane        queue.LaneDigest
	fingerprint [8]byte
	record      []byte // nil if it is no valid job
}

// Readmit implements queue.Overflow. All its effects are one transaction: the jobs, the deferrals that end, and the
// progress.
func (e *Engine) Readmit(ctx context.Context, r queue.ReadmitRequest) (queue.Readmitted, error) {
	if err := ctx.Err(); err != nil {
		return queue.Readmitted{}, err
	}
	m, err := prepareReadmit(r)
	if err != nil {
		return queue.Readmitted{}, err
	}
	if err := decideAll(ctx, e, []*readmitCall{m}, afterExpiry(e.machine, e.readmit)); err != nil {
		return queue.Readmitted{}, err
	}
	if m.err != nil {
		return queue.Readmitted{}, m.err
	}
	return m.answer, nil
}

// prepareReadmit checks a request and packs its jobs, outside the mutex.
func prepareReadmit(r queue.ReadmitRequest) (*readmitCall, error) {
	switch {
	case len(r.Holder) > 64 || queue.ValidateID(r.Holder) != nil:
		return nil, &queue.FieldError{
			Field: "holder", Value: queue.Shorten(r.Holder, 80), Reason: "must be 1 to 64 visible ASCII characters",
		}
	case len(r.Overflow) > 64:
		return nil, &queue.FieldError{
			Field: "overflow", Value: queue.Shorten(r.Overflow, 80), Reason: "is longer than 64 bytes",
		}
	case len(r.Jobs) > queue.MaxReadmit:
		return nil, &queue.FieldError{
			Field: "jobs", Reason: fmt.Sprintf("are %d, the limit is %d", len(r.Jobs), queue.MaxReadmit),
		}
	case r.Behind < 0:
		return nil, &queue.FieldError{Field: "behind", Value: fmt.Sprint(r.Behind), Reason: "must not be negative"}
	case r.Empty && len(r.Jobs) > 0, r.Empty && r.Behind > 0:
		return nil, &queue.FieldError{Field: "empty", Reason: "is said of an overflow that holds jobs"}
	}
	m := &readmitCall{ReadmitRequest: r, jobs: make([]readmitJob, len(r.Jobs))}
	for i := range r.Jobs {
		a := &m.jobs[i]
		a.Readmission, a.ticket = &r.Jobs[i], parseTicket(r.Jobs[i].Ticket)
		if a.Order < 1 || i > 0 && a.Order <= r.Jobs[i-1].Order {
			return nil, &queue.FieldError{
				Field: fmt.Sprintf("jobs[%d].order", i), Value: fmt.Sprint(a.Order),
				Reason: "must be at least 1, and grow from job to job",
			}
		}
		j := a.Job
		j.Queue = r.Queue
		j.Normalize()
		if j.Validate() == nil {
			a.record = jobrecord.Pack(&j)
			a.fingerprint = [8]byte(a.record[jobrecord.FingerprintAt:])
			a.lane = laneDigest(&j, a.record)
		}
	}
	return m, nil
}

// readmit decides a call, unless that depends on a change under way.
func (m *machine) readmit(k *readmitCall, c *call, now leaky.Instant) (busy *call) {
	q := m.queues[k.Queue]
	if q == nil {
		k.err = unknownQueue(k.Queue)
		return nil
	}
	if q.busy != nil {
		return q.busy
	}
	a := &q.overflow
	if a.holder != "" && a.holder != k.Holder && now < a.holderUntil {
		k.answer = queue.Readmitted{Busy: a.holderUntil.Sub(now), Now: now.Time()}
		return nil
	}
	if busy := q.readmitBlockedBy(k); busy != nil {
		return busy
	}
	if len(k.jobs) > 0 && m.room.full != nil {
		k.err = m.room.full
		return nil
	}
	a.announcedAt = 0
	a.holder, a.holderUntil = k.Holder, now.Add(queue.ReadmitFor)
	if k.Leave {
		a.holder = ""
	}
	w := newReadmitChange(k, q, c, now)
	w.judge(m)
	if w.changes() {
		a.readmit = c
		m.enqueue(c, w)
	} else {
		k.fillAnswer(m, q, w.outcomes, 0, now)
	}
	return nil
}

// readmitBlockedBy returns a change that the call must wait for: another Readmit, or one of a job in it.
func (q *queueState) readmitBlockedBy(m *readmitCall) *call {
	if q.overflow.readmit != nil {
		return q.overflow.readmit
	}
	for i := range m.jobs {
		id := m.jobs[i].ID
		if j := q.jobs[id]; j != nil && j.busy != nil {
			return j.busy
		}
		if c := q.changeOf(id); c != nil {
			return c
		}
	}
	return nil
}

// fillAnswer answers with the state after the call.
func (k *readmitCall) fillAnswer(
	m *machine, q *queueState, outcomes []readmit.Outcome, missing int64, now leaky.Instant,
) {
	k.answer = queue.Readmitted{
		Outcomes: outcomes, Order: q.overflow.progress.order, Room: m.overflowRoom(q), Batch: q.readmitBatch(),
		Deferred: q.counts[queue.Deferred], Behind: q.overflow.progress.behind, Missing: missing, Now: now.Time(),
	}
}

// Why jobs that come back end dead.

func tooOldReason(maxAge time.Duration) string {
	return fmt.Sprintf("deferred for longer than max_age %v", maxAge)
}

func tooLateReason(at time.Time) string {
	return fmt.Sprintf("expired at %s, while it was deferred", at.UTC().Format(time.RFC3339))
}

// Announce implements queue.Overflow.
func (e *Engine) Announce(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m := &readmitCall{ReadmitRequest: queue.ReadmitRequest{Queue: name}}
	if err := decideAll(ctx, e, []*readmitCall{m}, e.announce); err != nil {
		return err
	}
	return m.err
}

// announce is a Readmit that only says that there is something, whoever holds the right to readmit.
func (m *machine) announce(k *readmitCall, c *call, now leaky.Instant) (busy *call) {
	q := m.queues[k.Queue]
	if q == nil {
		k.err = unknownQueue(k.Queue)
		return nil
	}
	if q.busy != nil {
		return q.busy
	}
	if q.overflow.readmit != nil {
		return q.overflow.readmit
	}
	w := &readmitChange{call: c, queue: q, request: k, now: now, progress: q.overflow.progress}
	w.progress.behind, w.progress.announced = max(1, w.progress.behind), now
	q.overflow.readmit = c
	m.enqueue(c, w)
	return nil
}
