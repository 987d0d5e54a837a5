package drain

import (
	"context"
	"time"

	"github.com/penstock/penstock/queue"
)

// Tracer follows attempts, as an Observer is told of them: traces are made of it.
type Tracer interface {
	// Begin is told that a handler is about to get a job, which departs at that instant. It returns the handler's context,
	// and what follows the attempt: nil for one that is not followed. It may give the job other headers, in a new map.
	Begin(ctx context.Context, job *Job, departs time.Time) (context.Context, Span)
}

// Span follows one attempt. Its methods are called from several goroutines.
type Span interface {
	// IDs are those of the trace and of the span within it, for whoever else tells of the attempt.
	IDs() (trace, span string)
	// Waited: the handler was in the gate since that instant, and the gate answered err.
	Waited(since time.Time, err error)
	// Settling: the attempt is settled with that verdict.
	Settling(v queue.Verdict)
	// Returned: the handler returned, with its context ended by cause, if that is not nil. Nothing is settled of an
	// attempt that has not been Settling by then, or is given back at this moment.
	Returned(cause error)
	// Settled: the engine put the job in state, or found the lease lost (StateNone); with an err it was given up.
	Settled(state queue.State, err error)
}
