// Package boltq is the embedded engine: queues in one process, durable in one bbolt file.
//
//	engine, err := boltq.Open(ctx, "jobs.db", boltq.Options{})
//
// It keeps the rules of package queuetest. Every change is on disk before it is acknowledged. One goroutine commits;
// calls made during a commit go into the next one. Order, ids and states are in memory; payloads are read from the
// file when their job departs.
//
// It refuses a second process on the file, and a file of another schema. After an I/O error that leaves in doubt what
// is on disk, it refuses everything except reading.
//
// # A machine and a log
//
// The rules are those of queue/machine, which has no I/O. This package adds a mutex around it, a committer, and the
// file. A call lets the machine decide and apply under the mutex; then it waits for the commit that the answer names.
// So neither an answer nor a grant leaves that could still vanish.
//
// When a commit fails, memory is ahead of the file. Then the machine is loaded again from the file, and takes over what
// callers were told: leases, what rules let through, clients. If the file was full, callers whose commits are undone
// decide again, and by then only calls that free room are accepted. After any other disk error nobody knows what is on
// file: callers get an error, and nothing more is decided until the store is opened again. Loading a large store takes
// seconds. So the room is checked before anything is decided, and after a commit found none the next is not tried for
// 250 ms.
//
// For a job on the overflow only a deferral is kept, in the file and in memory. In memory it takes about 45 bytes plus
// the id: 71 MB for a million ids of 26 characters, in pages without pointers.
//
// # Where to look
//
// call.go is how a call decides and waits; committer.go writes commits and handles failures; space.go is how much room
// there is; saver.go saves what was taken from rules. The methods of queue.Engine are in append.go, outflow.go,
// queues.go, jobs.go, rules.go, documents.go and move.go.
package boltq
