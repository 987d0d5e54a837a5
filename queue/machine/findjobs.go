package machine

import (
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// findEffort is how many jobs one call of FindJobs looks at. A queue counts as queueEffort jobs.
const (
	findEffort  = 4000
	queueEffort = 8
)

// Finding is a page of a search, to be read.
type Finding struct {
	jobPage
	request *queue.FindRequest
	place   *queue.FindCursor // where the next page begins; nil at the end
	ahead   time.Duration
}

// FindJobs chooses a page of the jobs that a search finds. Errors: an *invalid.Error.
func (m *Machine) FindJobs(now leaky.Instant, r queue.FindRequest) (*Finding, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	c, err := r.Cursor()
	if err != nil {
		return nil, err
	}
	f := &Finding{
		jobPage: jobPage{limit: r.Limit, effort: findEffort, prefix: r.ID, lane: r.Lane}, request: &r, ahead: m.ahead(),
	}
	var at queue.FindCursor
	if c != nil {
		at = *c
	}
	if at.Queue == "" {
		if !r.Exact() && f.leasedOfAll(m, at.Within) {
			return f, nil
		}
		at = queue.FindCursor{Queue: m.nameFrom(&r, r.From)}
	}
	for at.Queue != "" {
		if err := f.visit(m, &at, now); err != nil {
			return nil, err
		}
		if f.next != nil {
			f.place = &at
			break
		}
		at = queue.FindCursor{Queue: m.nameFrom(&r, at.Queue+"\x00")}
		if f.effort -= queueEffort; at.Queue != "" && (f.effort <= 0 || len(f.jobs) >= f.limit) {
			f.place = &at
			break
		}
	}
	return f, nil
}

// nameFrom returns the first name that is not before a text, of a queue or of dead jobs, or "" if the search covers no
// such name.
func (m *Machine) nameFrom(r *queue.FindRequest, text string) string {
	first := ""
	for name := range m.queueNames.from(func(s string) bool { return s >= text }) {
		first = name
		break
	}
	for dead := range m.namesWithDead.from(func(dead *deadJobs) bool { return dead.name >= text }) {
		if first == "" || dead.name < first {
			first = dead.name
		}
		break
	}
	if !r.Covers(first) {
		return ""
	}
	return first
}

// leasedOfAll chooses among the leased jobs of all queues, and reports whether the page ends there.
func (f *Finding) leasedOfAll(m *Machine, c *queue.Cursor) (ends bool) {
	for _, ls := range m.leasesOf(nil, c) {
		if f.request.Covers(ls.job.lane.queue.name) {
			f.addJob(ls.job)
		}
		if f.endsAt(int64(ls.fence.number), ls.job.id, nil) {
			f.place = &queue.FindCursor{Within: f.next}
			return true
		}
	}
	return false
}

// visit chooses among the jobs of one name from a place on. If the page ends there, it notes the place.
func (f *Finding) visit(m *Machine, at *queue.FindCursor, now leaky.Instant) error {
	q, _ := m.liveQueue(at.Queue)
	if f.request.Exact() {
		f.lookUp(m, q, at.Queue, now)
		return nil
	}
	begin := max(0, slices.Index(queue.FindStates, at.State))
	for _, s := range queue.FindStates[begin:] {
		var err error
		switch {
		case s == queue.Dead:
			f.listDead(m, at.Queue, at.Within, now)
		case q == nil:
		case s == queue.Waiting:
			err = f.waitingOf(q, at.Within)
		case s == queue.Scheduled:
			f.byInstant(q.scheduled, at.Within)
		case s == queue.Held:
			f.byInstant(q.held, at.Within)
		case f.lane == "":
			f.ended(q, at.Within, now, queue.StateNone)
		}
		if err != nil {
			return err
		}
		if at.State, at.Within = s, f.next; f.next != nil {
			return nil
		}
	}
	return nil
}

func (f *Finding) waitingOf(q *queueState, c *queue.Cursor) error {
	if f.lane != "" {
		return f.waiting(q, c, &f.lane)
	}
	err := f.waiting(q, c, nil)
	f.effort -= min(q.laneOrder.len(), lanesPerPage)
	return err
}

// lookUp adds the job with the request's id, if the name has one. q is nil if there is no such queue.
func (f *Finding) lookUp(m *Machine, q *queueState, name string, now leaky.Instant) {
	id := f.request.ID
	if q != nil {
		if j := q.jobs[id]; j != nil {
			if !j.arriving() {
				f.addJob(j)
			}
			return
		}
		if d := q.endedJobs.find(id, q.spec.Retention, now); d != nil {
			f.addEnded(name, d)
			return
		}
		if _, d := q.deferral(id, now); d != nil {
			if f.lane == "" {
				f.jobs, f.dead = append(f.jobs, d.jobInfo(q, id)), append(f.dead, nil)
			}
			return
		}
	}
	if d := m.deadJob(name, id, now); d != nil {
		f.addEnded(name, d)
	}
}

// Read returns the page with what the records add. It needs no machine.
func (f *Finding) Read(tx Transaction) queue.FoundJobs {
	page := queue.FoundJobs{Jobs: f.read(tx, f.ahead)}
	if f.place != nil {
		page.Next = f.request.Next(*f.place)
	}
	return page
}
