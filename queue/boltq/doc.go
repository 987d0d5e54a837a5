// Package boltq is the embedded engine: queues in one process, durable in one bbolt file.
//
//	engine, err := boltq.Open(ctx, "jobs.db", boltq.Options{})
//
// It keeps the rules of package queuetest, and every change is on disk before it is acknowledged: one goroutine
// commits, and whatever is asked for during a commit goes into the next one. Order, ids and states live in memory;
// payloads are read from the file when their job departs.
//
// It refuses a second process on the file, a file of another schema, and, after an I/O error that leaves in doubt
// what is on disk, everything but reading.
//
// # Memory and file
//
//   - A change is applied to memory after its commit, never before: see change. Until then its job or queue is busy,
//     and others who want to decide about that wait. So a failed commit has nothing to undo but reserved places, and
//     jobs that were taken out of their lanes to be ended.
//   - Leases are not on file, unless the queue asks for that. Their holders die with the process, so after opening a
//     leased job waits again, at its turn.
//   - Whose turn it is, among the lanes of a queue or the members of a group, is not on file, nor is the pace of a
//     lane. After opening turns begin anew, and a lane with a rate is delayed as if it had just granted the costliest
//     job of its queue.
//   - The pace of a queue is written ahead: its ceilings on file are never exceeded by an answered grant. So the
//     window law holds over a crash although most grants commit nothing.
//
// Of a job on the overflow only a deferral is kept, in the file and in memory. There it takes about 45 bytes and those
// of its id, 71 MB for a million ids of 26 characters, in pages without pointers. What a Readmit does is one
// transaction: the jobs, the deferrals that end, and how far the overflow has been taken back.
//
// # Where to look
//
// The state: machine in machine.go, which Engine in engine.go guards; queueState in queue.go, job and lease in
// job.go, lane in lane.go, group in groups.go, rule in rule.go. The way in: append.go decides, room.go says what is
// full, retryafter.go when to come back, appendrules.go what rules say, defer.go what goes on the overflow,
// readmit.go what comes back. The way out: reserve.go is the call, agenda.go which queue is due, grant.go and
// groupvisit.go the visit, lanes.go the fair turn, pace.go and limits.go the departure, ceilings.go what must be on
// file first, wake.go who is told when. The end: settle.go decides, settlechanges.go applies, receiver.go stops a
// queue or opens its circuit, leases.go takes back. The file: committer.go and batch.go, effects.go, codec.go and
// tables.go, open.go and load.go, sweep.go.
package boltq
