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
	"github.com/penstock/penstock/deliver/httptarget"
	"github.com/penstock/penstock/deliver/natstarget"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
)

var errNoTarget = errors.New("the queue has no target: set its deliver, or pull")

// unusable is logged once per queue, for problems that an operator must fix.
const unusable = "queue cannot be delivered; its jobs wait"

// maxTargets limits the number of parsed targets that are kept.
const maxTargets = 10_000

// Options are the settings of a Router. The zero Options are valid.
type Options struct {
	// Concurrency is the maximum number of concurrent deliveries, drain.MaxHandlers. At most so many connections to one
	// host are kept. The default is drain.DefaultConcurrency.
	Concurrency int
	// Logger is for operators; the default discards.
	Logger *slog.Logger
	// Secrets resolves ${secret:NAME}.
	Secrets secrets.Source
	// Egress decides where connections may go; nil permits only public addresses.
	Egress *egress.Guard
	// Asynq returns the Sender of asynq targets; see asynqtarget.Options.Sender. If it is nil, asynq targets cannot be
	// delivered. The caller sets it, so that programs without asynq do not link it.
	Asynq func(concurrency int) Sender
	// NATS is the connection of nats targets.
	NATS natstarget.Options
	// TLS is the configuration of TLS clients; the default trusts the system's roots.
	TLS *tls.Config
	// Permitted returns what the app of a queue may deliver to, nil if the queue has no app. It is called for each
	// delivery. Errors shown to an app do not reveal the operator's network. Nil means that there are no apps.
	Permitted func(queueName string) (Permission, error)
	// Kinds are the kinds of targets; nil means the built-in kinds.
	Kinds *Kinds
}

// Permission decides which targets an app may deliver to. Equal Permissions decide alike.
type Permission interface {
	// PermitTarget checks a setting of a kind of target. Its error names the field.
	PermitTarget(kind string, s setting.Setting) error
}

// Sender delivers to the targets of one kind. It is safe for concurrent use.
type Sender interface {
	// Deliver makes one attempt with the setting of the job's queue. Its error is as in drain.Handler.
	Deliver(ctx context.Context, job *drain.Job, gate drain.Gate, s setting.Setting) error
	// Close closes idle connections, and waits for connections being made.
	Close() error
}

// Router is a drain.Handler that delivers each job to the target of its queue. A queue with an unusable target counts
// as down, with the reason; a queue without a target stops. Their jobs wait and spend no attempt.
type Router struct {
	o Options

	mu      sync.RWMutex
	targets map[string]*parsed // by queue
	senders map[string]Sender  // by kind; made for its first job
}

var _ drain.Handler = (*Router)(nil)

// parsed is a queue's parsed deliver setting.
type parsed struct {
	raw      json.RawMessage
	revision int64
	target   Target
	sender   Sender
	err      error
	logged   atomic.Bool // a problem was logged since the last delivered job
	ruling   atomic.Pointer[ruling]
}

// ruling is the decision of a Permission about a target.
type ruling struct {
	by  Permission
	err error // a *notPermitted
}

// notPermitted is why the app of a queue may not deliver to its target.
type notPermitted struct{ error }

func (n *notPermitted) Unwrap() error { return n.error }

// New returns a Router. Close it after the last delivery has ended.
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
	r.report(job.Queue, p, err)
	if by != nil && err != nil {
		shown := conceal(err, p.target.Setting)
		if shown != err && p.logged.CompareAndSwap(false, true) { //nolint:errorlint // identity is meant
			r.o.Logger.Warn("delivery failed; the app does not see the whole error", "queue", job.Queue, "error", err)
		}
		err = shown
	}
	if job.Spec.OnUnknown == "" {
		return byDefault(err, p.target.OnUnknown())
	}
	return err
}

// HTTP returns the http target of a queue, and its sender, for calls that are passed on instead of jobs.
func (r *Router) HTTP(name string, spec *queue.Spec, revision int64) (*httptarget.Sender, *httptarget.Target, error) {
	job := drain.Job{Reservation: queue.Reservation{Job: queue.Job{Queue: name}, Revision: revision}, Spec: spec}
	p := r.target(&job)
	if p.err != nil {
		return nil, nil, p.err
	}
	sender, ok := p.sender.(*httptarget.Sender)
	if !ok {
		return nil, nil, fmt.Errorf("the target of %s is of the kind %s, and calls need http", name, p.target.Kind)
	}
	if _, err := r.permitted(name, p); err != nil {
		return nil, nil, err
	}
	return sender, p.target.Setting.(*httptarget.Target), nil
}

// permitted checks that the app of a queue may deliver to its target now; permissions may have changed since it was
// set. by is nil if the queue is the operator's.
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

// byDefault applies the target's default on_unknown to the error of a job that may have been sent.
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

// target returns the parsed setting of a job's queue. It parses a setting only when it changes.
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

// of reports whether p is the current setting of a job's queue.
func (p *parsed) of(job *drain.Job) bool {
	return p != nil && bytes.Equal(p.raw, job.Spec.Deliver) && (p.err == nil || p.revision >= job.Revision)
}

// sender returns the sender of a kind. mu is held.
func (r *Router) sender(kind string) Sender {
	s := r.senders[kind]
	if s == nil {
		k, _ := r.o.Kinds.of(kind) // Parse has found it
		s = k.sender(r.o)
		r.senders[kind] = s
	}
	return s
}

// report logs problems that an operator must fix, once until a job is delivered.
func (r *Router) report(name string, p *parsed, err error) {
	if err == nil || drain.What(err).Verdict == queue.Deliver {
		if p.logged.Load() { // with many goroutines a load is cheaper than a store
			p.logged.Store(false)
		}
		return
	}
	var refused *egress.Refused
	var secret *secrets.Error
	var forbidden *notPermitted
	switch {
	case errors.As(err, &refused):
		err = refused // without the text of the dialer
		fallthrough
	case errors.As(err, &secret), errors.As(err, &forbidden):
		if p.logged.CompareAndSwap(false, true) {
			r.o.Logger.Error(unusable, "queue", name, "error", err)
		}
	}
}

// Close closes idle connections, and waits for connections being made.
func (r *Router) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	for _, s := range r.senders {
		err = errors.Join(err, s.Close())
	}
	return err
}
