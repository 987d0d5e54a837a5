// Package machine is the rules of a store's queues, once, in pure Go: it has no I/O, goroutine, lock, channel or clock.
//
//	m := machine.New(epoch)
//	wait, done := m.Append(now, machine.NewAppending(jobs, false))
//	c := m.Collect(now)   // what is to be kept, in order: see Commit.Write
//	m.Durable(c.Number, now)
//
// A command decides and applies at once. Its answer says which Commit it waits for, 0 for none: whoever owns the
// machine gives it only when that is durable, so that nothing leaves that could still vanish. What is only read waits
// for nothing, and a refusal neither.
//
//   - A job has its id, its place and its turn when it is decided, and enters its lane when its commit is durable: what
//     can be granted or seen is kept.
//   - What ends applies at once.
//   - The pace of a queue is kept ahead: a grant waits until ceilings are durable that it does not exceed.
//   - Load makes the same state from what was kept. Leases are not, unless their queue asks for that: their holders
//     died with the process. Nor are turns and the paces of lanes.
//   - A commit that fails ends the machine: its owner loads another one, which takes over what was answered. See
//     CarryOver.
//
// # Where to look
//
// The state: Machine in machine.go, queueState in queue.go, job and lease in job.go, lane in lane.go, group in
// groups.go, rule in rule.go. The way in: append.go decides, room.go says what is full, arriving.go and commit.go how a
// job gets from its place into its lane, appendrules.go what rules say, defer.go what goes on the overflow, readmit.go
// and returning.go what comes back. The way out: reserve.go is the call, agenda.go which queue is due, grant.go and
// groupvisit.go the visit, lanes.go the fair turn, pace.go and limits.go the departure, ceilings.go what must be
// durable first, wake.go who is told when. The end: settle.go decides, outcome.go applies, receiver.go stops a queue or
// opens its circuit, leases.go takes back. What is kept: commit.go, effects.go, codec.go, tables.go and load.go;
// carry.go and charged.go are for a commit that fails.
package machine
