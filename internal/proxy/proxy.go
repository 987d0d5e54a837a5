// Package proxy passes the calls of programs that do not know Penstock on to the http target of a pull queue, each in
// its turn. The turns are those of package pull, and the connections those of package deliver/httptarget. So calls have
// the pace, lanes, secrets, egress guard, stops and circuit of a queue's deliveries.
//
// A call is never repeated once any of it was sent, except on its caller's wish after an answer that refused it.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/httptarget"
	"github.com/penstock/penstock/deliver/usage"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/speccache"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// Engine is the part of an engine that a Proxy uses.
type Engine interface {
	queue.SpecReader
	Throttle(ctx context.Context, queue string, after time.Duration, reason string) (until time.Time, err error)
}

// Options are the settings of a Proxy.
type Options struct {
	Turns    *pull.QueueTurns
	Router   *deliver.Router
	Observer Observer     // by default none
	Logger   *slog.Logger // by default discards
}

// Observer is told of calls. Its methods must not block.
type Observer interface {
	// Waits is called with 1 when a call begins to wait for its turn, and with -1 when it no longer does.
	Waits(change int)
	// Runs is called with 1 when a call was sent, and with -1 when its answer has ended.
	Runs(change int)
	// Ignored is called when an actual cost that an answer states is not charged, with what is wrong with it.
	Ignored(queue, fault string)
	// Ended is called once for each call, with how long it waited for its turn.
	Ended(queue string, o Outcome, waited time.Duration)
}

// Outcome is how a call ended.
type Outcome string

// The outcomes of calls.
const (
	Answered    Outcome = "answered"    // the receiver's answer was passed on, whatever it says
	Throttled   Outcome = "throttled"   // the receiver answered that there are too many requests
	Late        Outcome = "late"        // its turn would not have come in time
	Refused     Outcome = "refused"     // for another reason, before it had a turn
	Gone        Outcome = "gone"        // the caller left
	Unreachable Outcome = "unreachable" // nothing was sent
	Broken      Outcome = "broken"      // it was sent, and the answer did not come, or not to its end
)

type noObserver struct{}

func (noObserver) Waits(int)                            {}
func (noObserver) Runs(int)                             {}
func (noObserver) Ignored(string, string)               {}
func (noObserver) Ended(string, Outcome, time.Duration) {}

const (
	specAge      = time.Second
	specPatience = 5 * time.Second
	maxSpecs     = 10_000

	// spareFor is how much of a queue's rate unused connections are kept ready for: about the time of a TLS handshake.
	spareFor = 250 * time.Millisecond
	maxSpare = 64
)

// Proxy passes calls on. It is safe for concurrent use.
type Proxy struct {
	o       Options
	engine  Engine
	specs   *speccache.Cache[known]
	waiting atomic.Int64 // calls to all queues that wait for their turns
	counts  counts
	// complaints about answers whose budget cannot be used
	complaints *rate.Sometimes
}

// known is a queue's spec.
type known struct {
	spec      *queue.Spec
	revision  int64
	estimates *usage.Estimates
}

// New returns a Proxy. Close it after the last call has ended.
func New(engine Engine, o Options) *Proxy {
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	seldom := &rate.Sometimes{Interval: time.Minute}
	return &Proxy{o: o, engine: engine, complaints: seldom, specs: speccache.New(speccache.Options[known]{
		Patience: specPatience, MaxAge: specAge, Max: maxSpecs,
		Read: func(ctx context.Context, name string) (known, int64, error) {
			info, err := engine.Get(ctx, name)
			if err != nil {
				return known{}, 0, err
			}
			var above *queue.Spec
			if info.Parent != nil {
				above = &info.Parent.Spec
			}
			return known{&info.Spec, info.Revision, usage.EstimatesOf(&info.Spec, above)}, info.Revision, nil
		},
	})}
}

// Close closes idle connections.
func (p *Proxy) Close() error {
	p.specs.Close()
	return p.o.Router.Close()
}

// Call is a caller's request.
type Call struct {
	pull.TurnRequest

	Queue string
	Path  string // escaped, and empty or beginning with a slash
	Query string // escaped
	// Retry waits for another turn when the receiver answers that there are too many requests, if time is left.
	Retry bool
	// BodyWithin is how long the caller may take to send a body that is read before the turn; 0 means Within.
	BodyWithin time.Duration
	// Below is the path of the queue's target as callers see it.
	Below string
	// Stopping ends when calls that wait must end. Calls that were sent go on. Nil: never.
	Stopping context.Context
}

// ErrStopping is the error of a call that waited when Call.Stopping ended. It was not sent.
var ErrStopping = errors.New("this server is stopping")

// ErrLoop is the error of a call that has passed through the same queue, with the same target, before. It was not sent.
var ErrLoop = errors.New("the queue's target leads back to this proxy")

// Error is the error of a call that got no answer from its receiver.
type Error struct {
	Outcome Outcome // Unreachable or Broken
	Timeout bool    // the receiver took too long
	Slow    bool    // the caller did not send its body in time
	Body    error   // of reading the body, if Slow and the call was broken off by that
	Err     error
}

// BodyError is the error of a call whose body could not be read from its caller. The call was not sent.
type BodyError struct{ Err error }

func (e *BodyError) Error() string { return "the request's body could not be read: " + e.Err.Error() }
func (e *BodyError) Unwrap() error { return e.Err }

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Serve passes a request on and writes the answer. If it returns an error, nothing was written: an *Error, a
// *BodyError, ErrLoop, ErrStopping, or an error of pull.Turns. It panics with http.ErrAbortHandler if the answer breaks
// off.
func (p *Proxy) Serve(ctx context.Context, w http.ResponseWriter, r *http.Request, c *Call) error {
	now := time.Now()
	run := &run{p: p, w: w, r: r, call: c, began: now, deadline: now.Add(c.Within), outcome: Refused}
	defer run.over()
	ctx, run.cancel = context.WithCancelCause(ctx)
	defer run.cancel(nil)
	run.hook()
	defer func() { run.unhook() }()
	err := run.serve(ctx)
	var later *pull.Later
	var failed *Error
	switch {
	case err == nil, errors.Is(err, ErrStopping):
	case r.Context().Err() != nil && !Unread(err):
		run.outcome = Gone
	case errors.As(err, &later):
		run.outcome = Late
	case errors.As(err, &failed):
		run.outcome = failed.Outcome
	}
	return err
}

// Unread reports whether an error of Serve is that the caller did not send its body in time. The server then takes the
// caller for gone, but it may still read an answer.
func Unread(err error) bool {
	var body *BodyError
	var failed *Error
	switch {
	case errors.As(err, &body):
		err = body.Err
	case errors.As(err, &failed) && failed.Slow:
		err = failed.Body
	default:
		return false
	}
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// target returns what is needed to reach a queue's receiver.
func (p *Proxy) target(
	ctx context.Context, name string,
) (k known, _ *httptarget.Sender, _ *httptarget.Target, err error) {
	k, err = p.specs.Get(ctx, name)
	if err != nil {
		return k, nil, nil, err
	}
	switch {
	case !k.spec.Pull:
		err = notProxied(name, "is not a pull queue: drainers deliver its jobs; calls need pull: true")
	case len(k.spec.Deliver) == 0:
		err = notProxied(name, "has no target; give it deliver.http.url, the base URL of the API that is called")
	}
	if err != nil {
		return k, nil, nil, err
	}
	sender, target, err := p.o.Router.HTTP(name, k.spec, k.revision)
	switch {
	case errors.Is(err, auth.ErrOwnersUnread):
		return k, nil, nil, err
	case err != nil:
		return k, nil, nil, &Error{Outcome: Unreachable, Err: err}
	}
	return k, sender, target, nil
}

func notProxied(name, reason string) error {
	return &invalid.Error{Field: "queue", Value: name, Reason: reason}
}

// spare returns how many unused connections to keep ready for a call to a queue, and the calls that wait already.
func (p *Proxy) spare(spec *queue.Spec) int {
	n := int64(maxSpare)
	if rate := spec.Fastest(); !rate.Unlimited() {
		n = min(n, 1+int64(spareFor/max(1, rate.Interval())))
	}
	return int(min(n, 1+p.waiting.Load()))
}

// failed settles the turn of a call without an answer, and returns the call's error.
func (r *run) failed(ctx context.Context, target *httptarget.Target, turn *pull.Departure, err error) error {
	var f *httptarget.FailedForward
	if !errors.As(err, &f) {
		return err
	}
	shown := r.p.o.Router.Shown(r.call.Queue, target, f)
	e := &Error{Outcome: Unreachable, Timeout: f.Timeout(), Slow: r.receiving.Load(), Err: shown}
	if broken := r.unread.Load(); broken != nil && e.Slow {
		e.Body = *broken
	}
	if f.Sent {
		e.Outcome = Broken
	}
	switch {
	case turn == nil:
	case e.Slow, ctx.Err() != nil: // not the receiver's fault
		turn.End(queue.Settlement{})
	default:
		turn.Fail(fmt.Sprintf("a call failed: %v", shown), !f.Sent)
	}
	return e
}
