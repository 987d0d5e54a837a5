package machine

import (
	"bytes"
	"encoding/binary"
	"sort"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// ExportQueue returns a queue without its jobs. Errors: queue.ErrUnknownQueue.
func (m *Machine) ExportQueue(now leaky.Instant, name string) (move.Queue, error) {
	q, err := m.liveQueue(name)
	if err != nil {
		return move.Queue{}, err
	}
	info := m.info(q, now)
	return move.Queue{
		Spec: info.Spec, Revision: info.Revision, Pause: info.Pause, Bucket: move.Bucket(&info),
		Counts: info.Counters, Held: info.Size(), Deferred: info.Deferred, Dead: info.Dead, Errors: info.Errors,
		Limits: info.Limits,
		Turn:   q.turn, MaxCost: q.groupMaxCost(), Import: q.importing.mark, Open: q.importing.open,
	}, nil
}

// Export is a page of a queue's jobs, to be read.
type Export struct{ page exportPage }

// ExportJobs chooses a page of a queue's jobs. Errors: queue.ErrUnknownQueue, an *invalid.Error.
func (m *Machine) ExportJobs(now leaky.Instant, r move.ExportRequest) (*Export, error) {
	x := &Export{exportPage{request: &r}}
	return x, x.page.choose(m, now)
}

// Read reads the page. It needs no machine.
func (x *Export) Read(tx Transaction) move.Exported { return x.page.read(&tables{tx}) }

// exportPage is one page of an export: chosen by the machine, then read.
type exportPage struct {
	request    *move.ExportRequest
	jobs       []move.Job
	jobKeys    []uint64       // keys of their records; 0 if not kept
	endedKeys  []uint64       // keys of dead jobs among the ended ones; else 0
	cursors    []queue.Cursor // where the next page begins if this page ends with that job
	more       bool           // more jobs may follow
	laneCursor *queue.Cursor  // where to continue if no job was found
}

// endsAt notes the place of the last chosen job, and reports whether the page is full.
func (p *exportPage) endsAt(at int64, id string, ln *lane) (full bool) {
	c := queue.Cursor{At: at, ID: id}
	if ln != nil {
		c.Lane = string(ln.digest[:])
	}
	p.cursors = append(p.cursors, c)
	p.more = len(p.jobs) == queue.MaxPage
	return p.more
}

func (p *exportPage) choose(m *Machine, now leaky.Instant) error {
	q, err := m.liveQueue(p.request.Queue)
	if err != nil {
		return err
	}
	if err := p.request.Validate(); err != nil {
		return err
	}
	c, err := p.request.Cursor()
	if err != nil {
		return err
	}
	switch p.request.State {
	case queue.Waiting:
		return p.waiting(q, c)
	case queue.Scheduled:
		p.byInstant(q.scheduled, queue.Scheduled, c)
	case queue.Held:
		p.byInstant(q.held, queue.Held, c)
	case queue.Leased:
		p.leased(m, q, c, now)
	case queue.Dead:
		p.dead(m, c, now)
	default:
		p.ended(q, c, now)
	}
	return nil
}

func (p *exportPage) add(j *job, s queue.State) *move.Job {
	p.jobs = append(p.jobs, move.Job{
		ID: j.id, State: s, Turn: j.turn, AppendedAt: j.appended.Time(), Back: j.marks&readmitted != 0,
	})
	p.jobKeys, p.endedKeys = append(p.jobKeys, j.seq), append(p.endedKeys, 0)
	m := &p.jobs[len(p.jobs)-1]
	if ls := j.lease; ls != nil {
		m.Attempts, m.Reason, m.Timeline = ls.attempts, ls.reason, ls.timeline
	}
	return m
}

func (p *exportPage) waiting(q *queueState, c *queue.Cursor) error {
	ln, after, err := q.resumeAtLane(c, nil)
	if err != nil {
		return err
	}
	for looked := 0; ln != nil; looked++ {
		if looked == lanesPerPage {
			p.more, p.laneCursor = true, &queue.Cursor{Lane: string(ln.digest[:])}
			return nil
		}
		for j := range ln.waiting.from(after) {
			p.add(j, queue.Waiting)
			if p.endsAt(j.turn, j.id, ln) {
				return nil
			}
		}
		ln, after = q.laneAfter(ln.digest), 0
	}
	return nil
}

func (p *exportPage) byInstant(all *sorted[*lease], s queue.State, c *queue.Cursor) {
	for ls := range all.from(dueAfter(c)) {
		m := p.add(ls.job, s)
		m.At, m.HoldsLane = ls.due.Time(), ls.inFlight
		if p.endsAt(int64(ls.due), ls.job.id, nil) {
			return
		}
	}
}

// leased exports leased jobs as a restart would find them, or as a Reserve would after the lease ran out.
func (p *exportPage) leased(m *Machine, q *queueState, c *queue.Cursor, now leaky.Instant) {
	for _, ls := range m.leasesOf(q, c) {
		m := p.add(ls.job, queue.Waiting)
		m.Lease = move.LeaseHeld
		if ls.deadline <= now {
			m.Lease = move.LeaseOver
		}
		if m.Lease == move.LeaseOver || q.spec.Lends() {
			b := q.leaseLost(ls, now)
			m.State, m.Attempts, m.Reason, m.Timeline = b.state, b.attempts, b.reason, b.timeline
			if b.state != queue.Waiting {
				m.At = now.Time()
			}
		}
		if p.endsAt(int64(ls.fence.number), ls.job.id, nil) {
			return
		}
	}
}

func (p *exportPage) addEnded(d *endedJob) {
	p.jobs = append(p.jobs, move.Job{
		ID: d.id, State: d.state, AppendedAt: d.appended.Time(), At: d.at.Time(), Attempts: d.attempts,
		Reason:      d.reason,
		Fingerprint: binary.BigEndian.Uint64(d.fingerprint[:]), Cost: int64(d.cost),
	})
	p.jobKeys, p.endedKeys = append(p.jobKeys, d.seq), append(p.endedKeys, d.key)
}

func (p *exportPage) dead(m *Machine, c *queue.Cursor, now leaky.Instant) {
	for d := range m.deadFrom(p.request.Queue, c, now) {
		p.addEnded(d)
		if p.endsAt(int64(d.at), d.id, nil) {
			return
		}
	}
}

// ended walks through ended jobs, except dead ones, in order of key.
func (p *exportPage) ended(q *queueState, c *queue.Cursor, now leaky.Instant) {
	all := q.endedJobs.others
	i := 0
	if c != nil {
		i = sort.Search(all.len(), func(i int) bool { return all.at(i).key > uint64(c.At) })
	}
	for ; i < all.len(); i++ {
		d := all.at(i)
		if q.endedJobs.byID[d.id] != d || tooOld(d, q.spec.Retention, now) { // the id was used again
			continue
		}
		p.addEnded(d)
		if p.endsAt(int64(d.key), d.id, nil) {
			return
		}
	}
}

// read reads the records, up to about as many bytes as a page may have. Records that are gone by now are left out.
func (p *exportPage) read(t *tables) (page move.Exported) {
	next := p.laneCursor
	if n := len(p.cursors); p.more && next == nil {
		next = &p.cursors[n-1]
	}
	read := 0
	for i, m := range p.jobs {
		if p.jobKeys[i] != 0 {
			found := t.Table(jobsTable).Get(key(p.jobKeys[i]))
			if read += len(found); found == nil {
				continue
			}
			if m.State == queue.Dead && p.endedKeys[i] != 0 {
				// it exists if the record does
				_, _, _, past, _ := decodeEnded(t.Table(endedTable).Get(key(p.endedKeys[i])))
				m.Timeline = bytes.Clone(past)
			}
			readRecord(&m, found)
		}
		page.Jobs = append(page.Jobs, m)
		if read >= move.MaxPageBytes && i < len(p.jobs)-1 {
			next = &p.cursors[i]
			break
		}
	}
	if next != nil {
		page.Next = p.request.NextPage(*next)
	}
	return page
}

// readRecord reads a job's record. An unreadable record is exported as broken.
func readRecord(m *move.Job, found []byte) {
	_, record, err := decodeJob(found)
	if err == nil {
		_, err = jobrecord.UnpackHead(record)
	}
	if err != nil {
		*m = move.Job{ID: m.ID}
		return
	}
	m.Record = bytes.Clone(record)
	m.Fingerprint, m.Cost = binary.BigEndian.Uint64(record), int64(binary.BigEndian.Uint16(record[jobrecord.CostAt:]))
}
