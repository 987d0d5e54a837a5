package machine

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/internal/jobsize"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// Readmission is a Readmit that is checked and packed, which needs no machine.
type Readmission struct {
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

// NewReadmission checks a request and packs its jobs. Errors: an *invalid.Error.
func NewReadmission(r queue.ReadmitRequest) (*Readmission, error) {
	switch {
	case len(r.Holder) > 64 || names.ValidateID(r.Holder) != nil:
		return nil, invalid.Errorf("holder", r.Holder, "must be 1 to 64 visible ASCII characters")
	case len(r.Overflow) > 64:
		return nil, invalid.Errorf("overflow", r.Overflow, "is longer than 64 bytes")
	case len(r.Jobs) > queue.MaxReadmit:
		return nil, invalid.Errorf("jobs", "", "are %d, the limit is %d", len(r.Jobs), queue.MaxReadmit)
	case r.Behind < 0:
		return nil, invalid.Errorf("behind", "", "is %d, must be 0 or more", r.Behind)
	case r.Empty && len(r.Jobs) > 0, r.Empty && r.Behind > 0:
		return nil, invalid.Errorf("empty", "", "must be false while the overflow has jobs")
	}
	back := &Readmission{ReadmitRequest: r, jobs: make([]readmitJob, len(r.Jobs))}
	for i := range r.Jobs {
		in := &back.jobs[i]
		in.Readmission, in.ticket = &r.Jobs[i], parseTicket(r.Jobs[i].Ticket)
		if in.Order < 1 || i > 0 && in.Order <= r.Jobs[i-1].Order {
			return nil, invalid.Errorf(
				fmt.Sprintf("jobs[%d].order", i), "", "is %d, must be at least 1 and increase from job to job", in.Order,
			)
		}
		j := in.Job
		j.Queue = r.Queue
		j.Normalize()
		if j.Validate() == nil {
			in.record = jobrecord.Pack(&j)
			in.fingerprint = [8]byte(in.record[jobrecord.FingerprintAt:])
			in.lane = laneDigest(&j, in.record)
		}
	}
	return back, nil
}

// Readmit takes jobs back from the overflow, and returns the commit that the answer waits for. All its changes go into
// one commit: the jobs, the deferrals that end, and the progress. Errors: queue.ErrUnknownQueue, or that the store is
// full.
func (m *Machine) Readmit(now leaky.Instant, back *Readmission) (queue.Readmitted, uint64, error) {
	m.expire(now)
	q := m.queues[back.Queue]
	if q == nil {
		return queue.Readmitted{}, m.unlessDurable(m.deletedBy), unknownQueue(back.Queue)
	}
	o := q.ownOverflow()
	if o.holder != "" && o.holder != back.Holder && now < o.holderUntil {
		return queue.Readmitted{Busy: o.holderUntil.Sub(now), Now: now.Time()}, 0, nil
	}
	if len(back.jobs) > 0 && m.full() != nil {
		return queue.Readmitted{}, 0, m.full()
	}
	o.announcedAt = 0
	o.holder, o.holderUntil = back.Holder, now.Add(queue.ReadmitFor)
	if back.Leave {
		o.holder = ""
	}
	r := newReturning(back, q, now)
	r.judge(m)
	wait := m.lastWait()
	if r.changes() {
		r.apply(m)
		wait = m.wait()
	}
	return queue.Readmitted{
		Outcomes: r.outcomes, Order: o.progress.order, Room: m.overflowRoom(q), Batch: q.readmitBatch(),
		Deferred: q.counts[queue.Deferred], Behind: o.progress.behind, Missing: r.missing, Now: now.Time(),
	}, wait, nil
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
	p := &q.ownOverflow().progress
	p.behind, p.announced = max(1, p.behind), now
	m.trackBacklog(q)
	return m.touch(q).Number, nil
}

// returning is the state of a Readmit.
type returning struct {
	queue    *queueState
	request  *Readmission
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

func newReturning(back *Readmission, q *queueState, now leaky.Instant) *returning {
	r := &returning{
		queue: q, request: back, now: now, progress: q.overflow.progress,
		outcomes: make([]readmit.Outcome, len(back.jobs)),
	}
	if r.progress.overflow != back.Overflow {
		r.progress.overflow, r.progress.order = strings.Clone(back.Overflow), 0
	}
	return r
}

// judge decides the jobs in order, up to the first that cannot pass, and gives places to the jobs that come back.
func (r *returning) judge(m *Machine) {
	q := r.queue
	behind := r.request.Behind
	for i := range r.request.jobs {
		in := &r.request.jobs[i]
		r.outcomes[i] = r.decide(m, in)
		if in.ticket.queue == q.number { // so At is of this engine's clock
			r.stored = min(leaky.Instant(in.At.UnixMicro()), r.now)
		}
		if !r.outcomes[i].Final() {
			behind += int64(len(r.request.jobs) - i)
			break
		}
		r.progress.order = max(r.progress.order, in.Order)
	}
	// the caller may not have seen the announced job
	if at := r.progress.announced; at > 0 && instantOf(r.request.AsOf) <= at {
		behind = max(behind, min(r.progress.behind, 1))
	}
	r.progress.behind = behind
	if len(r.request.jobs) > 0 || r.request.Empty {
		q.ownOverflow().headNeeds = r.waitsFor
	}
	if r.request.Empty {
		r.stored = r.now
	}
	if r.progress.generationSince.Add(queue.OrphanAfter) < r.stored {
		r.nextGeneration()
	}
}

// nextGeneration gives up what is left of the older generation, and makes the current generation the older one. A job
// has come back that was stored later than the older generation can have been, so none of it is still on the overflow.
func (r *returning) nextGeneration() {
	o := r.queue.overflow
	r.newGeneration, r.missing = true, o.olderGeneration.n
	for _, n := range r.records {
		if o.counts(n) && n <= o.progress.olderUpTo {
			r.missing--
		}
	}
	r.progress.givenUpTo, r.progress.olderUpTo, r.progress.generationSince = o.progress.olderUpTo, o.lastTicket, r.now
}

// decide decides about one job. The order of the checks is part of the contract.
func (r *returning) decide(m *Machine, in *readmitJob) readmit.Outcome {
	q := r.queue
	if in.Order <= r.progress.order {
		return readmit.Passed
	}
	if in.Done {
		r.dropRecord(m, in)
		return readmit.Passed
	}
	if in.Ticket != "" && in.ticket.queue != q.number {
		return readmit.Orphaned
	}
	if in.record == nil {
		return readmit.Unreadable
	}
	if print, known := r.known(in.ID); known {
		if print != in.fingerprint {
			return readmit.Clash
		}
		return readmit.Passed
	}
	number, d := r.recordOf(in.ID)
	if d != nil && d.fingerprint != in.fingerprint {
		return readmit.Clash
	}
	if d != nil && d.state == cancelledDeferral {
		r.cancelled(m, in, number, d)
		return readmit.Passed
	}
	if b := r.deferredBatch(in.ID); b != nil && b.label != in.Batch {
		// This copy was stored under another batch, before the job was withdrawn or forgotten and appended anew.
		in.Batch, in.record = b.label, jobrecord.WithBatch(in.record, b.label)
	}
	if maxAge := q.spec.Deferred.MaxAge.D(); leaky.Instant(in.At.UnixMicro()).Add(maxAge) < r.now {
		r.bury(m, in, tooOldReason(maxAge))
		return readmit.TooOld
	}
	if at := instantOf(in.ExpiresAt); at != 0 && at <= m.wall(r.now) {
		r.bury(m, in, tooLateReason(in.ExpiresAt))
		return readmit.TooLate
	}
	needs, most := jobsize.Of(in.ID, len(in.record)), m.byteLimit(q)
	if needs > most {
		r.bury(m, in, tooLargeReason(needs, most))
		return readmit.TooLarge
	}
	if r.request.Closed || q.freePlaces() == 0 {
		return readmit.NotYet
	}
	if !q.fitsReadmission(needs, most) {
		r.waitsFor = needs
		return readmit.NotYet
	}
	r.enter(m, in)
	return readmit.Returned
}

// known reports whether the queue knows the id, and with what fingerprint.
func (r *returning) known(id string) (print [8]byte, known bool) {
	if s, here := r.seen[id]; here && s.known {
		return s.fingerprint, true
	}
	if j := r.queue.jobs[id]; j != nil {
		return j.fingerprint, true
	}
	if d := r.queue.endedJobs.find(id, r.queue.spec.Retention, r.now); d != nil {
		return d.fingerprint, true
	}
	return print, false
}

func (r *returning) recordOf(id string) (uint64, *deferral) {
	if _, here := r.seen[id]; here {
		return 0, nil
	}
	return r.queue.deferral(id, r.now)
}

// markSeen notes what has become of an id, and ends its deferral, even a lapsed one.
func (r *returning) markSeen(id string, s seenID) {
	if _, here := r.seen[id]; !here {
		if n := r.queue.overflow.records.find(id); n != 0 {
			r.records = append(r.records, n)
			r.recordKeys = append(r.recordKeys, r.queue.overflow.records.get(n).seq)
		}
	}
	if r.seen == nil {
		r.seen = make(map[string]seenID, len(r.request.jobs))
	}
	r.seen[id] = s
}

func (r *returning) dropRecord(m *Machine, in *readmitJob) {
	number, d := r.recordOf(in.ID)
	if d == nil || in.ticket != (ticket{r.queue.number, number}) {
		return
	}
	if b := r.queue.batchOfDeferral(number); b != nil {
		m.endInBatch(b, in.ID, queue.StateNone, r.now)
	}
	r.markSeen(in.ID, seenID{})
}

func (r *returning) cancelled(m *Machine, in *readmitJob, number uint64, d *deferral) {
	m.store.ended++
	r.ended = append(r.ended, &endedJob{
		id: strings.Clone(in.ID), key: m.store.ended, state: queue.Cancelled, fingerprint: d.fingerprint, cost: d.cost,
		appended: d.at, at: r.now,
	})
	r.markSeen(in.ID, seenID{true, in.fingerprint})
}

// bury ends a job as dead that is too late or does not fit.
func (r *returning) bury(m *Machine, in *readmitJob, reason string) {
	at := leaky.Instant(in.At.UnixMicro())
	if b := r.batch(m, in, at); b != nil {
		m.endInBatch(b, in.ID, queue.Dead, r.now)
	}
	j := r.job(m, in)
	j.appended = at
	m.store.ended++
	r.dead = append(r.dead, readmittedJob{j, in.record, &endedJob{
		id: j.id, key: m.store.ended, seq: j.seq, state: queue.Dead, fingerprint: j.fingerprint, cost: j.cost,
		size: j.size, appended: j.appended, at: r.now, reason: reason,
	}})
	r.markSeen(j.id, seenID{true, in.fingerprint})
}

// enter gives a job its place now, and its lane once that is durable.
func (r *returning) enter(m *Machine, in *readmitJob) {
	j := r.job(m, in)
	j.lane = r.queue.lane(in.Lane, in.lane)
	j.appended = r.now
	b := r.batch(m, in, r.now)
	j.size = uint32(len(in.record))
	j.setCosts(in.record)
	r.queue.countReadmitted(j)
	m.reservePlace(j, &in.Job, r.now)
	m.holdBatch(j, b, scheduledUntil(&in.Job, m.wall(r.now)))
	r.jobs = append(r.jobs, readmittedJob{job: j, record: in.record})
	r.markSeen(j.id, seenID{true, in.fingerprint})
}

func (r *returning) job(m *Machine, in *readmitJob) *job {
	m.store.seq++
	return &job{
		id: strings.Clone(in.ID), lane: r.queue.ensureDefaultLane(), seq: m.store.seq, fingerprint: in.fingerprint,
		size: uint32(len(in.record)), cost: uint16(max(1, in.Cost)),
	}
}

func (r *returning) changes() bool {
	return len(r.jobs)+len(r.dead)+len(r.ended)+len(r.records) > 0 || r.progress != r.queue.overflow.progress
}

func (r *returning) apply(m *Machine) {
	q, c := r.queue, m.touch(r.queue)
	q.counters.Appended += int64(len(r.jobs))
	q.counters.Returned += int64(len(r.jobs))
	q.counters.Died += int64(len(r.dead))
	q.counters.Missing += r.missing
	for _, j := range r.jobs {
		c.putJob(j.job, j.record)
		m.arrive(arrival{job: j.job}, j.record)
	}
	for _, j := range r.dead {
		c.putJob(j.job, j.record)
		c.putEnded(q, j.ended, nil)
		m.rememberEnded(q, j.ended, r.now)
	}
	for _, d := range r.ended {
		c.putEnded(q, d, nil)
		m.rememberEnded(q, d, r.now)
	}
	each(r.recordKeys, c.dropDeferral)
	for _, n := range r.records {
		m.removeDeferral(q, n)
	}
	if r.newGeneration {
		m.countDeferred(q, 0, q.overflow.olderGeneration.negative())
		m.giveUpInBatches(q, r.now)
		q.ownOverflow().olderGeneration = recordCount{q.counts[queue.Deferred], q.overflow.cost, q.overflow.bytes}
	}
	q.ownOverflow().progress = r.progress
	m.trackBacklog(q)
}
