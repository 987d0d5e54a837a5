package boltq

import (
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// line is one queue in memory. Everything is guarded by the engine's mutex.
type line struct {
	outlet          // what it is on the agenda by itself
	paces           // what lets jobs out
	seat     seat   // in its group
	kin      *group // of which it is a member; nil if there is none
	number   uint64 // its key in the file, and the order queues were made in
	spec     queue.Spec
	revision int64
	pause    pause
	heard    heard
	// laneStops is until when a stop of one of its lanes may matter.
	laneStops leaky.Instant
	filling   filling

	// busy is the call that is creating, changing or deleting the queue: until
	// it is done nothing is granted and nobody else decides about the queue.
	busy *call
	live bool // false before its creation is on disk, and after its deletion
	gone bool // deleted

	jobs  map[string]*job
	bare  lane                       // without a key
	lanes map[queue.LaneDigest]*lane // the others
	roll  sorted[*lane]              // of those, by digest
	// mostLanes is how many there were since the map was made.
	mostLanes int
	peopled   int    // lanes in which jobs wait
	turns     *turns // of the lanes; nil in a queue that never had any
	later     sorted[*flight]
	held      sorted[*flight] // may have been sent; by since when
	ended     memory
	aside     aside
	expiries  map[uint64]leaky.Instant // of the jobs that expire, by seq
	deadlines sorted[deadline]         // of those of them that wait or are scheduled
	coming    coming                   // appends that are not on disk yet
	count     [queue.Expired + 1]int64 // of the states that hold a place
	bytes     int64                    // of the jobs in those, and of those that are coming

	lastFence uint64 // of the latest grant
	// ceiling is what is on file; pledged is what the commits under way will make of it.
	ceiling ceilings
	pledged ceilings
	pledger *call // whose change is the latest pledge

	turn     int64
	maxCost  int64
	dearer   int64         // the same of its children's jobs, since it was made
	plain    bool          // no job with a lane, a priority or a not-before came in
	since    leaky.Instant // when this process opened a file that has the queue; 0 if it made it
	dearest  int64         // maxCost then
	refusals leaky.Instant
	kept     counters // on disk
	loose    counters // counted since; they go with the next commit

	outflow  meter
	failures []queue.LastError // newest first

	ripens     leaky.Instant // when the first scheduled job is due
	ripeningAt int           // its place among those; -1 if nothing is scheduled
	expires    leaky.Instant // when the first of its deadlines is
	expiringAt int           // its place among those queues; -1 if it has none

	// asks are the rules that its jobs are asked by, as of the change of rules that is counted so; nil if it has none.
	asks     *asked
	asksAsOf uint64

	told  leaky.Instant // when those who pull from it will ask
	asked leaky.Instant // when they last did, 0 if nobody has since the file was opened
	pulls bool          // it is a pull queue, or about to be one, or no more
}

// counters are what a queue has counted since it was made.
type counters struct {
	appended, delivered, retried, died, released, expired, refused, lost int64
	// Of the overflow, of Cancel, and of deadlines.
	setAside, returned, missing, cancelled, timedOut, replayed int64
	throttled, down                                            int64
}

// all lists the counters in the order in which the file has them.
func (c *counters) all() [16]*int64 {
	return [...]*int64{
		&c.appended, &c.delivered, &c.retried, &c.died, &c.released, &c.expired, &c.refused, &c.lost,
		&c.setAside, &c.returned, &c.missing, &c.cancelled, &c.timedOut, &c.replayed,
		&c.throttled, &c.down,
	}
}

func (c counters) plus(d counters) counters {
	sum := c.all()
	for i, v := range d.all() {
		*sum[i] += *v
	}
	return c
}

const maxFailures = 10

// firstTurn is where turns begin: as far up that none is below 0, whatever its priority.
const (
	urgency   = 49 // a priority is worth 2^49 of turn
	firstTurn = queue.MaxPriority << urgency
)

func newLine(number uint64, spec queue.Spec) *line {
	l := &line{
		number: number, jobs: map[string]*job{}, later: sorted[*flight]{less: byDue}, held: sorted[*flight]{less: byDue}, roll: sorted[*lane]{less: byDigest},
		deadlines: sorted[deadline]{less: byDeadline},
		turn:      firstTurn, maxCost: 1, plain: true, ripeningAt: -1, expiringAt: -1,
	}
	l.outlet = outlet{of: l, agendaAt: -1}
	l.bare = lane{line: l, place: -1}
	l.ended.byID = map[string]*ended{}
	l.setSpec(spec)
	return l
}

func (l *line) setSpec(s queue.Spec) {
	l.spec, l.pulls = s, s.Pull
	l.pacer = s.Pacer(queue.Horizon)
}

// size is what capacity counts, with the places reserved.
func (l *line) size() int64 {
	return l.count[queue.Waiting] + l.count[queue.Scheduled] + l.count[queue.Leased] + l.count[queue.Held] + l.coming.all
}

// record is what the file should say of the queue, all in all.
func (l *line) record(c counters, ceiling ceilings, w way, h heard) lineRecord {
	return lineRecord{counters: c, heard: h, ceiling: ceiling, maxCost: l.maxCost, dearer: l.dearer, turn: l.turn, tickets: l.aside.tickets, way: w}
}

// vacate takes a job out of those that hold a place.
func (e *Engine) vacate(j *job, now leaky.Instant) {
	l := j.lane.line
	e.alight(j, now)
	delete(l.jobs, j.id)
	if j.marks&expires != 0 {
		delete(l.expiries, j.seq)
	}
	if j.marks&cameBack != 0 {
		l.aside.back--
		l.aside.backBytes -= j.bytes()
	}
}

// expire notes when a job expires; 0 is never.
func (l *line) expire(j *job, at leaky.Instant) {
	if at == 0 {
		return
	}
	j.marks |= expires
	if l.expiries == nil {
		l.expiries = map[uint64]leaky.Instant{}
	}
	l.expiries[j.seq] = at
}

// expiresAt is zero if the job never does.
func (j *job) expiresAt() time.Time {
	if j.marks&expires == 0 {
		return time.Time{}
	}
	return j.lane.line.expiries[j.seq].Time()
}

func (l *line) fail(f queue.LastError) {
	l.failures = append([]queue.LastError{f}, l.failures...)
	if len(l.failures) > maxFailures {
		l.failures = l.failures[:maxFailures]
	}
}
