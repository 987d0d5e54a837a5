package machine

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// grant is what one request granted a client.
type grant struct {
	drainer string // the name in timelines
	max     int    // maximum number of jobs

	jobs    []granted
	bytes   int
	lost    map[string]int64
	full    bool   // max or queue.MaxReserveBytes is reached
	expired int    // number of expired jobs that it found
	noRoom  bool   // the store was full when it began
	unended []*job // expired jobs that could not be ended
	wait    uint64 // the commit that the answer waits for
	lead    time.Duration
	from    leaky.Instant // no paced departure is granted before
	barred  bool          // nothing is granted
	again   leaky.Instant // when to look again at a slot that was left to other clients; 0 if none was
	reigns
	first  leaky.Instant // earliest paced departure granted; 0 if none
	latest leaky.Instant // latest paced departure granted
	visits int
	shares
}

// atVisitLimit reports whether the call has visited as many queues as it may.
func (g *grant) atVisitLimit() bool { return g.visits >= queue.MaxVisits }

type granted struct {
	job     *job
	fence   fence
	departs leaky.Instant
	attempt int
}

// grantDue visits the queues and groups from which a job can depart.
func (m *Machine) grantDue(g *grant, now leaky.Instant) {
	if g.full { // the request asked for no jobs
		return
	}
	m.fireTimers(now)
	if g.barred {
		return
	}
	var visited []*agendaEntry
	for !g.full && !g.atVisitLimit() && m.agenda.len() > 0 && m.agenda.top().departsAt <= now.Add(queue.Horizon) {
		o := m.agenda.pop()
		if o.group == nil && g.usedUp(o.queue) {
			m.passOver(g, o)
			continue
		}
		visited = append(visited, o)
		g.visits++
		if o.group != nil {
			m.visitGroup(o.group, nil, g, now)
		} else {
			m.visitQueue(o.queue, g, now)
		}
	}
	for _, o := range visited {
		if o.group != nil {
			m.rearmGroup(o.group, now)
			m.passOverGroup(g, o.group, now)
		} else {
			m.rearm(o.queue, now)
			m.passOverUsedUp(g, o.queue, now)
		}
	}
}

func (m *Machine) visitQueue(q *queueState, g *grant, now leaky.Instant) {
	g.countLost(q, q.departsAt, now)
	q.repairWindows(now)
	before, v := len(g.jobs), q.beginVisit(&laneBudget{reigns: g.reigns}, now)
	paced := q.hasPace() || v.takeTurns
	for !g.full && !g.usedUp(q) {
		d := g.departureFor(q, paced, now)
		if d > now.Add(queue.Horizon) {
			q.repairBuckets(now)
			break
		}
		if q.atMaxInFlight() {
			break
		}
		ln := q.chooseLane(&v, d, now)
		if ln == nil {
			break
		}
		j := ln.waiting.front()
		if gone, more := m.expired(j, d, g, now); gone {
			continue
		} else if !more || !g.fits(j) {
			break
		}
		of := j.bill()
		if !q.hasCredit(g.reigns, d, of) {
			continue // it departs when there is enough
		}
		if !q.affords(d, of) {
			break
		}
		g.shift(&q.paces)
		q.noteDeparture(d)
		q.take(d, now, of)
		m.grantJob(g, &v, j, d, now)
		if paced {
			g.notePaced(d)
		}
	}
	m.endVisit(g, q, len(g.jobs)-before, now)
}

// departureFor returns when a queue lets the client have its next departure.
func (g *grant) departureFor(q *queueState, paced bool, now leaky.Instant) leaky.Instant {
	d := q.opens(now)
	if paced {
		return q.hours.next(g.apart(&q.paces, max(d, g.from), now), now)
	}
	return d
}

// countLost counts the departures that a queue could have had since an instant.
func (g *grant) countLost(q *queueState, since, now leaky.Instant) {
	if since < now && q.hours != nil {
		since = max(since, q.hours.since(now, now))
	}
	n := q.lostSlots(since, now)
	if n == 0 || q.receiver.opened != 0 && !q.isParent() { // a target that is down loses nothing
		return
	}
	if g.lost == nil {
		g.lost = map[string]int64{}
	}
	g.lost[q.name] += n
	q.count().Lost += n
}

// lostSlots returns how many departures fit between since and now.
func (q *queueState) lostSlots(since, now leaky.Instant) int64 {
	n, d := q.slowestRate().Fraction()
	if n == 0 || since >= now {
		return 0
	}
	hi, lo := bits.Mul64(uint64(now-since), uint64(n))
	if hi >= uint64(d) {
		return 0 // the clock jumped absurdly far
	}
	lost, _ := bits.Div64(hi, lo, uint64(d))
	return int64(lost)
}

func (g *grant) fits(j *job) bool {
	if len(g.jobs) > 0 && g.bytes+int(j.size) > queue.MaxReserveBytes {
		g.full = true
	}
	return !g.full
}

// grantJob hands the first job of its lane to the client.
func (m *Machine) grantJob(g *grant, v *queueVisit, j *job, departs, now leaky.Instant) {
	q := j.lane.queue
	q.removeWaiting(j)
	g.bytes += int(j.size)
	g.use(q)
	g.wait = max(g.wait, m.waitsForJob(j), m.waitsForGrants(j.lane))
	g.jobs = append(g.jobs, m.lease(j, g.drainer, departs))
	if q.spec.Lends() {
		m.persistLease(g, j)
	}
	q.laneGranted(v, j.lane, departs, now, j.bill())
	g.wait = max(g.wait, m.keepDebts(j.lane, departs))
	g.full = len(g.jobs) == g.max
}

func (m *Machine) endVisit(g *grant, q *queueState, n int, now leaky.Instant) {
	if n == 0 {
		return
	}
	q.outflow.add(now, int64(n))
	if !q.isParent() {
		g.wait = max(g.wait, m.raiseForGrant(q))
	}
}

// shares is how many jobs of each queue a client may still have. A queue whose share is used up keeps its place on the
// agenda for other clients. It does not count when planning when this client asks again.
type shares struct {
	left map[string]int // by queue; other queues are unlimited
	// passedOver is off the agenda until the client's next request is planned.
	passedOver []*agendaEntry
	// next is when a job can depart from a group with members that were passed over; never if none can.
	next       leaky.Instant
	short      []string // queues that had more jobs due
	newlyShort bool     // some of these were not short in the client's previous request
}

func newShares(r queue.ReserveRequest) shares {
	if r.Queue != "" {
		return shares{next: never}
	}
	return shares{left: maps.Clone(r.Shares), next: never}
}

func (s *shares) usedUp(q *queueState) bool {
	left, named := s.left[q.name]
	return named && left <= 0
}

func (s *shares) use(q *queueState) {
	if left, named := s.left[q.name]; named {
		s.left[q.name] = left - 1
	}
}

// anyNewlyShort reports whether a queue is short that was not short before.
func (s *shares) anyNewlyShort(before []string) bool {
	return slices.ContainsFunc(s.short, func(name string) bool { return !slices.Contains(before, name) })
}

func (m *Machine) passOver(g *grant, o *agendaEntry) {
	updateHeap(&m.agenda, o, o.agendaIndex, false)
	g.passedOver = append(g.passedOver, o)
	g.short = append(g.short, o.queue.name)
}

// passOverUsedUp passes a queue over after a visit, if the client has its share and more jobs are due.
func (m *Machine) passOverUsedUp(g *grant, q *queueState, now leaky.Instant) {
	if g.usedUp(q) && q.agendaIndex >= 0 && q.departsAt <= now.Add(queue.Horizon) {
		m.passOver(g, &q.agendaEntry)
	}
}

// passOverGroup passes a group over after a visit, if only members can depart whose shares are used up, or if the next
// slot was left to a pull child.
func (m *Machine) passOverGroup(g *grant, grp *group, now leaky.Instant) {
	overShare := 0
	for q := range grp.ready.all {
		if q.member.overShare {
			q.member.overShare = false
			g.short = append(g.short, q.name)
			overShare++
		}
	}
	left := grp.leftFor != 0
	if left {
		g.again = min(cmp.Or(g.again, never), grp.leftFor)
		grp.leftFor = 0
	}
	if !left && (overShare == 0 || overShare < grp.ready.len()) || grp.agendaIndex < 0 {
		return
	}
	if !left && grp.resting.len() > 0 {
		g.next = min(g.next, max(grp.since, grp.queue.freeSince(now), grp.resting.top().departsAt))
	}
	updateHeap(&m.agenda, &grp.agendaEntry, grp.agendaIndex, false)
	g.passedOver = append(g.passedOver, &grp.agendaEntry)
}

func (m *Machine) restorePassed(g *grant) {
	for _, o := range g.passedOver {
		m.agenda.push(o)
	}
	g.passedOver = nil
}

// firstDeparture returns when the next job can depart that the client may have.
func (m *Machine) firstDeparture(g *grant) leaky.Instant {
	if m.agenda.len() > 0 {
		return min(g.next, m.agenda.top().departsAt)
	}
	return g.next
}
