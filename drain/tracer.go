package drain

import (
	"context"
	"time"

	"github.com/penstock/penstock/queue"
)

// Tracer starts a Span for each delivery to be traced.
type Tracer interface {
	// Begin is called before a handler gets a job, which departs at the given instant. It returns the handler's context
	// and the Span of the delivery, or nil if it is not traced. It may give the job other headers, in a new map.
	Begin(ctx context.Context, job *Job, departs time.Time) (context.Context, Span)
}

// Span traces one delivery. Its methods are called from several goroutines.
type Span interface {
	// IDs returns the IDs of the trace and of the span within it, for logs and events about the same delivery.
	IDs() (trace, span string)
	// Waited: the handler waited in the gate since the given instant, and the gate returned err.
	Waited(since time.Time, err error)
	// Settling: the delivery is settled with that verdict.
	Settling(v queue.Verdict)
	// Returned: the handler returned. cause is why its context had ended, nil if it had not. A delivery that is not
	// Settling by then is never settled, or is being given back at this moment.
	Returned(cause error)
	// Settled: the engine put the job in state, or found the lease lost (StateNone). With an err, settling was given up.
	Settled(state queue.State, err error)
}
