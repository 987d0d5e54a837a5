package boltq

import (
	"bytes"
	"context"
	"encoding/binary"
	"sort"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Schema is the version of the file's layout that this package reads and writes.
const Schema = schema

// ExportQueue implements queue.Mover.
func (e *Engine) ExportQueue(ctx context.Context, name string) (queue.MovedQueue, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.readable(ctx); err != nil {
		return queue.MovedQueue{}, err
	}
	l, err := e.live(name)
	if err != nil {
		return queue.MovedQueue{}, err
	}
	info := e.info(l, e.now())
	return queue.MovedQueue{
		Spec: info.Spec, Revision: info.Revision, Pause: info.Pause, Bucket: queue.MovedBucket(&info),
		Counts: queue.CountsOf(&info), Held: info.Size(), Deferred: info.Deferred, Dead: info.Dead, Errors: info.Errors, Limits: info.Limits,
		Turn: l.turn, MaxCost: l.dearestOfAll(), Import: l.filling.mark, Open: l.filling.open,
	}, nil
}

// ExportJobs implements queue.Mover.
func (e *Engine) ExportJobs(ctx context.Context, r queue.ExportRequest) (queue.Exported, error) {
	p := &exporting{of: &r}
	if err := p.choose(ctx, e); err != nil {
		return queue.Exported{}, err
	}
	return p.read(e)
}

// exporting is a page of an export on its way: chosen under the mutex, then read from the file.
type exporting struct {
	of     *queue.ExportRequest
	jobs   []queue.MovedJob
	seqs   []uint64       // of their records; 0 has none
	keys   []uint64       // of what is remembered of dead ones; else 0
	places []queue.Cursor // where a page ends that ends with them
	more   bool           // there may be
	lane   *queue.Cursor  // with which to go on if no job was found
}

// at notes where the job chosen last stands, and reports whether the page is full.
func (p *exporting) at(at int64, id string, ln *lane) (full bool) {
	c := queue.Cursor{At: at, ID: id}
	if ln != nil {
		c.Lane = string(ln.digest[:])
	}
	p.places = append(p.places, c)
	p.more = len(p.jobs) == queue.MaxPage
	return p.more
}

func (p *exporting) choose(ctx context.Context, e *Engine) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.readable(ctx); err != nil {
		return err
	}
	l, err := e.live(p.of.Queue)
	if err != nil {
		return err
	}
	if err := p.of.Validate(); err != nil {
		return err
	}
	c, err := p.of.Cursor()
	if err != nil {
		return err
	}
	now := e.now()
	switch p.of.State {
	case queue.Waiting:
		return p.waiting(l, c)
	case queue.Scheduled:
		p.standing(&l.later, queue.Scheduled, c)
	case queue.Held:
		p.standing(&l.held, queue.Held, c)
	case queue.Leased:
		p.leased(e, l, c, now)
	case queue.Dead:
		p.dead(e, c, now)
	default:
		p.ended(l, c, now)
	}
	return nil
}

// add chooses a job that holds a place.
func (p *exporting) add(j *job, s queue.State) *queue.MovedJob {
	p.jobs = append(p.jobs, queue.MovedJob{ID: j.id, State: s, Turn: j.turn, AppendedAt: j.appended.Time(), Back: j.marks&cameBack != 0})
	p.seqs, p.keys = append(p.seqs, j.seq), append(p.keys, 0)
	m := &p.jobs[len(p.jobs)-1]
	if f := j.flight; f != nil {
		m.Attempts, m.Reason, m.Timeline = f.attempts, f.reason, f.past
	}
	return m
}

func (p *exporting) waiting(l *line, c *queue.Cursor) error {
	ln, after, err := l.resume(c, nil)
	if err != nil {
		return err
	}
	for looked := 0; ln != nil; looked++ {
		if looked == lookMax {
			p.more, p.lane = true, &queue.Cursor{Lane: string(ln.digest[:])}
			return nil
		}
		for j := range ln.fifo.from(after) {
			p.add(j, queue.Waiting)
			if p.at(j.turn, j.id, ln) {
				return nil
			}
		}
		ln, after = l.laneAfter(ln.digest), 0
	}
	return nil
}

func (p *exporting) standing(all *sorted[*flight], s queue.State, c *queue.Cursor) {
	for f := range all.from(dueBehind(c)) {
		m := p.add(f.job, s)
		m.At, m.Holds = f.due.Time(), f.counts
		if p.at(int64(f.due), f.job.id, nil) {
			return
		}
	}
}

// leased makes of a job what a Reserve would that finds its lease over, or a restart that finds it leased.
func (p *exporting) leased(e *Engine, l *line, c *queue.Cursor, now leaky.Instant) {
	for _, f := range e.leasesOf(l, c) {
		m := p.add(f.job, queue.Waiting)
		m.Lease = queue.LeaseHeld
		if f.deadline <= now {
			m.Lease = queue.LeaseOver
		}
		if m.Lease == queue.LeaseOver || l.spec.Lends() {
			b := l.abandoned(f, now)
			m.State, m.Attempts, m.Reason, m.Timeline = b.state, b.attempts, b.reason, b.past
			if b.state != queue.Waiting {
				m.At = now.Time()
			}
		}
		if p.at(int64(f.fence.number), f.job.id, nil) {
			return
		}
	}
}

// addEnded chooses a job that has ended, of which memory knows all but its record.
func (p *exporting) addEnded(d *ended) {
	p.jobs = append(p.jobs, queue.MovedJob{
		ID: d.id, State: d.state, AppendedAt: d.appended.Time(), At: d.at.Time(), Attempts: d.attempts, Reason: d.reason,
		Fingerprint: binary.BigEndian.Uint64(d.print[:]), Cost: int64(d.cost),
	})
	p.seqs, p.keys = append(p.seqs, d.seq), append(p.keys, d.key)
}

func (p *exporting) dead(e *Engine, c *queue.Cursor, now leaky.Instant) {
	for d := range e.deadFrom(p.of.Queue, c, now) {
		p.addEnded(d)
		if p.at(int64(d.at), d.id, nil) {
			return
		}
	}
}

// ended goes through those that ended otherwise than dead, whose keys grow.
func (p *exporting) ended(l *line, c *queue.Cursor, now leaky.Instant) {
	all := &l.ended.delivered
	i := 0
	if c != nil {
		i = sort.Search(all.n, func(i int) bool { return all.at(i).key > uint64(c.At) })
	}
	for ; i < all.n; i++ {
		d := all.at(i)
		if l.ended.byID[d.id] != d || tooOld(d, l.spec.Retention, now) { // the id was used again
			continue
		}
		p.addEnded(d)
		if p.at(int64(d.key), d.id, nil) {
			return
		}
	}
}

// read reads the records, up to about as many bytes as a page has. One that is gone by now is left out.
func (p *exporting) read(e *Engine) (page queue.Exported, err error) {
	next := p.lane
	if n := len(p.places); p.more && next == nil {
		next = &p.places[n-1]
	}
	err = e.db.View(func(tx *bbolt.Tx) error {
		t, read := &tables{tx: tx}, 0
		for i, m := range p.jobs {
			if p.seqs[i] != 0 {
				found := t.jobTable().Get(key(p.seqs[i]))
				if read += len(found); found == nil {
					continue
				}
				if m.State == queue.Dead && p.keys[i] != 0 {
					_, _, _, past, _ := decodeEnded(t.endedTable().Get(key(p.keys[i]))) // it is there as its record is
					m.Timeline = bytes.Clone(past)
				}
				readMoved(&m, found)
			}
			page.Jobs = append(page.Jobs, m)
			if read >= queue.MaxMovePage && i < len(p.jobs)-1 {
				next = &p.places[i]
				return nil
			}
		}
		return nil
	})
	if next != nil {
		page.Next = p.of.NextPage(*next)
	}
	return page, err
}

// readMoved reads what the file has of a job. What is none is shown as broken.
func readMoved(m *queue.MovedJob, found []byte) {
	_, record, err := decodeJob(found)
	if err == nil {
		_, err = queue.UnpackHead(record)
	}
	if err != nil {
		*m = queue.MovedJob{ID: m.ID}
		return
	}
	m.Record = bytes.Clone(record)
	m.Fingerprint, m.Cost = binary.BigEndian.Uint64(record), int64(binary.BigEndian.Uint16(record[queue.RecordCost:]))
}
