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
		Limits: info.Limits, Learned: info.Learned,
		Turn: q.turn, MaxCost: q.groupMaxCost(), Import: q.importing.mark, Open: q.importing.open,
	}, nil
}

// Export is a page of a queue's jobs: chosen by the machine, then read.
type Export struct {
	request    *move.ExportRequest
	jobs       []move.Job
	jobKeys    []uint64       // keys of their records; 0 if not kept
	endedKeys  []uint64       // keys of dead jobs among the ended ones; else 0
	cursors    []queue.Cursor // where the next page begins if this page ends with that job
	more       bool           // more jobs may follow
	laneCursor *queue.Cursor  // where to continue if no job was found
}

// ExportJobs chooses a page of a queue's jobs. Errors: queue.ErrUnknownQueue, an *invalid.Error.
func (m *Machine) ExportJobs(now leaky.Instant, r move.ExportRequest) (*Export, error) {
	x := &Export{request: &r}
	return x, x.choose(m, now)
}

// endsAt notes the place of the last chosen job, and reports whether the page is full.
func (x *Export) endsAt(at int64, id string, ln *lane) (full bool) {
	x.cursors = append(x.cursors, cursorAt(at, id, ln))
	x.more = len(x.jobs) == queue.MaxPage
	return x.more
}

func (x *Export) choose(m *Machine, now leaky.Instant) error {
	q, err := m.liveQueue(x.request.Queue)
	if err != nil {
		return err
	}
	if err := x.request.Validate(); err != nil {
		return err
	}
	c, err := x.request.Cursor()
	if err != nil {
		return err
	}
	switch x.request.State {
	case queue.Waiting:
		return x.waiting(q, c)
	case queue.Scheduled:
		x.byInstant(q.scheduled, queue.Scheduled, c)
	case queue.Held:
		x.byInstant(q.held, queue.Held, c)
	case queue.Leased:
		x.leased(m, q, c, now)
	case queue.Dead:
		x.dead(m, c, now)
	default:
		x.ended(q, c, now)
	}
	return nil
}

func (x *Export) add(j *job, s queue.State) *move.Job {
	x.jobs = append(x.jobs, move.Job{
		ID: j.id, State: s, Turn: j.turn, AppendedAt: j.appended.Time(), Back: j.marks&readmitted != 0,
	})
	x.jobKeys, x.endedKeys = append(x.jobKeys, j.seq), append(x.endedKeys, 0)
	m := &x.jobs[len(x.jobs)-1]
	if ls := j.lease; ls != nil {
		m.Attempts, m.Reason, m.Timeline = ls.attempts, ls.reason, ls.timeline
	}
	return m
}

func (x *Export) waiting(q *queueState, c *queue.Cursor) error {
	stopped, err := q.eachWaiting(c, nil, func(j *job) (full bool) {
		x.add(j, queue.Waiting)
		return x.endsAt(j.turn, j.id, j.lane)
	})
	if stopped != nil {
		x.more, x.laneCursor = true, &queue.Cursor{Lane: string(stopped.digest[:])}
	}
	return err
}

func (x *Export) byInstant(all *sorted[*lease], s queue.State, c *queue.Cursor) {
	for ls := range all.from(dueAfter(c)) {
		m := x.add(ls.job, s)
		m.At, m.HoldsLane = ls.due.Time(), ls.inFlight
		if x.endsAt(int64(ls.due), ls.job.id, nil) {
			return
		}
	}
}

// leased exports leased jobs as a restart would find them, or as a Reserve would after the lease ran out.
func (x *Export) leased(m *Machine, q *queueState, c *queue.Cursor, now leaky.Instant) {
	for _, ls := range m.leasesOf(q, c) {
		m := x.add(ls.job, queue.Waiting)
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
		if x.endsAt(int64(ls.fence.number), ls.job.id, nil) {
			return
		}
	}
}

func (x *Export) addEnded(d *endedJob) {
	x.jobs = append(x.jobs, move.Job{
		ID: d.id, State: d.state, AppendedAt: d.appended.Time(), At: d.at.Time(), Attempts: d.attempts,
		Reason:      d.reason,
		Fingerprint: binary.BigEndian.Uint64(d.fingerprint[:]), Cost: int64(d.cost),
	})
	x.jobKeys, x.endedKeys = append(x.jobKeys, d.seq), append(x.endedKeys, d.key)
}

func (x *Export) dead(m *Machine, c *queue.Cursor, now leaky.Instant) {
	for d := range m.deadFrom(x.request.Queue, c, now) {
		x.addEnded(d)
		if x.endsAt(int64(d.at), d.id, nil) {
			return
		}
	}
}

// ended walks through ended jobs, except dead ones, in order of key.
func (x *Export) ended(q *queueState, c *queue.Cursor, now leaky.Instant) {
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
		x.addEnded(d)
		if x.endsAt(int64(d.key), d.id, nil) {
			return
		}
	}
}

// Read reads the records, up to about as many bytes as a page may have. Records that are gone by now are left out. It
// needs no machine.
func (x *Export) Read(tx Transaction) (page move.Exported) {
	t := &tables{tx}
	next := x.laneCursor
	if n := len(x.cursors); x.more && next == nil {
		next = &x.cursors[n-1]
	}
	read := 0
	for i, m := range x.jobs {
		if x.jobKeys[i] != 0 {
			found := t.Table(jobsTable).Get(key(x.jobKeys[i]))
			if read += len(found); found == nil {
				continue
			}
			if m.State == queue.Dead && x.endedKeys[i] != 0 {
				// it exists if the record does
				_, _, _, past, _ := decodeEnded(t.Table(endedTable).Get(key(x.endedKeys[i])))
				m.Timeline = bytes.Clone(past)
			}
			readRecord(&m, found)
		}
		page.Jobs = append(page.Jobs, m)
		if read >= move.MaxPageBytes && i < len(x.jobs)-1 {
			next = &x.cursors[i]
			break
		}
	}
	if next != nil {
		page.Next = x.request.NextPage(*next)
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
