package machine

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// Found is what memory knows of a job, and where the rest is stored.
type Found struct {
	info     queue.JobInfo
	timeline []byte    // of a job that holds a place, as stored
	dead     *endedJob // of a dead job
	seq      uint64    // the key of its record; 0 if not kept
	ahead    time.Duration
}

// Read returns the job with what its record adds. It needs no machine.
func (f *Found) Read(tx Transaction) (i queue.JobInfo, err error) {
	i = f.info
	if f.dead != nil {
		readDead(tx, []*queue.JobInfo{&i}, []*endedJob{f.dead})
	} else {
		// The attempt under way, or the delivery, comes after the failed ones.
		last := i.Timeline
		if i.Timeline, err = jobrecord.UnpackTimeline(f.timeline); err != nil {
			return i, err
		}
		i.Timeline = append(i.Timeline, last...)
	}
	if f.seq != 0 {
		// a job that ended just now may have no record left
		if record, err := (&tables{tx}).getRecord(f.seq); err == nil {
			_ = jobrecord.UnpackContent(record, &i) // if unreadable, the job is shown without it
		}
	}
	i.ToWall(f.ahead)
	return i, nil
}

// FindJob returns what memory knows of a job, and the commit that the answer waits for: a job that is reported ended or
// unknown must not come back. While the job arrives, f is nil; call FindJob again after the returned commit. Errors,
// which wait too: queue.ErrUnknownQueue, queue.ErrUnknownJob.
func (m *Machine) FindJob(now leaky.Instant, name, id string) (f *Found, wait uint64, err error) {
	if f, wait, err = m.findJob(now, name, id); f != nil {
		f.ahead = m.ahead()
	}
	return f, wait, err
}

func (m *Machine) findJob(now leaky.Instant, name, id string) (f *Found, wait uint64, err error) {
	q, err := m.liveQueue(name)
	if err != nil {
		if d := m.deadJob(name, id, now); d != nil {
			return deadJobFound(name, d), m.waitsForEnded(d), nil
		}
		return nil, m.unlessDurable(m.deletedBy), err
	}
	if j := q.jobs[id]; j != nil {
		if j.arriving() {
			return nil, m.waitsForJob(j), nil
		}
		f := &Found{info: q.jobInfo(j, now), seq: j.seq}
		if j.lease != nil {
			f.timeline = j.lease.timeline
		}
		return f, m.waitsForJob(j), nil
	}
	if d := q.endedJobs.find(id, q.spec.Retention, now); d != nil {
		if d.state == queue.Dead {
			return deadJobFound(name, d), m.waitsForEnded(d), nil
		}
		f := &Found{info: endedJobInfo(name, d)}
		if d.departed != 0 {
			f.info.AddLast(queue.Attempt{At: d.departed.Time(), Drainer: d.drainer})
		}
		return f, m.waitsForEnded(d), nil
	}
	if number, d := q.deferral(id, now); d != nil {
		f, wait := &Found{info: q.deferredJobInfo(id, number, d, now)}, m.waitsForDeferral(d)
		if d.state == cancelledDeferral {
			wait = m.lastWait()
		}
		return f, wait, nil
	}
	if d := m.deadJob(name, id, now); d != nil { // of a deleted queue
		return deadJobFound(name, d), m.waitsForEnded(d), nil
	}
	return nil, m.unlessDurable(m.deletedBy), fmt.Errorf("%w: %s in %s", queue.ErrUnknownJob, clip.Quote(id, 80), name)
}

func deadJobFound(name string, d *endedJob) *Found {
	return &Found{info: endedJobInfo(name, d), dead: d, seq: d.seq}
}

func (q *queueState) jobInfo(j *job, now leaky.Instant) queue.JobInfo {
	i := queue.JobInfo{
		Queue: q.name, ID: j.id, State: j.state, Cost: int64(j.cost), Lane: j.lane.key, Priority: j.priority(),
		AppendedAt: j.appended.Time(),
		ExpiresAt:  j.expiresAt(),
	}
	if ls := j.lease; ls != nil {
		i.Attempts, i.Reason = ls.attempts, ls.reason
	}
	switch j.state {
	case queue.Waiting:
		i.Position = int64(j.lane.waiting.rank(j)) + 1
		i.ETA = q.etaOf(j, q.costBounds(int64(j.cost), false), now)
		i.Why = q.whyNotLeft(j, now)
	case queue.Scheduled:
		i.DueAt = j.lease.due.Time()
		i.ETA = q.etaOf(j, q.costBounds(int64(j.cost), false), now)
		i.Why = q.whyNotLeft(j, now)
	case queue.Leased:
		i.DueAt = j.lease.due.Time()
		i.AddLast(queue.Attempt{At: i.DueAt, Drainer: j.lease.drainer})
	case queue.Held:
		i.HeldAt = j.lease.due.Time()
		i.Why = queue.Why{By: cause.Held, Reason: i.Reason}
	}
	return i
}

// deferredJobInfo describes a deferred job. Its position assumes that deferred jobs come back in order; its ETA assumes
// average costs of the jobs before it.
func (q *queueState) deferredJobInfo(id string, number uint64, d *deferral, now leaky.Instant) queue.JobInfo {
	i := queue.JobInfo{Queue: q.name, ID: id, State: queue.Cancelled, Cost: int64(d.cost), AppendedAt: d.at.Time()}
	if d.state == cancelledDeferral {
		return i
	}
	count := q.counts[queue.Deferred]
	place := max(1, int64(number)-(int64(q.overflow.lastTicket)-count))
	before := float64(q.overflow.cost) * float64(place-1) / float64(count)
	waiting := q.counts[queue.Waiting]
	i.State, i.Position, i.Why = queue.Deferred, waiting+place, q.spec.Deferred.WhyDeferred(q.env.wall(now).Time())
	i.ETA.At = q.etaDeferred(
		waiting, q.gap(q.turn), int64(before), q.groupLoad(false), q.costBounds(int64(d.cost), false), now,
	).Time()
	return i
}

// lanesPerPage is how many lanes without a matching job one call looks at.
const lanesPerPage = 1000

// Listing is a page of jobs, to be read.
type Listing struct {
	request *queue.ListRequest
	jobs    []queue.JobInfo
	ended   []*endedJob // of dead jobs, parallel to jobs
	next    string
	ahead   time.Duration
}

// endsAt reports whether the page is full, and if so notes the place of the last job.
func (l *Listing) endsAt(at int64, id string, ln *lane) (full bool) {
	if full = len(l.jobs) == l.request.Limit; full {
		l.next = l.request.Next(cursorAt(at, id, ln))
	}
	return full
}

// cursorAt returns the cursor of a page that begins after a job, whose lane may be nil.
func cursorAt(at int64, id string, ln *lane) queue.Cursor {
	c := queue.Cursor{At: at, ID: id}
	if ln != nil {
		c.Lane = string(ln.digest[:])
	}
	return c
}

// ListJobs chooses a page of the jobs in one state. Errors: queue.ErrUnknownQueue, an *invalid.Error.
func (m *Machine) ListJobs(now leaky.Instant, r queue.ListRequest) (*Listing, error) {
	q, err := m.liveQueue(r.Queue)
	if err != nil && (r.State != queue.Dead || m.deadOfDeleted(r.Queue) == nil) {
		return nil, err
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	c, err := r.Cursor()
	if err != nil {
		return nil, err
	}
	l := &Listing{request: &r, ahead: m.ahead()}
	switch r.State {
	case queue.Waiting:
		err = l.waiting(q, c)
	case queue.Scheduled:
		l.byInstant(q.scheduled, c)
	case queue.Held:
		l.byInstant(q.held, c)
	case queue.Leased:
		l.leased(m, q, c)
	default:
		l.dead(m, c, now)
	}
	return l, err
}

// Read returns the page with what the records add. It needs no machine.
func (l *Listing) Read(tx Transaction) queue.Listing {
	if l.request.State == queue.Dead {
		shown := make([]*queue.JobInfo, len(l.jobs))
		for i := range l.jobs {
			shown[i] = &l.jobs[i]
		}
		readDead(tx, shown, l.ended)
	}
	for i := range l.jobs {
		l.jobs[i].ToWall(l.ahead)
	}
	return queue.Listing{Jobs: l.jobs, Next: l.next}
}

func (l *Listing) waiting(q *queueState, c *queue.Cursor) error {
	stopped, err := q.eachWaiting(c, l.request.Lane, func(j *job) (full bool) {
		l.jobs = append(l.jobs, jobInfo(j))
		return l.endsAt(j.turn, j.id, j.lane)
	})
	if stopped != nil {
		l.next = l.request.Next(cursorAt(0, "", stopped))
	}
	return err
}

// eachWaiting visits waiting jobs from a cursor on, of all lanes in order of digest, the default lane first, or of only
// one lane. It stops when the page is full, or after lanesPerPage lanes, and then returns the next lane.
func (q *queueState) eachWaiting(
	c *queue.Cursor, only *string, visit func(*job) (full bool),
) (stopped *lane, err error) {
	ln, after, err := q.resumeAtLane(c, only)
	for looked := 0; ln != nil; looked++ {
		if looked == lanesPerPage {
			return ln, nil
		}
		for j := range ln.waiting.from(after) {
			if visit(j) {
				return nil, nil
			}
		}
		if only != nil {
			break
		}
		ln, after = q.laneAfter(ln.digest), 0
	}
	return nil, err
}

// resumeAtLane returns the lane with which a page begins, or nil, and the first turn in it.
func (q *queueState) resumeAtLane(c *queue.Cursor, only *string) (ln *lane, from int64, err error) {
	digest := queue.LaneDigest{}
	if only != nil {
		digest = queue.DigestLane(*only)
	}
	if c != nil {
		if len(c.Lane) != len(digest) {
			return nil, 0, invalid.Errorf("after", "", "does not name a lane")
		}
		digest = queue.LaneDigest([]byte(c.Lane))
		if c.ID != "" {
			from = c.At + 1
		}
	}
	if digest == (queue.LaneDigest{}) {
		return q.ensureDefaultLane(), from, nil
	}
	if ln := q.lanes[digest]; ln != nil {
		return ln, from, nil
	}
	if only != nil {
		return nil, 0, nil
	}
	return q.laneAfter(digest), 0, nil
}

// laneAfter returns the next lane with a key, or nil.
func (q *queueState) laneAfter(digest queue.LaneDigest) *lane {
	for ln := range q.laneOrder.from(func(ln *lane) bool { return bytes.Compare(ln.digest[:], digest[:]) > 0 }) {
		return ln
	}
	return nil
}

// dueAfter matches leases after a cursor.
func dueAfter(c *queue.Cursor) func(*lease) bool {
	return func(ls *lease) bool {
		return c == nil || ls.due > leaky.Instant(c.At) || ls.due == leaky.Instant(c.At) && ls.job.id > c.ID
	}
}

// byInstant lists jobs that are ordered by an instant.
func (l *Listing) byInstant(all *sorted[*lease], c *queue.Cursor) {
	for ls := range all.from(dueAfter(c)) {
		l.jobs = append(l.jobs, jobInfo(ls.job))
		if l.endsAt(int64(ls.due), ls.job.id, nil) {
			return
		}
	}
}

// leasesOf returns the leases of a queue after a cursor, in the order in which they were granted.
func (m *Machine) leasesOf(q *queueState, c *queue.Cursor) (some []*lease) {
	for ls := range m.leases.all {
		if ls.job.lane.queue == q && (c == nil || ls.fence.number > uint64(c.At)) {
			some = append(some, ls)
		}
	}
	slices.SortFunc(some, func(a, b *lease) int { return cmp.Compare(a.fence.number, b.fence.number) })
	return some
}

func (l *Listing) leased(m *Machine, q *queueState, c *queue.Cursor) {
	for _, ls := range m.leasesOf(q, c) {
		l.jobs = append(l.jobs, jobInfo(ls.job))
		if l.endsAt(int64(ls.fence.number), ls.job.id, nil) {
			return
		}
	}
}

func (l *Listing) dead(m *Machine, c *queue.Cursor, now leaky.Instant) {
	for d := range m.deadFrom(l.request.Queue, c, now) {
		l.jobs, l.ended = append(l.jobs, endedJobInfo(l.request.Queue, d)), append(l.ended, d)
		if l.endsAt(int64(d.at), d.id, nil) {
			return
		}
	}
}

// deadFrom yields the dead jobs of a name after a cursor that are not too old.
func (m *Machine) deadFrom(name string, c *queue.Cursor, now leaky.Instant) iter.Seq[*endedJob] {
	behind := func(d *endedJob) bool {
		return c == nil || d.at > leaky.Instant(c.At) || d.at == leaky.Instant(c.At) && d.id > c.ID
	}
	return func(yield func(*endedJob) bool) {
		dead := m.deadJobs[name]
		if dead == nil {
			return
		}
		r := m.retention(dead)
		for d := range dead.dead.from(behind) {
			if !tooOld(d, r, now) && !yield(d) {
				return
			}
		}
	}
}

// readDead adds what memory does not keep of dead jobs.
func readDead(tx Transaction, shown []*queue.JobInfo, dead []*endedJob) {
	t := &tables{tx}
	for i, d := range dead {
		// An unreadable job was forgotten just now, or is corrupt: it is shown without these details.
		if record, err := t.getRecord(d.seq); err == nil {
			_ = jobrecord.UnpackInfo(record, shown[i])
		}
		if past, err := t.getTimeline(d); err == nil {
			shown[i].Timeline = past
		}
	}
}

// jobInfo describes a job that holds a place, without its position and ETA.
func jobInfo(j *job) queue.JobInfo {
	i := queue.JobInfo{
		Queue: j.lane.queue.name, ID: j.id, State: j.state, Cost: int64(j.cost), Lane: j.lane.key,
		Priority: j.priority(), AppendedAt: j.appended.Time(),
		ExpiresAt: j.expiresAt(),
	}
	if ls := j.lease; ls != nil {
		i.Attempts, i.Reason = ls.attempts, ls.reason
		switch j.state {
		case queue.Waiting:
		case queue.Held:
			i.HeldAt = ls.due.Time()
		default:
			i.DueAt = ls.due.Time()
		}
	}
	return i
}

func endedJobInfo(name string, d *endedJob) queue.JobInfo {
	return queue.JobInfo{
		Queue: name, ID: d.id, State: d.state, Cost: int64(d.cost), Attempts: d.attempts,
		AppendedAt: d.appended.Time(), EndedAt: d.at.Time(), Reason: d.reason,
	}
}
