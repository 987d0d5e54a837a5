package boltq

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// machine is the state of a store, and decides. It does no I/O and has no goroutine, lock or clock: whoever calls it
// holds Engine.mu, and says what time it is and what there is room for. Its listeners' channels never block it.
type machine struct {
	epoch   uint64
	room    room
	pending []change // decided, and left to the committer
	toSave  bool     // tallies have changed that no commit writes otherwise
	// owedAudit is what the next commit writes, whatever else it does.
	owedAudit []owedAudit
	store     storeRecord // as of the commits under way: it may be ahead of the file
	adaptedTo []adaptedTo // rates that a batch has led to, while it is applied

	queues     map[string]*queueState
	queueNames []string // of live queues, sorted
	// children counts the children of each name, including those whose creation is not on disk yet.
	children map[string]int
	counts   [queue.Expired + 1]int64
	schedules
	leases       heap[*lease]
	lastFence    uint64
	idleLanes    heap[*lane]   // lanes without jobs whose bucket still delays
	calendarsDue leaky.Instant // when the next calendar must be renewed
	drainers
	rulebook
	deadIndex
	leftovers
	withBacklog   map[*queueState]struct{} // queues with jobs on the overflow
	roomListeners listeners[string]
	// documentCalls has the call that decides about a document, or whose change of it is under way.
	documentCalls map[string]*call
}

func newMachine(epoch uint64) *machine {
	return &machine{
		epoch: epoch, queues: map[string]*queueState{}, children: map[string]int{},
		schedules: schedules{
			agenda: newAgenda(), timers: newTimers(), pulled: newAgenda(), pulledTimers: newTimers(),
			expiring: newExpiring(),
		},
		leases: newLeases(), idleLanes: newLanes(byForgetAt), calendarsDue: never,
		drainers: drainers{clients: map[string]*client{}, wakeListeners: listeners[queue.Wakeup]{}},
		rulebook: rulebook{
			rules: map[string]*rule{}, ruleUses: map[string]int{}, rulesVersion: 1, tallySets: newTallySets(),
			attending: map[string]leaky.Instant{},
		},
		deadIndex: deadIndex{
			deadJobs: map[string]*deadJobs{}, namesWithDead: sorted[*deadJobs]{less: byName},
		},
		leftovers:   leftovers{leftPaces: map[string]paces{}},
		withBacklog: map[*queueState]struct{}{}, roomListeners: listeners[string]{},
		documentCalls: map[string]*call{},
	}
}

// room is what there was room for when the mutex was taken.
type room struct {
	full  error // why nothing is let in that needs room; nil if there is some
	bytes int64 // of the whole store; 0 if that is not known
}

// setState moves a job to another state and keeps all counts in step.
func (m *machine) setState(j *job, to queue.State) {
	for _, c := range []*[queue.Expired + 1]int64{&m.counts, &j.lane.queue.counts} {
		if j.state != queue.StateNone {
			c[j.state]--
		}
		if !to.Ended() {
			c[to]++
		}
	}
	if j.lease != nil {
		j.lane.trackInFlight(j.lease, to)
	}
	if idle(j.state) != idle(to) {
		m.trackDeadline(j, idle(to))
	}
	if q := j.lane.queue; q.group != nil {
		if j.state == queue.Waiting {
			q.group.addWaiting(q, -1)
		}
		if to == queue.Waiting {
			q.group.addWaiting(q, 1)
		}
	}
	j.state = to
}

// idle reports whether jobs in that state wait, for their turn or for an instant.
func idle(s queue.State) bool { return s == queue.Waiting || s == queue.Scheduled }

// putWaiting puts a job among the waiting ones of its lane, and reports whether the lane had none.
func (m *machine) putWaiting(j *job, now leaky.Instant) (first bool) {
	q := j.lane.queue
	first = q.pushWaiting(j)
	m.setState(j, queue.Waiting)
	q.placeLane(j.lane, first, now)
	return first
}

// leaveFlight takes a leased job to a state other than waiting, and reports whether that unblocked its lane or its
// queue.
func (m *machine) leaveFlight(j *job, to queue.State, now leaky.Instant) (freed bool) {
	q := j.lane.queue
	crowded := q.atMaxInFlight()
	m.setState(j, to)
	return q.unblock(j.lane, now) || crowded && !q.atMaxInFlight()
}

// enterJob makes a job visible whose append is on disk, and reports whether the queue needs a look.
func (m *machine) enterJob(j *job, now leaky.Instant) bool {
	q := j.lane.queue
	q.removeIncoming(j)
	first := true
	if j.lease == nil {
		first = m.putWaiting(j, now)
	} else {
		m.putScheduled(j)
	}
	m.wakeForExpiry(j, now)
	return first
}
