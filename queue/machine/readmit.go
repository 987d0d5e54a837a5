package machine

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/internal/jobsize"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

type readmitCall struct {
	queue.ReadmitRequest
	jobs []readmitJob
}

type readmitJob struct {
	*queue.Readmission
	ticket      ticket
	lane        queue.LaneDigest
	fingerprint [8]byte
	record      []byte // nil if it is not a valid job
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

// Readmit takes jobs back from the overflow, and returns the commit that the answer waits for. All its changes go into
// one commit: the jobs, the deferrals that end, and the progress. Errors: queue.ErrUnknownQueue, or that the store is
// full.
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
		return nil, &invalid.Error{Field: "empty", Reason: "must be false while the overflow has jobs"}
	}
	m := &readmitCall{ReadmitRequest: r, jobs: make([]readmitJob, len(r.Jobs))}
	for i := range r.Jobs {
		a := &m.jobs[i]
		a.Readmission, a.ticket = &r.Jobs[i], parseTicket(r.Jobs[i].Ticket)
		if a.Order < 1 || i > 0 && a.Order <= r.Jobs[i-1].Order {
			return nil, &invalid.Error{
				Field: fmt.Sprintf("jobs[%d].order", i), Value: fmt.Sprint(a.Order),
				Reason: "must be at least 1 and increase from job to job",
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

// Reasons of jobs that are dead when they come back.

func tooOldReason(maxAge time.Duration) string {
	return fmt.Sprintf("deferred for longer than max_age %v", maxAge)
}

func tooLateReason(at time.Time) string {
	return fmt.Sprintf("expired at %s, while it was deferred", at.UTC().Format(time.RFC3339))
}

// Announce notes that the overflow has a job of the queue. It needs no right to readmit.
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

// returning is the state of a Readmit.
type returning struct {
	queue    *queueState
	request  *readmitCall
	now      leaky.Instant
	outcomes []readmit.Outcome

	jobs       []readmittedJob
	dead       []readmittedJob // jobs that end dead
	ended      []*endedJob     // jobs cancelled while they were deferred
	records    []uint64        // the numbers of the deferrals that end
	recordKeys []uint64        // their keys
	progress   overflowProgress
	waitsFor   int64         // size of the first job that does not fit
	stored     leaky.Instant // when the last job was stored, or some time after that
	// newGeneration is set if a generation begins; missing is how many deferrals that gives up.
	newGeneration bool
	missing       int64
	// seen is what this call has done with each id.
	seen map[string]seenID
}

type readmittedJob struct {
	job    *job
	record []byte
	ended  *endedJob // of a dead job
}

// seenID is what a call did with an id. Its deferral, if any, has ended; known is set if the queue knows the id now.
type seenID struct {
	known       bool
	fingerprint [8]byte
}

func newReturning(m *readmitCall, q *queueState, now leaky.Instant) *returning {
	w := &returning{
		queue: q, request: m, now: now, progress: q.overflow.progress,
		outcomes: make([]readmit.Outcome, len(m.jobs)),
	}
	if w.progress.overflow != m.Overflow {
		w.progress.overflow, w.progress.order = strings.Clone(m.Overflow), 0
	}
	return w
}

// judge decides the jobs in order, up to the first that cannot pass, and gives places to the jobs that come back.
func (w *returning) judge(m *Machine) {
	q := w.queue
	behind := w.request.Behind
	for i := range w.request.jobs {
		a := &w.request.jobs[i]
		w.outcomes[i] = w.decide(m, a)
		if a.ticket.queue == q.number { // so At is of this engine's clock
			w.stored = min(leaky.Instant(a.At.UnixMicro()), w.now)
		}
		if !w.outcomes[i].Final() {
			behind += int64(len(w.request.jobs) - i)
			break
		}
		w.progress.order = max(w.progress.order, a.Order)
	}
	// the caller may not have seen the announced job
	if a := w.progress.announced; a > 0 && instantOf(w.request.AsOf) <= a {
		behind = max(behind, min(w.progress.behind, 1))
	}
	w.progress.behind = behind
	if len(w.request.jobs) > 0 || w.request.Empty {
		q.ownOverflow().headNeeds = w.waitsFor
	}
	if w.request.Empty {
		w.stored = w.now
	}
	if w.progress.generationSince.Add(queue.OrphanAfter) < w.stored {
		w.nextGeneration()
	}
}

// nextGeneration begins a generation. A job stored after the whole older generation has been seen, so none of that
// generation can still be on the overflow.
func (w *returning) nextGeneration() {
	a := w.queue.overflow
	w.newGeneration, w.missing = true, a.olderGeneration.n
	for _, n := range w.records {
		if a.counts(n) && n <= a.progress.olderUpTo {
			w.missing--
		}
	}
	w.progress.givenUpTo, w.progress.olderUpTo, w.progress.generationSince = a.progress.olderUpTo, a.lastTicket, w.now
}

// decide decides about one job. The order of the checks is part of the contract.
func (w *returning) decide(m *Machine, a *readmitJob) readmit.Outcome {
	q := w.queue
	if a.Order <= w.progress.order {
		return readmit.Passed
	}
	if a.Done {
		w.dropRecord(a)
		return readmit.Passed
	}
	if a.Ticket != "" && a.ticket.queue != q.number {
		return readmit.Orphaned
	}
	if a.record == nil {
		return readmit.Unreadable
	}
	if print, known := w.known(a.ID); known {
		if print != a.fingerprint {
			return readmit.Clash
		}
		return readmit.Passed
	}
	number, d := w.recordOf(a.ID)
	if d != nil && d.fingerprint != a.fingerprint {
		return readmit.Clash
	}
	if d != nil && d.state == cancelledDeferral {
		w.cancelled(m, a, number, d)
		return readmit.Passed
	}
	if maxAge := q.spec.Deferred.MaxAge.D(); leaky.Instant(a.At.UnixMicro()).Add(maxAge) < w.now {
		w.bury(m, a, tooOldReason(maxAge))
		return readmit.TooOld
	}
	if at := instantOf(a.ExpiresAt); at != 0 && at <= m.wall(w.now) {
		w.bury(m, a, tooLateReason(a.ExpiresAt))
		return readmit.TooLate
	}
	needs, most := jobsize.Of(a.ID, len(a.record)), m.byteLimit(q)
	if needs > most {
		w.bury(m, a, tooLargeReason(needs, most))
		return readmit.TooLarge
	}
	if w.request.Closed || q.freePlaces() == 0 {
		return readmit.NotYet
	}
	if !q.fitsReadmission(needs, most) {
		w.waitsFor = needs
		return readmit.NotYet
	}
	w.enter(m, a)
	return readmit.Returned
}

// known reports whether the queue knows the id, and with what fingerprint.
func (w *returning) known(id string) (print [8]byte, known bool) {
	if s, here := w.seen[id]; here && s.known {
		return s.fingerprint, true
	}
	if j := w.queue.jobs[id]; j != nil {
		return j.fingerprint, true
	}
	if d := w.queue.endedJobs.find(id, w.queue.spec.Retention, w.now); d != nil {
		return d.fingerprint, true
	}
	return print, false
}

func (w *returning) recordOf(id string) (uint64, *deferral) {
	if _, here := w.seen[id]; here {
		return 0, nil
	}
	return w.queue.deferral(id, w.now)
}

// markSeen notes what has become of an id, and ends its deferral, even a lapsed one.
func (w *returning) markSeen(id string, s seenID) {
	if _, here := w.seen[id]; !here {
		if n := w.queue.overflow.records.find(id); n != 0 {
			w.records = append(w.records, n)
			w.recordKeys = append(w.recordKeys, w.queue.overflow.records.get(n).seq)
		}
	}
	if w.seen == nil {
		w.seen = make(map[string]seenID, len(w.request.jobs))
	}
	w.seen[id] = s
}

func (w *returning) dropRecord(a *readmitJob) {
	number, d := w.recordOf(a.ID)
	if d == nil || a.ticket != (ticket{w.queue.number, number}) {
		return
	}
	w.markSeen(a.ID, seenID{})
}

func (w *returning) cancelled(m *Machine, a *readmitJob, number uint64, d *deferral) {
	m.store.ended++
	w.ended = append(w.ended, &endedJob{
		id: strings.Clone(a.ID), key: m.store.ended, state: queue.Cancelled, fingerprint: d.fingerprint, cost: d.cost,
		appended: d.at, at: w.now,
	})
	w.markSeen(a.ID, seenID{true, a.fingerprint})
}

// bury ends a job as dead that is too late or does not fit.
func (w *returning) bury(m *Machine, a *readmitJob, reason string) {
	j := w.job(m, a)
	j.appended = leaky.Instant(a.At.UnixMicro())
	m.store.ended++
	w.dead = append(w.dead, readmittedJob{j, a.record, &endedJob{
		id: j.id, key: m.store.ended, seq: j.seq, state: queue.Dead, fingerprint: j.fingerprint, cost: j.cost,
		size: j.size, appended: j.appended, at: w.now, reason: reason,
	}})
	w.markSeen(j.id, seenID{true, a.fingerprint})
}

// enter gives a job its place now, and its lane once that is durable.
func (w *returning) enter(m *Machine, a *readmitJob) {
	j := w.job(m, a)
	j.lane = w.queue.lane(a.Lane, a.lane)
	j.appended, j.marks = w.now, readmitted
	m.reservePlace(j, &a.Job, w.now)
	overflow := w.queue.ownOverflow()
	overflow.readmitted++
	overflow.readmittedBytes += j.bytes()
	w.jobs = append(w.jobs, readmittedJob{job: j, record: a.record})
	w.markSeen(j.id, seenID{true, a.fingerprint})
}

func (w *returning) job(m *Machine, a *readmitJob) *job {
	m.store.seq++
	return &job{
		id: strings.Clone(a.ID), lane: w.queue.ensureDefaultLane(), seq: m.store.seq, fingerprint: a.fingerprint,
		size: uint32(len(a.record)), cost: uint16(max(1, a.Cost)),
	}
}

func (w *returning) changes() bool {
	return len(w.jobs)+len(w.dead)+len(w.ended)+len(w.records) > 0 || w.progress != w.queue.overflow.progress
}

func (w *returning) apply(m *Machine) {
	q, c := w.queue, m.touch(w.queue)
	q.counters.Appended += int64(len(w.jobs))
	q.counters.Returned += int64(len(w.jobs))
	q.counters.Died += int64(len(w.dead))
	q.counters.Missing += w.missing
	for _, r := range w.jobs {
		c.putJob(r.job, r.record)
		m.arrive(arrival{job: r.job}, r.record)
	}
	for _, r := range w.dead {
		c.putJob(r.job, r.record)
		c.putEnded(q, r.ended, nil)
		m.rememberEnded(q, r.ended, w.now)
	}
	for _, d := range w.ended {
		c.putEnded(q, d, nil)
		m.rememberEnded(q, d, w.now)
	}
	each(w.recordKeys, c.dropDeferral)
	for _, n := range w.records {
		m.removeDeferral(q, n)
	}
	if w.newGeneration {
		m.countDeferred(q, 0, q.overflow.olderGeneration.negative())
		q.ownOverflow().olderGeneration = recordCount{q.counts[queue.Deferred], q.overflow.cost, q.overflow.bytes}
	}
	q.ownOverflow().progress = w.progress
	m.trackBacklog(q)
}
