package boltq

import (
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/internal/jobsize"
	"github.com/penstock/penstock/queue/readmit"
)

// readmitChange is what a Readmit changes: first as it is decided, then on its way to disk.
type readmitChange struct {
	call     *call
	queue    *queueState
	request  *readmitCall
	now      leaky.Instant
	outcomes []readmit.Outcome

	jobs       []readmittedJob
	dead       []readmittedJob // jobs and how they ended
	ended      []*endedJob     // cancelled while they were deferred
	records    []uint64        // the numbers of the deferrals that end
	recordKeys []uint64        // their keys
	claimed    []string        // ids of jobs that hold no place, which nobody else may decide about
	raises     ceilingRaises
	progress   overflowProgress
	waitsFor   int64         // bytes for which the first job that cannot pass has no room
	stored     leaky.Instant // when the last job was stored, or some time after that
	// newGeneration says that one begins, and missing how many deferrals are given up by it.
	newGeneration bool
	missing       int64
	// seen is what has become of ids in this very call.
	seen map[string]seenID
}

type readmittedJob struct {
	job    *job
	record []byte
	ended  *endedJob // of a dead job
}

// seenID is what a call did with an id: its deferral, if it had one, has ended; known says that the queue knows the
// id now.
type seenID struct {
	known       bool
	fingerprint [8]byte
}

func newReadmitChange(m *readmitCall, q *queueState, c *call, now leaky.Instant) *readmitChange {
	w := &readmitChange{
		call: c, queue: q, request: m, now: now, progress: q.overflow.progress,
		outcomes: make([]readmit.Outcome, len(m.jobs)),
	}
	if w.progress.overflow != m.Overflow {
		w.progress.overflow, w.progress.order = strings.Clone(m.Overflow), 0
	}
	return w
}

// judge decides the jobs in order, up to the first that cannot pass, and reserves what they take.
func (w *readmitChange) judge(m *machine) {
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
		q.overflow.headNeeds = w.waitsFor
	}
	if w.request.Empty {
		w.stored = w.now
	}
	if w.progress.generationSince.Add(queue.OrphanAfter) < w.stored {
		w.nextGeneration()
	}
}

// nextGeneration begins a generation. Something stored after the whole older one has been seen, so nothing of that
// can still be on the overflow.
func (w *readmitChange) nextGeneration() {
	a := &w.queue.overflow
	w.newGeneration, w.missing = true, a.olderGeneration.n
	for _, n := range w.records {
		if a.counts(n) && n <= a.progress.olderUpTo {
			w.missing--
		}
	}
	w.progress.givenUpTo, w.progress.olderUpTo, w.progress.generationSince = a.progress.olderUpTo, a.lastTicket, w.now
}

// decide decides about one job. The order of the checks is part of the contract.
func (w *readmitChange) decide(m *machine, a *readmitJob) readmit.Outcome {
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
	if at := instantOf(a.ExpiresAt); at != 0 && at <= w.now {
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
func (w *readmitChange) known(id string) (print [8]byte, known bool) {
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

// recordOf returns the job's deferral, unless this call has ended it.
func (w *readmitChange) recordOf(id string) (uint64, *deferral) {
	if _, here := w.seen[id]; here {
		return 0, nil
	}
	return w.queue.deferral(id, w.now)
}

// markSeen notes what has become of an id, and ends its deferral, even a lapsed one.
func (w *readmitChange) markSeen(id string, s seenID) {
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

// claim keeps others from deciding about a job that holds no place.
func (w *readmitChange) claim(id string) {
	w.queue.claim(id, w.call)
	w.claimed = append(w.claimed, id)
}

// dropRecord ends the deferral of a job that the caller has dealt with itself.
func (w *readmitChange) dropRecord(a *readmitJob) {
	number, d := w.recordOf(a.ID)
	if d == nil || a.ticket != (ticket{w.queue.number, number}) {
		return
	}
	w.markSeen(a.ID, seenID{})
	w.claim(a.ID)
}

// cancelled records the end of a job that was cancelled while it was deferred.
func (w *readmitChange) cancelled(m *machine, a *readmitJob, number uint64, d *deferral) {
	m.store.ended++
	w.ended = append(w.ended, &endedJob{
		id: strings.Clone(a.ID), key: m.store.ended, state: queue.Cancelled, fingerprint: d.fingerprint, cost: d.cost,
		appended: d.at, at: w.now,
	})
	w.markSeen(a.ID, seenID{true, a.fingerprint})
	w.claim(a.ID)
}

// bury ends a job as dead that comes too late or does not fit.
func (w *readmitChange) bury(m *machine, a *readmitJob, reason string) {
	j := w.job(m, a)
	j.appended = leaky.Instant(a.At.UnixMicro())
	m.store.ended++
	w.dead = append(w.dead, readmittedJob{j, a.record, &endedJob{
		id: j.id, key: m.store.ended, seq: j.seq, state: queue.Dead, fingerprint: j.fingerprint, cost: j.cost,
		appended: j.appended, at: w.now, reason: reason,
	}})
	w.markSeen(j.id, seenID{true, a.fingerprint})
	w.claim(j.id)
}

// enter reserves a place, which the job takes when it is on disk.
func (w *readmitChange) enter(m *machine, a *readmitJob) {
	j := w.job(m, a)
	j.lane = w.queue.lane(a.Lane, a.lane)
	j.appended, j.busy, j.marks = w.now, w.call, readmitted
	w.raises.with(w.queue.reservePlace(j, &a.Job, w.call, w.now))
	w.queue.overflow.readmitted++
	w.queue.overflow.readmittedBytes += j.bytes()
	w.jobs = append(w.jobs, readmittedJob{job: j, record: a.record})
	w.markSeen(j.id, seenID{true, a.fingerprint})
}

func (w *readmitChange) job(m *machine, a *readmitJob) *job {
	m.store.seq++
	return &job{
		id: strings.Clone(a.ID), lane: &w.queue.defaultLane, seq: m.store.seq, fingerprint: a.fingerprint,
		size: uint32(len(a.record)), cost: uint16(max(1, a.Cost)),
	}
}

// changes reports whether there is anything to put on disk.
func (w *readmitChange) changes() bool {
	return len(w.jobs)+len(w.dead)+len(w.ended)+len(w.records) > 0 || w.progress != w.queue.overflow.progress
}

func (w *readmitChange) size() int {
	n := 64
	for _, list := range [][]readmittedJob{w.jobs, w.dead} {
		for _, r := range list {
			n += len(r.record)
		}
	}
	return n
}

func (w *readmitChange) prepare(b *batch) {
	d := b.deltaOf(w.queue)
	d.counters.Appended += int64(len(w.jobs))
	d.counters.Returned += int64(len(w.jobs))
	d.counters.Died += int64(len(w.dead))
	d.counters.Missing += w.missing
	b.raise(w.queue, w.raises)
	d.progress = w.progress
	for _, list := range [][]readmittedJob{w.jobs, w.dead} {
		for _, r := range list {
			b.putJob(r.job, r.record)
		}
	}
	for _, r := range w.dead {
		b.putEnded(w.queue, r.ended, nil)
	}
	for _, d := range w.ended {
		b.putEnded(w.queue, d, nil)
	}
	each(w.recordKeys, b.dropDeferral)
}

func (w *readmitChange) apply(m *machine, now leaky.Instant) {
	q := w.queue
	w.unclaimAll()
	due := false
	for _, r := range w.jobs {
		r.job.busy = nil
		due = m.enterJob(r.job, now) || due
	}
	if due {
		m.armAndWake(q, now)
	}
	for _, r := range w.dead {
		m.rememberEnded(q, r.ended, now)
	}
	for _, d := range w.ended {
		m.rememberEnded(q, d, now)
	}
	for _, n := range w.records {
		m.removeDeferral(q, n)
	}
	if w.newGeneration {
		older := q.overflow.olderGeneration
		m.countDeferred(q, 0, -older.n, -older.cost)
		q.overflow.olderGeneration = recordCount{q.counts[queue.Deferred], q.overflow.cost}
		q.unsaved.Missing += older.n - w.missing // some of that were counted by other changes meanwhile
		w.missing = older.n
	}
	q.overflow.progress = w.progress
	m.trackBacklog(q)
	w.request.fillAnswer(m, q, w.outcomes, w.missing, now)
	w.call.finish(nil)
}

func (w *readmitChange) rollBack(m *machine, now leaky.Instant, err error) {
	w.unclaimAll()
	for i := len(w.jobs) - 1; i >= 0; i-- {
		m.exit(w.jobs[i].job, now)
	}
	w.request.err = err
	w.call.finish(err)
}

// unclaimAll lets others decide again.
func (w *readmitChange) unclaimAll() {
	w.queue.overflow.readmit = nil
	for _, id := range w.claimed {
		w.queue.unclaim(id)
	}
}

// freesSpace: a call that only ends deferrals makes room.
func (w *readmitChange) freesSpace() bool { return len(w.jobs)+len(w.dead) == 0 }
