// Package deferred is the overflow: jobs that wait on NATS JetStream until there is room in their queue, and their
// way back. It works with any engine that is a [queue.Overflow]:
//
//	stream, err := deferred.NewStream(nc, deferred.Options{Replicas: 3})
//	appender := deferred.New(engine, stream, nil)        // a queue.Appender, for producers
//	readmitter := deferred.NewReadmitter(engine, stream) // the way back, in any number of processes
//
// Run all three, stream.Run(ctx) until the others have ended. NATS may be away when they begin: until the stream
// is open, which it tries for by itself, nothing is deferred and nothing comes back. To know at once what is wrong
// with NATS, call stream.Open(ctx) before.
//
// It promises that a job answered Deferred is on NATS, acknowledged; that it comes back into its queue, or becomes
// a dead letter that says why, whatever is killed in between; that it is in the queue once, as long as the queue
// remembers its id; and that the jobs of one queue come back in the order in which NATS has them. While the engine
// is away, jobs that may wait are taken all the same.
//
// It refuses streams whose settings would lose or refuse jobs, and never changes one.
//
// It has no consumers. A queue's head is read directly, and what the engine has taken is removed; the engine
// remembers how far that is together with the jobs. docs/deferred.md says how this fits together.
package deferred
