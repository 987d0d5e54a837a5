package api

import (
	"context"
	"sync"

	"github.com/penstock/penstock/queue"
)

// OverflowState tells how the overflow is doing.
type OverflowState interface {
	// Connected returns nil, or why nothing can be put on the overflow now. It does not
	// wait for anybody.
	Connected() error
	// Stuck returns nil, or why jobs that are there do not come back, as far as this
	// process sees to that. It does not wait for anybody.
	Stuck() error
}

// refusesJob says why a job that can be read is not even offered: it asks for what
// this process does not have, and must not learn that only when the queue is full.
func (o *Options) refusesJob(job *queue.Job) *Problem {
	if o.Overflow || job.Overflow != queue.Defer {
		return nil
	}
	return noOverflow("overflow", "send the job without overflow, and again when there is room")
}

// refusesSpec is the same for a queue's spec.
func (o *Options) refusesSpec(spec *queue.Spec) *Problem {
	if o.Overflow || spec.Overflow != queue.Defer {
		return nil
	}
	return noOverflow("overflow", "set overflow to reject")
}

func noOverflow(field, instead string) *Problem {
	return &Problem{
		Reason: ReasonNoOverflow, Field: field,
		Detail: "is defer, but this ingress has no NATS to put jobs on: start it with --nats nats://HOST:PORT, or " + instead,
	}
}

// maxNoted bounds how many queues are remembered as looked at.
const maxNoted = 10_000

// noted are the queues that were looked at once.
type noted struct {
	mu    sync.Mutex
	names map[string]bool
}

// first reports whether a queue was not looked at yet, and is to be now.
func (n *noted) first(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.names[name] || len(n.names) >= maxNoted {
		return false
	}
	if n.names == nil {
		n.names = map[string]bool{}
	}
	n.names[name] = true
	return true
}

func (n *noted) again(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.names, name)
}

// noteFull is told of a queue that has refused a job. Where there is no overflow, one
// whose stored spec says defer is served as if it said reject, and the log has that
// once for each.
func (h *handler) noteFull(ctx context.Context, name string) {
	if h.o.Overflow || !h.noted.first(name) {
		return
	}
	info, err := h.engine.Get(ctx, name)
	if err != nil {
		h.noted.again(name)
		return
	}
	if info.Spec.Overflow == queue.Defer {
		h.o.Logger.Warn(
			"a queue's overflow is defer, but this ingress has no NATS: what finds no room is refused; start it with --nats",
			"queue", name,
		)
	}
}
