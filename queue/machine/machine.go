package machine

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Machine is the state of a store, and decides. It has no I/O, goroutine, lock, channel or clock. Its owner calls one
// method at a time, and passes in the time, the free space, and which commits are durable.
type Machine struct {
	epoch uint64
	Environment
	signals
	commits
	durableKeys keys
	store       storeRecord // as of the current commit

	queues     map[string]*queueState
	queueNames sorted[string]
	recentSpecs
	children map[string]int // number of children of each name
	counts   [queue.Expired + 1]int64
	// othersEnded is how many ended jobs are remembered, besides dead ones.
	othersEnded int64
	schedules
	leases    heap[*lease]
	lastFence uint64
	idleLanes heap[*lane] // lanes without jobs whose bucket still delays
	calendars heap[calendarDue]
	drainers
	rulebook
	deadIndex
	leftovers
	grantsHeld  map[heldGrants]uint64 // the commit that they wait for
	charged     map[tallyKey]*chargedTally
	owed        []owedTakes              // audit entries for the next commit
	withBacklog map[*queueState]struct{} // queues with jobs on the overflow
	deletedBy   uint64                   // the last commit after which a queue or a job is unknown
	samples     map[uint8][]int64        // numbers of the samples of each series, in order
	refiling
	maxBatches     int
	changedBatches []*batch // whose records the current commit writes
}

// Environment is what a Machine must know about its surroundings before it decides.
type Environment struct {
	Room                    // in the store
	Memory    Room          // of the process; only needed for what stays in memory
	Bytes     int64         // size of the store, or of that memory if smaller; 0 if unknown
	RoomHeard bool          // there are listeners for queues that have room again
	Ahead     leaky.Instant // how far the engine's clock is ahead of the wall clock
}

// Room is how much is left of a resource.
type Room struct {
	Full   error // why nothing that needs room is let in; nil if there is room
	Free   int64 // bytes
	Scarce error // why a queue that takes much gets no more; nil if Free is unknown
}

// signals are events for other parties.
type signals struct {
	wakeups []queue.Wakeup
	rooms   []string // queues with a backlog that have room again
	unsaved bool     // tallies have changed that no commit keeps otherwise
}

// Signals returns the clients to wake and the queues with a backlog that have room again, since the last call.
func (m *Machine) Signals() (wakeups []queue.Wakeup, rooms []string) {
	wakeups, rooms = m.wakeups, m.rooms
	m.wakeups, m.rooms = nil, nil
	return wakeups, rooms
}

// New returns the machine of an empty store. The epoch must be random: fences of other machines are invalid in this
// one.
func New(epoch uint64) *Machine {
	return &Machine{
		epoch: epoch, queues: map[string]*queueState{}, children: map[string]int{},
		queueNames: sorted[string]{less: func(a, b string) bool { return a < b }},
		commits:    commits{current: newCommit(1)},
		schedules: schedules{
			agenda: newAgenda(), timers: newTimers(), pulled: newAgenda(), pulledTimers: newTimers(),
			expiring: newExpiring(),
		},
		leases: newLeases(), idleLanes: newLanes(byUntil), calendars: newCalendars(),
		drainers: drainers{clients: map[string]*client{}},
		rulebook: rulebook{
			rules: map[string]*rule{}, ruleUses: map[string]int{}, rulesVersion: 1, tallySets: newTallySets(),
			attending: map[string]leaky.Instant{},
		},
		deadIndex: deadIndex{
			deadJobs: map[string]*deadJobs{}, namesWithDead: sorted[*deadJobs]{less: byName},
		},
		leftovers:   leftovers{leftPaces: map[string]paces{}},
		grantsHeld:  map[heldGrants]uint64{},
		charged:     map[tallyKey]*chargedTally{},
		withBacklog: map[*queueState]struct{}{},
		samples:     map[uint8][]int64{},
		maxBatches:  queue.MaxBatches,
	}
}
