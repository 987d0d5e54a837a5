package boltq

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// lookMax is how many lanes one call looks at that may have no such job.
const lookMax = 1000

// ListJobs implements queue.Keeper.
func (e *Engine) ListJobs(ctx context.Context, r queue.ListRequest) (queue.Listing, error) {
	p, err := e.page(ctx, &r)
	if err != nil {
		return queue.Listing{}, err
	}
	if r.State == queue.Dead {
		shown := make([]*queue.JobInfo, len(p.jobs))
		for i := range p.jobs {
			shown[i] = &p.jobs[i]
		}
		e.readDead(shown, p.ended)
	}
	return queue.Listing{Jobs: p.jobs, Next: p.next}, nil
}

// listing is a page of a list on its way.
type listing struct {
	of    *queue.ListRequest
	jobs  []queue.JobInfo
	ended []*ended // dead ones
	next  string
}

func (p *listing) full() bool { return len(p.jobs) == p.of.Limit }

// end says where the next page begins.
func (p *listing) end(at int64, id string, ln *lane) {
	c := queue.Cursor{At: at, ID: id}
	if ln != nil {
		c.Lane = string(ln.digest[:])
	}
	p.next = p.of.Next(c)
}

func (e *Engine) page(ctx context.Context, r *queue.ListRequest) (*listing, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.readable(ctx); err != nil {
		return nil, err
	}
	l, err := e.live(r.Queue)
	if err != nil && (r.State != queue.Dead || e.former(r.Queue) == nil) {
		return nil, err
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	c, err := r.Cursor()
	if err != nil {
		return nil, err
	}
	p := &listing{of: r}
	switch r.State {
	case queue.Waiting:
		return p, p.waiting(l, c)
	case queue.Scheduled:
		p.standing(&l.later, c)
	case queue.Held:
		p.standing(&l.held, c)
	case queue.Leased:
		p.leased(e, l, c)
	default:
		p.dead(e, c, e.now())
	}
	return p, nil
}

// waiting goes through the lanes in order of their digests, the one without a key first.
func (p *listing) waiting(l *line, c *queue.Cursor) error {
	ln, after, err := l.resume(c, p.of.Lane)
	if err != nil {
		return err
	}
	for looked := 0; ln != nil; looked++ {
		if looked == lookMax {
			p.end(0, "", ln)
			return nil
		}
		for j := range ln.fifo.from(after) {
			p.jobs = append(p.jobs, listed(j))
			if p.full() {
				p.end(j.turn, j.id, ln)
				return nil
			}
		}
		if p.of.Lane != nil {
			return nil
		}
		ln, after = l.laneAfter(ln.digest), 0
	}
	return nil
}

// resume returns the lane with which a page begins, nil if there is none, and the turn
// from which on.
func (l *line) resume(c *queue.Cursor, only *string) (ln *lane, from int64, err error) {
	digest := queue.LaneDigest{}
	if only != nil {
		digest = queue.DigestLane(*only)
	}
	if c != nil {
		if len(c.Lane) != len(digest) {
			return nil, 0, &queue.FieldError{Field: "after", Reason: "names no lane"}
		}
		digest = queue.LaneDigest([]byte(c.Lane))
		if c.ID != "" {
			from = c.At + 1
		}
	}
	if digest == (queue.LaneDigest{}) {
		return &l.bare, from, nil
	}
	if ln := l.lanes[digest]; ln != nil {
		return ln, from, nil
	}
	if only != nil {
		return nil, 0, nil
	}
	return l.laneAfter(digest), 0, nil
}

// laneAfter returns the next lane with a key, nil if there is none.
func (l *line) laneAfter(digest queue.LaneDigest) *lane {
	for ln := range l.roll.from(func(ln *lane) bool { return bytes.Compare(ln.digest[:], digest[:]) > 0 }) {
		return ln
	}
	return nil
}

// dueBehind tells those that stand behind a place.
func dueBehind(c *queue.Cursor) func(*flight) bool {
	return func(f *flight) bool {
		return c == nil || f.due > leaky.Instant(c.At) || f.due == leaky.Instant(c.At) && f.job.id > c.ID
	}
}

// standing goes through jobs that stand in order of an instant.
func (p *listing) standing(all *sorted[*flight], c *queue.Cursor) {
	for f := range all.from(dueBehind(c)) {
		p.jobs = append(p.jobs, listed(f.job))
		if p.full() {
			p.end(int64(f.due), f.job.id, nil)
			return
		}
	}
}

// leasesOf returns the leases of a queue behind a place, in the order in which they were granted.
func (e *Engine) leasesOf(l *line, c *queue.Cursor) (some []*flight) {
	for _, f := range e.leases.items {
		if f.job.lane.line == l && (c == nil || f.fence.number > uint64(c.At)) {
			some = append(some, f)
		}
	}
	slices.SortFunc(some, func(a, b *flight) int { return cmp.Compare(a.fence.number, b.fence.number) })
	return some
}

func (p *listing) leased(e *Engine, l *line, c *queue.Cursor) {
	for _, f := range e.leasesOf(l, c) {
		p.jobs = append(p.jobs, listed(f.job))
		if p.full() {
			p.end(int64(f.fence.number), f.job.id, nil)
			return
		}
	}
}

func (p *listing) dead(e *Engine, c *queue.Cursor, now leaky.Instant) {
	for d := range e.deadFrom(p.of.Queue, c, now) {
		p.jobs, p.ended = append(p.jobs, shown(p.of.Queue, d)), append(p.ended, d)
		if p.full() {
			p.end(int64(d.at), d.id, nil)
			return
		}
	}
}

// deadFrom yields the dead of a name that are not too old, behind a place.
func (e *Engine) deadFrom(name string, c *queue.Cursor, now leaky.Instant) iter.Seq[*ended] {
	behind := func(d *ended) bool {
		return c == nil || d.at > leaky.Instant(c.At) || d.at == leaky.Instant(c.At) && d.id > c.ID
	}
	return func(yield func(*ended) bool) {
		ls := e.letters[name]
		if ls == nil {
			return
		}
		r := e.retention(ls)
		for d := range ls.dead.from(behind) {
			if !tooOld(d, r, now) && !yield(d) {
				return
			}
		}
	}
}

// readDead reads of dead jobs what memory does not keep.
func (e *Engine) readDead(shown []*queue.JobInfo, dead []*ended) {
	_ = e.db.View(func(tx *bbolt.Tx) error { // else they are shown without
		t := &tables{tx: tx}
		for i, d := range dead {
			// What cannot be read was forgotten just now, or is none.
			if record, err := t.getRecord(d.seq); err == nil {
				_ = queue.UnpackInfo(record, shown[i])
			}
			if past, err := t.getTimeline(d); err == nil {
				shown[i].Timeline = past
			}
		}
		return nil
	})
}

// listed is a job that holds a place, without its position and its ETA.
func listed(j *job) queue.JobInfo {
	i := queue.JobInfo{
		Queue: j.lane.line.spec.Name, ID: j.id, State: j.state, Cost: int64(j.cost), Lane: j.lane.key, Priority: j.priority(), AppendedAt: j.appended.Time(),
		ExpiresAt: j.expiresAt(),
	}
	if f := j.flight; f != nil {
		i.Attempts, i.Reason = f.attempts, f.reason
		switch j.state {
		case queue.Waiting:
		case queue.Held:
			i.HeldAt = f.due.Time()
		default:
			i.DueAt = f.due.Time()
		}
	}
	return i
}

// shown is a job that has ended.
func shown(name string, d *ended) queue.JobInfo {
	return queue.JobInfo{
		Queue: name, ID: d.id, State: d.state, Cost: int64(d.cost), Attempts: d.attempts,
		AppendedAt: d.appended.Time(), EndedAt: d.at.Time(), Reason: d.reason,
	}
}
