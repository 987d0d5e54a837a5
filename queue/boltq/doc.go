// Package boltq is the embedded engine: queues in one process, durable in one bbolt file.
//
//	engine, err := boltq.Open(ctx, "jobs.db", boltq.Options{})
//
// It promises the rules of package queuetest, and that a change is on disk before it is acknowledged: one goroutine
// commits, and everything that was asked for while a commit ran shares the next one. Order, ids and states live in
// memory; payloads are read from the file when their job departs.
//
// It refuses a second process on the file, a file of another schema, and, after an I/O error that leaves in doubt
// what is on disk, everything but reading.
//
// # Memory and file
//
// These rules keep them from contradicting each other:
//
//   - A change is applied in memory after its commit, never before. Until then the job (or queue) that it concerns
//     is busy, and whoever else wants to decide about it waits. A failed commit therefore has nothing to undo but
//     reserved places, and jobs that stood aside while they were to be cancelled.
//   - Leases are not written. Their holders die with the process, so on opening a leased job waits again, at its
//     turn.
//   - Whose turn it is, among the lanes of a queue or in a group, is not written either, nor how far a lane's own
//     rate has come. On opening they take turns anew, and each lane with a rate is held as if it had just granted
//     its dearest job.
//   - The pace is written ahead. Each queue's saved TAT, those of its further paces and what is used of its quotas
//     are ceilings that no answered grant exceeds, so that the window law holds over a crash although most grants
//     commit nothing.
//
// Of a job on the overflow only a record is kept, in the file and in memory. In memory it takes about 45 bytes and
// those of its id, 71 MB for a million ids of 26 characters, in pages without pointers that the collector passes
// over. What a Readmit takes back is one transaction: the jobs, the records that end, and how far the overflow was
// taken back.
package boltq
