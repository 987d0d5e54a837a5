// Package machine has the rules of a store's queues in pure Go. A Machine has no I/O, goroutine, lock, channel or
// clock.
//
//	m := machine.New(epoch)
//	wait, done := m.Append(now, machine.NewAppending(jobs, false))
//	c := m.Collect(now)   // what to write, in order: see Commit.Write
//	m.Durable(c.Number, now)
//
// A command decides and applies at once. Its answer names the Commit that it waits for, or 0. The owner of the machine
// gives the answer only when that commit is durable, so that callers never see a state that could still vanish. Most
// reads and refusals wait for nothing.
//
//   - A job has its id, its place and its turn when it is decided. It enters its lane when its commit is durable, so
//     only durable jobs can be granted or seen.
//   - The end of a job applies at once.
//   - The pace of a queue is stored ahead: a grant is answered once ceilings that cover it are durable.
//   - Load restores the same state from the store, with exceptions. Leases are not stored unless their queue asks for
//     that, because their holders died with the process. Turns and the paces of lanes are not stored either.
//   - A commit that fails ends the machine. Its owner loads another one, which takes over what was answered: see
//     CarryOver.
//
// # Where to look
//
// The state: Machine in machine.go, queueState in queue.go, job and lease in job.go, lane in lane.go, group in
// groups.go, rule in rules.go, tally in tally.go and tallyset.go.
//
// The way in: append.go decides and takes jobs from their place into their lane, room.go decides what is full,
// appendrules.go asks the rules, overflow.go defers jobs, readmit.go takes them back.
//
// The way out: reserve.go is the call, agenda.go orders the queues that are due, grant.go and groupvisit.go visit them,
// laneturns.go has the fair turn, pace.go the departure, ceilings.go what must be durable first, watch.go who watches
// and when clients ask again.
//
// The end: settle.go ends leases, receiver.go stops a queue or opens its circuit, leases.go takes leases back,
// expiry.go ends expired jobs. ended.go and dead.go remember jobs, jobacts.go cancels, purges and decides about held
// jobs.
//
// Storage: commit.go, tables.go, records.go, codec.go and load.go; carry.go is for a commit that fails. changelog.go
// and auditlog.go are the logs.
package machine
