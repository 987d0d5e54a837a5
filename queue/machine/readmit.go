package machine

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// readmitCall is one call of Readmit.
type readmitCall struct {
	queue.ReadmitRequest
	jobs []readmitJob
}

// readmitJob is one job that comes back.
type readmitJob struct {
	*queue.Readmission
	ticket      ticket
	lane        queue.LaneDigest
	fingerprint [8]byte
	record      []byte // nil if it is no valid job
}

// Readmission is a Readmit that is checked and packed, which needs no machine.
type Readmission struct{ readmitCall }

// NewReadmission checks a request. Errors: an *invalid.Error.
func NewReadmission(r queue.ReadmitRequest) (*Readmission, error) {
	k, err := prepareReadmit(r)
	if err != nil {
		return nil, err
	}
	return &Readmission{*k}, nil
}

// Readmit takes jobs back from the overflow, and returns the commit that the answer waits for. All that it does goes
// into one commit: the jobs, the deferrals that end, and the progress. Errors: queue.ErrUnknownQueue, that there is no
// room.
func (m *Machine) Readmit(now leaky.Instant, r *Readmission) (queue.Readmitted, uint64, error) {
	m.expire(now)
	k := &r.readmitCall
	q := m.queues[k.Queue]
	if q == nil {
		return queue.Readmitted{}, m.unlessDurable(m.deletedBy), unknownQueue(k.Queue)
	}
	a := q.ownOverflow()
	if a.holder != "" && a.holder != k.Holder && now < a.holderUntil {
		return queue.Readmitted{Busy: a.holderUntil.Sub(now), Now: now.Time()}, 0, nil
	}
	if len(k.jobs) > 0 && m.full() != nil {
		return queue.Readmitted{}, 0, m.full()
	}
	a.announcedAt = 0
	a.holder, a.holderUntil = k.Holder, now.Add(queue.ReadmitFor)
	if k.Leave {
		a.holder = ""
	}
	w := newReturning(k, q, now)
	w.judge(m)
	wait := m.lastWait()
	if w.changes() {
		w.apply(m)
		wait = m.wait()
	}
	return queue.Readmitted{
		Outcomes: w.outcomes, Order: a.progress.order, Room: m.overflowRoom(q), Batch: q.readmitBatch(),
		Deferred: q.counts[queue.Deferred], Behind: a.progress.behind, Missing: w.missing, Now: now.Time(),
	}, wait, nil
}

// prepareReadmit checks a request and packs its jobs.
func prepareReadmit(r queue.ReadmitRequest) (*readmitCall, error) {
	switch {
	case len(r.Holder) > 64 || names.ValidateID(r.Holder) != nil:
		return nil, &invalid.Error{
			Field: "holder", Value: clip.Quote(r.Holder, 80), Reason: "must be 1 to 64 visible ASCII characters",
		}
	case len(r.Overflow) > 64:
		return nil, &invalid.Error{
			Field: "overflow", Value: clip.Quote(r.Overflow, 80), Reason: "is longer than 64 bytes",
		}
	case len(r.Jobs) > queue.MaxReadmit:
		return nil, &invalid.Error{
			Field: "jobs", Reason: fmt.Sprintf("are %d, the limit is %d", len(r.Jobs), queue.MaxReadmit),
		}
	case r.Behind < 0:
		return nil, &invalid.Error{Field: "behind", Value: fmt.Sprint(r.Behind), Reason: "must not be negative"}
	case r.Empty && len(r.Jobs) > 0, r.Empty && r.Behind > 0:
		return nil, &invalid.Error{Field: "empty", Reason: "is said of an overflow that holds jobs"}
	}
	m := &readmitCall{ReadmitRequest: r, jobs: make([]readmitJob, len(r.Jobs))}
	for i := range r.Jobs {
		a := &m.jobs[i]
		a.Readmission, a.ticket = &r.Jobs[i], parseTicket(r.Jobs[i].Ticket)
		if a.Order < 1 || i > 0 && a.Order <= r.Jobs[i-1].Order {
			return nil, &invalid.Error{
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

// Why jobs that come back end dead.

func tooOldReason(maxAge time.Duration) string {
	return fmt.Sprintf("deferred for longer than max_age %v", maxAge)
}

func tooLateReason(at time.Time) string {
	return fmt.Sprintf("expired at %s, while it was deferred", at.UTC().Format(time.RFC3339))
}

// Announce notes that there is something on the overflow, whoever holds the right to readmit.
func (m *Machine) Announce(now leaky.Instant, name string) (wait uint64, err error) {
	q := m.queues[name]
	if q == nil {
		return 0, unknownQueue(name)
	}
	w := &q.ownOverflow().progress
	w.behind, w.announced = max(1, w.behind), now
	m.trackBacklog(q)
	return m.touch(q).Number, nil
}
