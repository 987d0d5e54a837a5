package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/deliver/httptarget"
	"github.com/penstock/penstock/deliver/usage"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
)

const (
	// While its caller has a body to send, nobody notices that the caller leaves. So a body of a known size up to
	// earlyBody is read before the turn. A body up to keptBody is kept if the call may be sent again.
	earlyBody = 64 << 10
	keptBody  = 1 << 20
	// MaxBody is the maximum size of a body.
	MaxBody = 512 << 20
)

// run is a call on its way.
type run struct {
	p        *Proxy
	w        http.ResponseWriter
	r        *http.Request
	call     *Call
	began    time.Time
	deadline time.Time // of the turn
	waited   time.Duration
	outcome  Outcome
	sent     bool // it counts as active
	passed   bool // the answer was passed on

	uncompressed bool // the answer's body is read for what the call has used

	kept      []byte                // the body, if it was read before the turn
	costs     map[string]int64      // what the call or its body states
	receiving atomic.Bool           // from the caller
	unread    atomic.Pointer[error] // of reading the body while it is passed on

	cancel context.CancelCauseFunc
	unhook func() bool // has the call go on when the server stops
}

// hook has the call end when the server stops.
func (r *run) hook() {
	if r.call.Stopping == nil {
		r.unhook = func() bool { return true }
		return
	}
	r.unhook = context.AfterFunc(r.call.Stopping, func() { r.cancel(ErrStopping) })
}

// over tells the observer that the call has ended.
func (r *run) over() {
	if r.sent {
		r.p.runs(r.call.Queue, -1)
	}
	r.p.o.Observer.Ended(r.call.Queue, r.outcome, r.waited)
}

// serve passes the call on. Without an error the answer was written.
func (r *run) serve(ctx context.Context) error {
	k, sender, target, err := r.p.target(ctx, r.call.Queue)
	if err != nil {
		return err
	}
	spec, mark := k.spec, markOf(r.call.Queue, target.URL)
	if loops(r.r, mark) {
		return ErrLoop
	}
	f, err := r.forward(ctx, spec, target, mark)
	if err != nil {
		return err
	}
	if r.costs, err = k.estimates.Costs(r.call.Costs, r.r.Header.Get("Content-Type"), r.kept); err != nil {
		return err
	}
	r.began = time.Now()
	r.deadline = r.began.Add(r.call.Within)
	f.Deadline = r.deadline
	for {
		answer, m, err := r.attempt(ctx, spec, sender, target, f)
		if err != nil && usage.Dropped(err, r.call.Costs, r.costs) {
			r.costs = r.call.Costs
			continue
		}
		if err != nil {
			var sent *Error
			if errors.Is(err, pull.ErrStopped) ||
				errors.Is(context.Cause(ctx), ErrStopping) && !(errors.As(err, &sent) && sent.Outcome == Broken) {
				return ErrStopping
			}
			return err
		}
		if m.Meaning == httptarget.Throttled && r.call.Retry && r.again(f, m.Stop) {
			_ = answer.Body.Close()
			continue
		}
		if !r.passed {
			r.pass(answer, m)
		}
		return nil
	}
}

// pass passes an answer on to the caller. It panics if that breaks off.
func (r *run) pass(answer *http.Response, m httptarget.Meant) {
	defer func() { _ = answer.Body.Close() }()
	r.outcome = Broken
	if err := r.answer(answer); err != nil {
		if r.r.Context().Err() != nil {
			r.outcome = Gone
		}
		panic(http.ErrAbortHandler)
	}
	if r.outcome = Answered; m.Meaning == httptarget.Throttled {
		r.outcome = Throttled
	}
	r.passed = true
}

// again prepares another attempt, if the body can be sent again and time is left.
func (r *run) again(f *httptarget.Forward, stop time.Duration) bool {
	if time.Until(r.deadline) < stop || f.Body != nil && r.kept == nil {
		return false
	}
	if f.Body != nil {
		f.Body = bytes.NewReader(r.kept)
	}
	r.hook()
	r.p.runs(r.call.Queue, -1)
	r.sent = false
	return true
}

// attempt sends the call in its turn.
func (r *run) attempt(
	ctx context.Context, spec *queue.Spec, sender *httptarget.Sender, target *httptarget.Target, f *httptarget.Forward,
) (answer *http.Response, m httptarget.Meant, err error) {
	r.p.waits(r.call.Queue, 1)
	waits := true
	came := func() {
		if waits {
			waits = false
			r.p.waits(r.call.Queue, -1)
		}
	}
	defer came()
	request := r.call.TurnRequest
	request.Within, request.Costs = time.Until(r.deadline), r.costs
	err = r.p.o.Turns.Use(ctx, r.call.Queue, request, func(turn *pull.Turn) error {
		t := &turnOf{turn: turn, missed: r.hook, came: func(now *pull.Departure) (keep bool) {
			r.unhook()
			came()
			r.started()
			keep, r.uncompressed = target.States(now.Costs)
			return keep
		}}
		f.Turn = t
		answer, err = sender.Forward(ctx, f, target) //nolint:bodyclose // serve closes it
		t.answered()
		var unsent *httptarget.FailedForward
		if t.now != nil && ctx.Err() != nil && errors.As(err, &unsent) && !unsent.Sent {
			t.Miss() // the next caller may have it
		}
		if t.now == nil { // it never came, or the last one was missed
			turn.Cancel(context.WithoutCancel(ctx))
		}
		if err != nil {
			return r.failed(ctx, target, t.now, err)
		}
		m = target.Means(answer, time.Now())
		u := &using{queue: spec.Name, target: target, read: target.Used(answer, t.now.Costs), meant: m}
		if r.p.feedback(context.WithoutCancel(ctx), spec, t.now, answer, u) {
			defer r.p.settle(t.now, u)
			r.pass(answer, m)
			u.whole = true
		}
		return nil
	})
	return answer, m, err
}

func (r *run) started() {
	r.waited = time.Since(r.began)
	if !r.sent {
		r.sent = true
		r.p.runs(r.call.Queue, 1)
	}
}

// turnOf is the turn of a call as httptarget sees it.
type turnOf struct {
	turn   *pull.Turn
	now    *pull.Departure // nil while waiting
	came   func(now *pull.Departure) (keep bool)
	missed func()
	late   *time.Timer // ends the turn before its lease does
}

func (t *turnOf) Come(ctx context.Context) (time.Time, error) {
	now, err := t.turn.Come(ctx)
	if err != nil {
		return time.Time{}, err
	}
	t.now = now
	if t.late = nil; t.came(now) {
		now.Keep()
	} else {
		t.late = time.AfterFunc(time.Until(now.LeaseEnd)/2, func() { now.End(queue.Settlement{}) })
	}
	return now.Latest, nil
}

func (t *turnOf) Miss() {
	t.answered()
	t.now.Miss()
	t.now = nil
	t.missed()
}

// answered stops waiting for an answer that says how the turn ends.
func (t *turnOf) answered() {
	if t.late != nil {
		t.late.Stop()
	}
}

// forward returns the request to the receiver.
func (r *run) forward(
	ctx context.Context, spec *queue.Spec, target *httptarget.Target, mark string,
) (*httptarget.Forward, error) {
	f := &httptarget.Forward{
		Queue: r.call.Queue, Method: r.r.Method, Path: r.call.Path, Query: r.call.Query,
		Header: func() http.Header {
			h := requestHeaders(r.r, mark, target.PassAuthorization)
			if r.uncompressed {
				h["Accept-Encoding"] = []string{"identity"}
			}
			return h
		},
		Length: r.r.ContentLength, Spare: r.p.spare(spec), Below: r.call.Below,
	}
	if r.r.Body == nil || r.r.Body == http.NoBody {
		return f, nil
	}
	if n := EarlyBody(f.Length, r.call.Retry); n > 0 {
		if err := r.keep(ctx, n); err != nil {
			return nil, err
		}
		f.Body = bytes.NewReader(r.kept)
		return f, nil
	}
	f.Body = callersBody{r, http.MaxBytesReader(r.w, r.r.Body, MaxBody)}
	f.Trailer = func() http.Header { return trailers(r.r.Trailer) }
	f.Abort = func() { _ = http.NewResponseController(r.w).SetReadDeadline(time.Unix(1, 0)) }
	return f, nil
}

// EarlyBody returns how many bytes of a call's body of a known length are kept while it waits.
func EarlyBody(length int64, retry bool) int64 {
	if length <= earlyBody || retry && length <= keptBody {
		return max(0, length)
	}
	return 0
}

// keep reads the body before the turn.
func (r *run) keep(ctx context.Context, length int64) error {
	rc := http.NewResponseController(r.w)
	_ = rc.SetReadDeadline(time.Now().Add(cmp.Or(r.call.BodyWithin, r.call.Within)))
	unhook := context.AfterFunc(ctx, func() { _ = rc.SetReadDeadline(time.Unix(1, 0)) })
	r.kept = make([]byte, length)
	_, err := io.ReadFull(r.r.Body, r.kept)
	switch {
	case !unhook() && errors.Is(context.Cause(ctx), ErrStopping):
		return ErrStopping
	case err != nil:
		return &BodyError{err}
	}
	_ = rc.SetReadDeadline(time.Time{}) // it would look as if the caller left
	return nil
}

// callersBody is the body of a call, which notes whether it waits for the caller.
type callersBody struct {
	r    *run
	body io.Reader
}

func (b callersBody) Read(p []byte) (int, error) {
	b.r.receiving.Store(true)
	n, err := b.body.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		b.r.receiving.Store(false)
	} else {
		b.r.unread.Store(&err)
	}
	return n, err
}
