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
// # A machine and a log
//
// The rules are those of queue/machine, which has no I/O. Here are a mutex around it, a committer, and the file. A call
// has the machine decide and apply, under the mutex; then it waits for the commit that its answer names. So nothing
// that could still vanish leaves, and a grant neither.
//
// Where a commit fails, memory is ahead of the file. Then the machine is made anew from the file, and takes over what
// the old one had answered: leases, what rules let through, who asks. For want of room, callers whose commits are
// undone decide again, and by then only what frees room is let in. After any other error of the disk nobody knows what
// is on file: callers are told so, and nothing more is decided until the store is opened again. Loading a great store
// takes seconds, so room is asked for before anything is decided, and after a commit found none the next is not tried
// for 250 ms.
//
// Of a job on the overflow only a deferral is kept, in the file and in memory. There it takes about 45 bytes and those
// of its id, 71 MB for a million ids of 26 characters, in pages without pointers.
//
// # Where to look
//
// call.go is how a call decides and waits; committer.go writes, and fails; space.go says what there is room for;
// saver.go saves what was taken from rules. The methods of queue.Engine stand in append.go, outflow.go, queues.go,
// jobs.go, rules.go, documents.go and move.go.
package boltq
