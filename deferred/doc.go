// Package deferred is the overflow: jobs that wait on NATS JetStream until there is room in their queue, and their way
// back. It works with any engine that is a [queue.Overflow]:
//
//	stream, err := deferred.NewStream(nc, deferred.Options{Replicas: 3})
//	appender := deferred.New(engine, stream, nil)        // a queue.Appender, for producers
//	readmitter := deferred.NewReadmitter(engine, stream) // the way back, in any number of processes
//
// Run all three, and stream.Run(ctx) until the others have ended. NATS may be away at the start: the stream keeps
// trying to open, and until it is open nothing is deferred and nothing comes back. To see at once what is wrong with
// NATS, call stream.Open(ctx) first.
//
// It promises that a job answered Deferred is stored and acknowledged on NATS. No matter what is killed, the job comes
// back into its queue or becomes a dead letter that says why. It is in the queue once, as long as the queue remembers
// its id. The jobs of a queue come back in the order in which NATS has them. While the engine is away, deferrable jobs
// are still accepted.
//
// It refuses streams whose settings would lose or refuse jobs, and never changes a stream.
//
// It needs no consumers. It reads the head of a queue directly and removes what the engine has taken back. The engine
// remembers how far that is together with the jobs. docs/deferred.md explains the design.
package deferred
