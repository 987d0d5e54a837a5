package machine

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// lanesPerPage is how many lanes without a matching job one call looks at, listEffort how many jobs.
const (
	lanesPerPage = 1000
	listEffort   = 4000
)

// jobPage chooses jobs, to be read.
type jobPage struct {
	limit  int    // of jobs
	effort int    // how many jobs it may still look at
	prefix string // of the ids
	lane   string // the only lane; empty means all
	jobs   []queue.JobInfo
	dead   []*endedJob   // parallel to jobs; nil for jobs that are not dead
	next   *queue.Cursor // where the next page begins; nil at the end
}

// addJob adds a job that holds a place if it matches.
func (p *jobPage) addJob(j *job) {
	if strings.HasPrefix(j.id, p.prefix) && (p.lane == "" || p.lane == j.lane.key) {
		p.jobs, p.dead = append(p.jobs, jobInfo(j)), append(p.dead, nil)
	}
}

// addEnded adds an ended job if it matches. Read removes dead jobs of other lanes.
func (p *jobPage) addEnded(name string, d *endedJob) {
	if !strings.HasPrefix(d.id, p.prefix) || p.lane != "" && d.state != queue.Dead {
		return
	}
	i := endedJobInfo(name, d)
	if d.departed != 0 {
		i.AddLast(queue.Attempt{At: d.departed.Time()})
	}
	p.jobs, p.dead = append(p.jobs, i), append(p.dead, nil)
	if d.state == queue.Dead {
		p.dead[len(p.dead)-1] = d
	}
}

// endsAt reports whether the page ends with the job that was looked at last, and if so notes its place.
func (p *jobPage) endsAt(at int64, id string, ln *lane) bool {
	if p.effort--; len(p.jobs) < p.limit && p.effort > 0 {
		return false
	}
	c := cursorAt(at, id, ln)
	p.next = &c
	return true
}

// read adds what the records have, and returns the jobs. It needs no machine.
func (p *jobPage) read(tx Transaction, ahead time.Duration) []queue.JobInfo {
	readDead(tx, p.jobs, p.dead)
	for i := range p.jobs {
		p.jobs[i].ToWall(ahead)
	}
	if p.lane == "" {
		return p.jobs
	}
	return slices.DeleteFunc(p.jobs, func(i queue.JobInfo) bool { return i.Lane != p.lane })
}

// Listing is a page of the jobs in one state, to be read.
type Listing struct {
	jobPage
	request *queue.ListRequest
	ahead   time.Duration
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
	if err != nil && (r.State != queue.Dead || !m.hasDead(r.Queue, now)) {
		return nil, err
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	c, err := r.Cursor()
	if err != nil {
		return nil, err
	}
	l := &Listing{jobPage: jobPage{limit: r.Limit, effort: listEffort}, request: &r, ahead: m.ahead()}
	switch r.State {
	case queue.Waiting:
		err = l.waiting(q, c, r.Lane)
	case queue.Scheduled:
		l.byInstant(q.scheduled, c)
	case queue.Held:
		l.byInstant(q.held, c)
	case queue.Leased:
		l.leased(m, q, c)
	case queue.Dead:
		l.listDead(m, r.Queue, c, now)
	default:
		l.ended(q, c, now, r.State)
	}
	return l, err
}

// Read returns the page with what the records add. It needs no machine.
func (l *Listing) Read(tx Transaction) queue.Listing {
	page := queue.Listing{Jobs: l.read(tx, l.ahead)}
	if l.next != nil {
		page.Next = l.request.Next(*l.next)
	}
	return page
}

// waiting chooses among the waiting jobs of all lanes, or of only one lane.
func (p *jobPage) waiting(q *queueState, c *queue.Cursor, only *string) error {
	stopped, err := q.eachWaiting(c, only, func(j *job) (full bool) {
		p.addJob(j)
		return p.endsAt(j.turn, j.id, j.lane)
	})
	if stopped != nil {
		c := cursorAt(0, "", stopped)
		p.next = &c
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

// byInstant chooses among jobs that are ordered by an instant.
func (p *jobPage) byInstant(all *sorted[*lease], c *queue.Cursor) {
	for ls := range all.from(dueAfter(c)) {
		p.addJob(ls.job)
		if p.endsAt(int64(ls.due), ls.job.id, nil) {
			return
		}
	}
}

// leasesOf returns the leases of a queue, or of all if q is nil, after a cursor, in the order in which they were
// granted.
func (m *Machine) leasesOf(q *queueState, c *queue.Cursor) (some []*lease) {
	for ls := range m.leases.all {
		of := ls.job.lane.queue
		if (of == q || q == nil && of.live) && (c == nil || ls.fence.number > uint64(c.At)) {
			some = append(some, ls)
		}
	}
	slices.SortFunc(some, func(a, b *lease) int { return cmp.Compare(a.fence.number, b.fence.number) })
	return some
}

func (p *jobPage) leased(m *Machine, q *queueState, c *queue.Cursor) {
	for _, ls := range m.leasesOf(q, c) {
		p.addJob(ls.job)
		if p.endsAt(int64(ls.fence.number), ls.job.id, nil) {
			return
		}
	}
}

func (p *jobPage) listDead(m *Machine, name string, c *queue.Cursor, now leaky.Instant) {
	for d := range m.deadFrom(name, c, now) {
		p.addEnded(name, d)
		if p.endsAt(int64(d.at), d.id, nil) {
			return
		}
	}
}

// ended chooses among the jobs that ended otherwise than dead, the last one to end first: those in one state, or all if
// only is StateNone.
func (p *jobPage) ended(q *queueState, c *queue.Cursor, now leaky.Instant, only queue.State) {
	all := q.endedJobs.others
	i := all.len()
	if c != nil {
		i = sort.Search(i, func(i int) bool { return all.at(i).key >= uint64(c.At) })
	}
	for i--; i >= 0; i-- {
		d := all.at(i)
		if q.endedJobs.byID[d.id] == d && (only == queue.StateNone || only == d.state) &&
			!tooOld(d, q.spec.Retention, now) { // else the id may have been used again
			p.addEnded(q.name, d)
		}
		if p.endsAt(int64(d.key), d.id, nil) {
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
func readDead(tx Transaction, shown []queue.JobInfo, dead []*endedJob) {
	t := &tables{tx}
	for i, d := range dead {
		if d == nil {
			continue
		}
		// An unreadable job was forgotten just now, or is corrupt: it is shown without these details.
		if record, err := t.getRecord(d.seq); err == nil {
			_ = jobrecord.UnpackInfo(record, &shown[i])
		}
		if past, err := t.getTimeline(d); err == nil {
			shown[i].Timeline = past
		}
	}
}
