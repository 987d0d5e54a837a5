package deliver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/natstarget"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
)

var errNoTarget = errors.New("the queue has no target: set its deliver, or pull")

// unusable is logged, once a queue, of what somebody has to mend here.
const unusable = "queue cannot be delivered; its jobs wait"

// maxTargets bounds the memory of parsed targets; beyond it they are parsed again.
const maxTargets = 10_000

// Options of a Router. The zero Options are useful.
type Options struct {
	// Concurrency is how many jobs are delivered at once, drain.MaxHandlers: so many connections to one host are kept
	// at most. The default is drain.DefaultConcurrency.
	Concurrency int
	// Logger gets what an operator should know; the default discards.
	Logger *slog.Logger
	// Secrets is where ${secret:NAME} is resolved.
	Secrets secrets.Source
	// Egress says where connections may go; nil is to public addresses alone.
	Egress *egress.Guard
	// Asynq makes the Sender of asynq targets, for so many jobs at once: an asynqtarget.Options has it. With nil they
	// cannot be delivered. It is not made here so that who delivers to no asynq links none.
	Asynq func(concurrency int) Sender
	// NATS is where nats targets publish.
	NATS natstarget.Options
	// TLS is the client's configuration; the default trusts the system's roots.
	TLS *tls.Config
	// Permitted returns what the app that has a queue may deliver to, nil if none has it. It is asked at each attempt,
	// and an app is not shown the operator's network in errors. Nil is that there are no apps.
	Permitted func(queueName string) (Permission, error)
	// Kinds are the kinds of targets that there are; nil is those that are built in.
	Kinds *Kinds
}

// Permission says what may be delivered to. Two that are equal say the same.
type Permission interface {
	// PermitTarget checks a setting of a kind of target. Its error names the field.
	PermitTarget(kind string, s setting.Setting) error
}

// Sender delivers to the targets of one kind. It is safe for use by many goroutines.
type Sender interface {
	// Deliver makes one attempt; see drain.Handler for what its error says. s is the setting
	// of the job's queue.
	Deliver(ctx context.Context, job *drain.Job, gate drain.Gate, s setting.Setting) error
	// Close closes the connections that are kept, and waits for those being made.
	Close() error
}

// Router is a drain.Handler that delivers each job to the target of its queue. A queue
// whose target cannot be used is taken to be down, with the reason; one without a target stops. Their jobs wait, and
// spend no attempt.
type Router struct {
	o Options

	mu      sync.RWMutex
	targets map[string]*parsed // by queue
	senders map[string]Sender  // by kind, from the first of its jobs on
}

var _ drain.Handler = (*Router)(nil)

// parsed is what became of a queue's deliver setting.
type parsed struct {
	raw      json.RawMessage
	revision int64
	target   Target
	sender   Sender
	err      error
	told     atomic.Bool // that somebody has to mend it
	ruling   atomic.Pointer[ruling]
}

// ruling is what a Permission said of a target.
type ruling struct {
	by  Permission
	err error // a *notPermitted
}

// notPermitted is why the owner of a queue may not deliver to its target.
type notPermitted struct{ error }

func (n *notPermitted) Unwrap() error { return n.error }

// New returns a Router. Close it when nothing is being delivered any more.
func New(o Options) *Router {
	if o.Concurrency <= 0 {
		o.Concurrency = drain.DefaultConcurrency
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Router{o: o, targets: make(map[string]*parsed), senders: make(map[string]Sender)}
}

// Handle delivers a job; see drain.Handler.
func (r *Router) Handle(ctx context.Context, job *drain.Job, gate drain.Gate) error {
	p := r.target(job)
	if len(job.Spec.Deliver) == 0 {
		return drain.NoTarget(errNoTarget)
	}
	if p.err != nil {
		return drain.Down(fmt.Errorf("the queue cannot be delivered: %w", p.err))
	}
	by, err := r.permitted(job.Queue, p)
	if err == nil {
		err = p.sender.Deliver(ctx, job, gate, p.target.Setting)
	}
	r.tell(job.Queue, p, err)
	if by != nil && err != nil {
		shown := conceal(err, p.target.Setting)
		if shown != err && p.told.CompareAndSwap(false, true) { //nolint:errorlint // it is the same or not
			r.o.Logger.Warn("delivery failed; the app is not shown all of it", "queue", job.Queue, "error", err)
		}
		err = shown
	}
	if job.Spec.OnUnknown == "" {
		return byDefault(err, p.target.OnUnknown())
	}
	return err
}

// permitted checks that the owner of a queue may deliver to its target now, whatever was permitted when it was set. by
// is nil if the queue is the operator's.
func (r *Router) permitted(name string, p *parsed) (by Permission, err error) {
	if r.o.Permitted == nil {
		return nil, nil
	}
	if by, err = r.o.Permitted(name); err != nil {
		return nil, drain.Down(err)
	}
	if by == nil {
		return nil, nil
	}
	known := p.ruling.Load()
	if known == nil || known.by != by {
		known = &ruling{by: by}
		if err := by.PermitTarget(p.target.Kind, p.target.Setting); err != nil {
			known.err = drain.Down(&notPermitted{err})
		}
		p.ruling.Store(known)
	}
	return by, known.err
}

// byDefault decides about a job that may have been sent as its target does for queues that do not
// say.
func byDefault(err error, onUnknown string) error {
	said := drain.What(err)
	if said.Verdict != queue.Hold {
		return err
	}
	switch onUnknown {
	case queue.UnknownRetry:
		err = drain.RetryAt(err, time.Time{})
	case queue.UnknownDead:
		return drain.Permanent(err)
	}
	if said.Trouble {
		return drain.Trouble(err)
	}
	return err
}

// target parses a setting once, for as long as it stays the same.
func (r *Router) target(job *drain.Job) *parsed {
	r.mu.RLock()
	p := r.targets[job.Queue]
	r.mu.RUnlock()
	if p.of(job) {
		return p
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p = r.targets[job.Queue]; p.of(job) { // parsed meanwhile
		return p
	}
	p = &parsed{raw: job.Spec.Deliver, revision: job.Revision}
	p.target, p.err = r.o.Kinds.Parse(job.Spec.Deliver)
	if p.err != nil && len(p.raw) > 0 {
		r.o.Logger.Error(unusable, "queue", job.Queue, "revision", job.Revision, "error", p.err)
	} else if p.err == nil {
		p.sender = r.sender(p.target.Kind)
	}
	if len(r.targets) >= maxTargets {
		clear(r.targets)
	}
	r.targets[job.Queue] = p
	return p
}

// of reports whether it is what a job's queue says.
func (p *parsed) of(job *drain.Job) bool {
	return p != nil && bytes.Equal(p.raw, job.Spec.Deliver) && (p.err == nil || p.revision >= job.Revision)
}

// sender returns that of a kind. r.mu is held.
func (r *Router) sender(kind string) Sender {
	s := r.senders[kind]
	if s == nil {
		k, _ := r.o.Kinds.of(kind) // Parse has found it
		s = k.sender(r.o)
		r.senders[kind] = s
	}
	return s
}

// tell logs what an operator has to mend, once until a job was delivered.
func (r *Router) tell(name string, p *parsed, err error) {
	if err == nil || drain.What(err).Verdict == queue.Deliver {
		if p.told.Load() { // a load is cheaper than a store, with many who deliver
			p.told.Store(false)
		}
		return
	}
	var refused *egress.Refused
	var secret *secrets.Error
	var forbidden *notPermitted
	switch {
	case errors.As(err, &refused):
		err = refused // without the words of those who dialled
		fallthrough
	case errors.As(err, &secret), errors.As(err, &forbidden):
		if p.told.CompareAndSwap(false, true) {
			r.o.Logger.Error(unusable, "queue", name, "error", err)
		}
	}
}

// Close closes the connections that are kept. It waits for those being dialled.
func (r *Router) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	for _, s := range r.senders {
		err = errors.Join(err, s.Close())
	}
	return err
}
