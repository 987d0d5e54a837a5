package machine

import (
	"slices"
	"time"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// Granting is the answer to a Reserve without its jobs. Read and Jobs add them once its commit is durable.
type Granting struct {
	queue.Reserved
	Wait    uint64 // the commit that it waits for
	grant   *grant
	records [][]byte // of the jobs; nil if unreadable
	faults  []error
}

// Reserve grants departures to a client. In one decision it takes back leases that ran out, ends expired jobs and
// pauses that are over, and then grants durable jobs. Errors: queue.ErrUnknownQueue, an *invalid.Error.
func (m *Machine) Reserve(now leaky.Instant, r queue.ReserveRequest) (*Granting, error) {
	if err := checkRequest(&r); err != nil {
		return nil, err
	}
	cl := m.registerClient(r.Client, now)
	cl.isPuller = r.Queue != ""
	fresh := cl.isNew(r.Number)
	pulled, err := m.pullQueueOf(&r, fresh)
	if err != nil {
		return nil, err
	}
	if pulled != nil {
		pulled.lastAsked = now
	} else {
		m.lastReserve = now
	}
	out := &Granting{Reserved: queue.Reserved{Now: now.Time()}}
	g := &grant{
		drainer: r.Client.Shown(), max: r.Max, noRoom: m.Full != nil, shares: newShares(r), full: r.Max == 0,
	}
	m.grantsFrom(g, &r, now)
	switch {
	case fresh:
		m.fileAgain(now)
		out.Expired = m.takeBack(now, pulled)
		g.expired = m.expire(now) // before pauses end: jobs that expire earlier must not count as lost slots
		m.endPauses(g, pulled, now)
		if len(out.Expired)+g.expired > 0 {
			g.wait = m.wait()
		}
		m.grantFresh(cl, g, pulled, r, now)
		out.Lost, out.Short = g.lost, g.short
	case r.Number == cl.lastNumber:
		cl.grant.lead, cl.grant.from, cl.grant.again = g.lead, g.from, 0
		g = cl.grant
	default: // overtaken by a later request: the answer is not read
		g = &grant{}
	}
	if pulled != nil {
		out.Next = m.untilPulled(pulled, g, now)
	} else {
		out.Next, out.Backup = m.planSleep(r.Client.ID, g, now)
		m.restorePassed(g)
	}
	out.Garbage = m.NeedsSweep(now)
	out.grant, out.Wait = g, m.unlessDurable(g.wait)
	return out, nil
}

// grantFresh decides a request that was not decided before.
func (m *Machine) grantFresh(cl *client, g *grant, pulled *queueState, r queue.ReserveRequest, now leaky.Instant) {
	if pulled != nil {
		m.grantPulled(g, pulled, now)
	} else {
		m.grantDue(g, now)
	}
	m.putBack(g, now)
	m.noteReign(g, &r)
	cl.lastNumber, cl.grant = r.Number, g
	for _, h := range g.jobs {
		h.job.lease.granted = g.wait
	}
	if r.Max > 0 { // a request for no jobs finds no short queues
		slices.Sort(g.short)
		cl.short, g.newlyShort = g.short, g.anyNewlyShort(cl.short)
	}
	m.trimSome(now)
}

func checkRequest(r *queue.ReserveRequest) error {
	if r.Partition != 0 && r.Queue == "" {
		return invalid.Errorf("partition", "", "is %d, an embedded store has only partition 0", r.Partition)
	}
	return r.Check()
}

// Empty reports whether no jobs are granted.
func (g *Granting) Empty() bool { return len(g.grant.jobs) == 0 }

// Read reads the records of the granted jobs. It needs no machine.
func (g *Granting) Read(tx Transaction) {
	t, jobs := &tables{tx}, g.grant.jobs
	g.records, g.faults = make([][]byte, len(jobs)), make([]error, len(jobs))
	for i, h := range jobs {
		record, err := t.getRecord(h.job.seq)
		g.records[i], g.faults[i] = append([]byte(nil), record...), err
	}
}

// Leases returns the granted jobs' leases and departures, for a caller that knows the jobs itself.
func (g *Granting) Leases() []Departure {
	leases := make([]Departure, len(g.grant.jobs))
	for i, h := range g.grant.jobs {
		leases[i] = Departure{
			queue.Lease{Queue: h.job.lane.queue.name, ID: h.job.id, Fence: h.fence.text()}, h.departs,
		}
	}
	return leases
}

// Departure is a job that has been granted a departure.
type Departure struct {
	queue.Lease
	At leaky.Instant
}

// Unreadable is a job whose record cannot be read.
type Unreadable struct {
	Queue, ID string
	Err       error
}

// Jobs adds the granted jobs to the answer, with their departures relative to now. Jobs whose lease was lost meanwhile
// are left out. So are unreadable jobs: each time their lease runs out, it spends an attempt, so they end dead instead
// of blocking forever.
func (m *Machine) Jobs(now leaky.Instant, g *Granting) (bad []Unreadable) {
	if len(g.grant.jobs) == 0 {
		return nil
	}
	g.Now = now.Time()
	g.Reserved.Jobs = make([]queue.Reservation, 0, len(g.grant.jobs))
	for i, h := range g.grant.jobs {
		j, q := h.job, h.job.lane.queue
		if !q.live || j.state != queue.Leased || j.lease.fence != h.fence {
			continue
		}
		v := queue.Reservation{
			Job:   queue.Job{Queue: q.name, ID: j.id},
			Fence: h.fence.text(), In: h.departs.Sub(now), Lease: q.spec.Lease.D(),
			Attempt: h.attempt, Revision: q.revision, AppendedAt: j.appended.Time(), Age: now.Sub(j.appended),
		}
		err := g.faults[i]
		if err == nil {
			err = jobrecord.Unpack(g.records[i], &v.Job)
		}
		if err != nil {
			bad = append(bad, Unreadable{q.name, j.id, err})
			continue
		}
		g.Reserved.Jobs = append(g.Reserved.Jobs, v)
	}
	return bad
}

// Pull queues have an agenda of their own, which drainers do not look at. A pull queue is visited when a puller names
// it. Pullers sleep between requests; pullersAskAt is when the last of them will ask again.

// pullState is what a queue knows of its pullers.
type pullState struct {
	pullersAskAt leaky.Instant // when they will ask next
	lastAsked    leaky.Instant // when they last asked; 0 if not since the file was opened
}

func (m *Machine) agendaOf(q *queueState) *heap[*agendaEntry] {
	if q.spec.Pull {
		return &m.pulled
	}
	return &m.agenda
}

func (m *Machine) timersOf(q *queueState) *heap[*queueState] {
	if q.spec.Pull {
		return &m.pulledTimers
	}
	return &m.timers
}

// takeOffAgenda removes a queue from its agenda before it moves to the other one.
func (m *Machine) takeOffAgenda(q *queueState, now leaky.Instant) {
	updateHeap(m.agendaOf(q), &q.agendaEntry, q.agendaIndex, false)
	updateHeap(m.timersOf(q), q, int(q.timerIndex), false)
	if g := q.group; g != nil {
		q.member.leave()
		m.armGroup(g, now)
	}
}

// pullQueueOf returns the queue that a request names, or nil. A repeated request is answered even if the queue is no
// longer a pull queue.
func (m *Machine) pullQueueOf(r *queue.ReserveRequest, fresh bool) (*queueState, error) {
	if r.Queue == "" {
		return nil, nil
	}
	q := m.queues[r.Queue]
	switch {
	case q == nil:
		return nil, unknownQueue(r.Queue)
	case fresh && !q.spec.Pull:
		return nil, queue.NotPulled(r.Queue)
	}
	return q, nil
}

// grantPulled visits a pull queue.
func (m *Machine) grantPulled(g *grant, q *queueState, now leaky.Instant) {
	if g.full {
		return
	}
	ripe := q.timerIndex >= 0 && q.timerAt <= now
	if ripe {
		m.readyScheduled(q, becomeReadyMax, now)
	}
	grp := q.group
	if grp != nil {
		grp.rejoin(q, now)
	}
	due := q.agendaIndex >= 0 && q.departsAt <= now.Add(queue.Horizon) && !g.barred
	switch {
	case due && grp == nil:
		m.visitQueue(q, g, now)
		m.rearm(q, now)
	case due && grp.queue.runnable():
		m.visitGroup(grp, q, g, now)
		m.rearm(q, now)
		m.armGroup(grp, now)
		g.again, grp.leftFor = grp.leftFor, 0
	case ripe:
		m.armTimer(q)
	}
	if grp != nil && !g.full {
		grp.claim(q, now)
	}
}

// pullsFrom returns since when, or from when on, a job of a pull queue can depart, considering its group. any is false
// if none can.
func (q *queueState) pullsFrom(now leaky.Instant) (at leaky.Instant, any bool) {
	at, any = q.departsAt, q.agendaIndex >= 0
	if g := q.group; any && g != nil {
		at, any = max(at, g.since, g.queue.freeSince(now)), g.queue.runnable()
	}
	return at, any
}

// untilPulled returns how long pullers should wait before they ask again.
func (m *Machine) untilPulled(q *queueState, g *grant, now leaky.Instant) time.Duration {
	next := maxSleep
	at, any := q.pullsFrom(now)
	if g.again != 0 {
		next = min(next, g.again.Sub(now))
	} else if any {
		next = min(next, g.asksFor(at).Sub(now))
	}
	if q.timerIndex >= 0 {
		next = min(next, q.timerAt.Sub(now))
	}
	if p := q.parent(); p != nil && !p.runnable() && p.timerIndex >= 0 {
		next = min(next, p.timerAt.Sub(now))
	}
	next = max(min(next, m.untilLeaseOrExpiry(now)), minSleep)
	if g.full && any && at <= now.Add(queue.Horizon) {
		next = 0
	}
	q.pullersAskAt = now.Add(next)
	return g.sleeps(next)
}

// wakePullers wakes the pullers of a queue if they would look later than at. They then count as asking at once.
func (m *Machine) wakePullers(q *queueState, at, now leaky.Instant) {
	if at < q.pullersAskAt {
		q.pullersAskAt = now
		m.wakeups = append(m.wakeups, queue.Wakeup{Queue: q.name})
	}
}

// checkPullRelations returns an error if a spec would make a pull queue a parent.
func (m *Machine) checkPullRelations(s *queue.Spec) error {
	if parent := m.queues[names.Parent(s.Name)]; parent != nil && parent.spec.Pull {
		return s.PullChild()
	}
	if !s.Pull {
		return nil
	}
	if n := m.children[s.Name]; n > 0 {
		return s.PullParent(n)
	}
	return nil
}
