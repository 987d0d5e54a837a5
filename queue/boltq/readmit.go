package boltq

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// readmission is one call of Readmit.
type readmission struct {
	queue.ReadmitRequest
	jobs []arrival
	out  queue.Readmitted
	err  error
}

// arrival is a job on its way back.
type arrival struct {
	*queue.Readmission
	ticket ticket
	lane   queue.LaneDigest
	print  [8]byte
	record []byte // nil of what is no job
}

// Readmit implements queue.Overflow. All that it changes is one transaction: the
// jobs, the records that end, and how far the overflow was taken back.
func (e *Engine) Readmit(ctx context.Context, r queue.ReadmitRequest) (queue.Readmitted, error) {
	if err := ctx.Err(); err != nil {
		return queue.Readmitted{}, err
	}
	m, err := arrive(r)
	if err != nil {
		return queue.Readmitted{}, err
	}
	if err := rounds(ctx, e, []*readmission{m}, behindExpiry(e, e.readmit)); err != nil {
		return queue.Readmitted{}, err
	}
	if m.err != nil {
		return queue.Readmitted{}, m.err
	}
	return m.out, nil
}

// arrive checks a request and packs its jobs, outside the mutex.
func arrive(r queue.ReadmitRequest) (*readmission, error) {
	switch {
	case len(r.Holder) > 64 || queue.ValidateID(r.Holder) != nil:
		return nil, &queue.FieldError{Field: "holder", Value: queue.Shorten(r.Holder, 80), Reason: "must be 1 to 64 visible ASCII characters"}
	case len(r.Overflow) > 64:
		return nil, &queue.FieldError{Field: "overflow", Value: queue.Shorten(r.Overflow, 80), Reason: "is longer than 64 bytes"}
	case len(r.Jobs) > queue.MaxReadmit:
		return nil, &queue.FieldError{Field: "jobs", Reason: fmt.Sprintf("are %d, the limit is %d", len(r.Jobs), queue.MaxReadmit)}
	case r.Behind < 0:
		return nil, &queue.FieldError{Field: "behind", Value: fmt.Sprint(r.Behind), Reason: "must not be negative"}
	case r.Empty && len(r.Jobs) > 0, r.Empty && r.Behind > 0:
		return nil, &queue.FieldError{Field: "empty", Reason: "is said of an overflow that holds jobs"}
	}
	m := &readmission{ReadmitRequest: r, jobs: make([]arrival, len(r.Jobs))}
	for i := range r.Jobs {
		a := &m.jobs[i]
		a.Readmission, a.ticket = &r.Jobs[i], parseTicket(r.Jobs[i].Ticket)
		if a.Order < 1 || i > 0 && a.Order <= r.Jobs[i-1].Order {
			return nil, &queue.FieldError{Field: fmt.Sprintf("jobs[%d].order", i), Value: fmt.Sprint(a.Order), Reason: "must be at least 1, and grow from job to job"}
		}
		j := a.Job
		j.Queue = r.Queue
		j.Normalize()
		if j.Validate() == nil {
			a.record = queue.PackRecord(&j)
			a.print = [8]byte(a.record[queue.RecordFingerprint:])
			a.lane = digest(&j, a.record)
		}
	}
	return m, nil
}

// readmit decides a call, unless that depends on changes under way.
func (e *Engine) readmit(m *readmission, c *call, now leaky.Instant) (busy *call) {
	l := e.lines[m.Queue]
	if l == nil {
		m.err = unknownQueue(m.Queue)
		return nil
	}
	if l.busy != nil {
		return l.busy
	}
	a := &l.aside
	if a.holder != "" && a.holder != m.Holder && now < a.till {
		m.out = queue.Readmitted{Busy: a.till.Sub(now), Now: now.Time()}
		return nil
	}
	if busy := l.underWay(m); busy != nil {
		return busy
	}
	if len(m.jobs) > 0 && e.full() {
		m.err = fmt.Errorf("%w: %s", queue.ErrStoreFull, e.path)
		return nil
	}
	a.told = 0
	a.holder, a.till = m.Holder, now.Add(queue.ReadmitFor)
	if m.Leave {
		a.holder = ""
	}
	w := newReadmitting(m, l, c, now)
	w.judge(e)
	if w.changes() {
		a.taking = c
		e.enqueue(c, w)
	} else {
		m.answer(e, l, w.outcomes, 0, now)
	}
	return nil
}

// underWay returns a change that the call must wait for: another Readmit, or one
// about a job of it.
func (l *line) underWay(m *readmission) *call {
	if l.aside.taking != nil {
		return l.aside.taking
	}
	for i := range m.jobs {
		id := m.jobs[i].ID
		if j := l.jobs[id]; j != nil && j.busy != nil {
			return j.busy
		}
		if c := l.moving(id); c != nil {
			return c
		}
	}
	return nil
}

// answer says how things stand when the call is carried out.
func (m *readmission) answer(e *Engine, l *line, outcomes []queue.ReadmitOutcome, missing int64, now leaky.Instant) {
	m.out = queue.Readmitted{
		Outcomes: outcomes, Order: l.aside.way.order, Room: e.takes(l), Batch: l.batch(),
		Deferred: l.count[queue.Deferred], Behind: l.aside.way.behind, Missing: missing, Now: now.Time(),
	}
}

// The reasons of jobs that come back too late.

func tooOldReason(maxAge time.Duration) string {
	return fmt.Sprintf("deferred for longer than max_age %v", maxAge)
}

func tooLateReason(at time.Time) string {
	return fmt.Sprintf("expired at %s, while it was deferred", at.UTC().Format(time.RFC3339))
}
