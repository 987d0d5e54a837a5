package deliver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"

	"github.com/penstock/penstock/drain"
)

// maxTargets bounds the memory of parsed targets; beyond it they are parsed again.
const maxTargets = 10_000

// Options of a Router. The zero Options are useful.
type Options struct {
	// Concurrency is that of the drainer: so many connections to one host are kept
	// at most. The default is drain.DefaultConcurrency.
	Concurrency int
	// Logger gets what an operator should know; the default discards.
	Logger *slog.Logger
	// TLS is the client's configuration; the default trusts the system's roots.
	TLS *tls.Config
}

// Router is a drain.Handler that delivers each job to the target of its queue. A queue
// without a usable target has its jobs fail with the reason, to be tried again as
// its retry says: by then the target may have been set.
type Router struct {
	log  *slog.Logger
	http *poster

	mu      sync.Mutex
	targets map[string]*parsed // by queue
}

var _ drain.Handler = (*Router)(nil)

// parsed is what became of a queue's deliver setting.
type parsed struct {
	raw      json.RawMessage
	revision int64
	target   Target
	err      error
}

// New returns a Router. Close it when nothing is being delivered any more.
func New(o Options) *Router {
	if o.Concurrency <= 0 {
		o.Concurrency = drain.DefaultConcurrency
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Router{log: o.Logger, http: newPoster(o), targets: make(map[string]*parsed)}
}

// Handle delivers a job; see drain.Handler.
func (r *Router) Handle(ctx context.Context, job *drain.Job, gate drain.Gate) error {
	p := r.target(job)
	if p.err != nil {
		return fmt.Errorf("the queue cannot be delivered: %w", p.err)
	}
	return r.http.deliver(ctx, job, gate, p.target.HTTP)
}

// target parses a setting once, for as long as it stays the same.
func (r *Router) target(job *drain.Job) *parsed {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.targets[job.Queue]
	if p != nil && bytes.Equal(p.raw, job.Spec.Deliver) && (p.err == nil || p.revision >= job.Revision) {
		return p
	}
	p = &parsed{raw: job.Spec.Deliver, revision: job.Revision}
	p.target, p.err = Parse(job.Spec.Deliver)
	if p.err != nil {
		r.log.Error("queue cannot be delivered; its jobs fail", "queue", job.Queue, "revision", job.Revision, "error", p.err)
	}
	if len(r.targets) >= maxTargets {
		clear(r.targets)
	}
	r.targets[job.Queue] = p
	return p
}

// Close closes the connections that are kept. It waits for those being dialled.
func (r *Router) Close() error {
	r.http.close()
	return nil
}
