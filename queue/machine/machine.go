package machine

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Machine is the state of a store, and decides. It does no I/O and has no goroutine, lock, channel or clock: whoever
// owns it calls one method at a time, and says what time it is, what there is room for, and which commits are durable.
type Machine struct {
	epoch uint64
	Environment
	signals
	commits
	durableKeys keys
	store       storeRecord // as of the present commit

	queues     map[string]*queueState
	queueNames sorted[string]
	recentSpecs
	children map[string]int // how many of each name there are
	counts   [queue.Expired + 1]int64
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
	owed        []owedTakes              // entries of the audit log for the next commit
	withBacklog map[*queueState]struct{} // queues with jobs on the overflow
	deletedBy   uint64                   // the commit that last made a queue or a job unknown
	refiling
}

// Environment is what a Machine is told about its surroundings before it decides.
type Environment struct {
	Room                    // in the store
	Memory    Room          // of the process. Only what stays in memory needs some
	Bytes     int64         // of the whole store, or that memory if it is less; 0 if that is not known
	RoomHeard bool          // somebody listens for queues that have room again
	Ahead     leaky.Instant // how far the engine's clock is ahead of the wall clock
}

// Room is what is left of something.
type Room struct {
	Full   error // why nothing is let in that needs some; nil if there is some
	Free   int64 // bytes
	Scarce error // why a queue that takes much gets no more of what is free; nil if Free is not known
}

// signals are what others should hear of.
type signals struct {
	wakeups []queue.Wakeup
	rooms   []string // queues with a backlog that have room again
	unsaved bool     // tallies have changed that no commit keeps otherwise
}

// Signals returns who should be woken, and which queues with a backlog have room again, since it was last called.
func (m *Machine) Signals() (wakeups []queue.Wakeup, rooms []string) {
	wakeups, rooms = m.wakeups, m.rooms
	m.wakeups, m.rooms = nil, nil
	return wakeups, rooms
}

// New returns the machine of an empty store. The epoch is drawn for each: no fence of another one is valid in it.
func New(epoch uint64) *Machine {
	return &Machine{
		epoch: epoch, queues: map[string]*queueState{}, children: map[string]int{},
		queueNames: sorted[string]{less: func(a, b string) bool { return a < b }},
		commits:    commits{present: newCommit(1)},
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
	}
}
