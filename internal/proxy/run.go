package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/deliver/httptarget"
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
	sent     bool // Observer.Runs knows of it

	kept      []byte      // the body, if it was read before the turn
	receiving atomic.Bool // from the caller
}

// over tells the observer that the call has ended.
func (r *run) over() {
	if r.sent {
		r.p.o.Observer.Runs(-1)
	}
	r.p.o.Observer.Ended(r.call.Queue, r.outcome, r.waited)
}

// serve passes the call on. Without an error the answer was written.
func (r *run) serve(ctx context.Context) error {
	spec, sender, target, err := r.p.target(ctx, r.call.Queue)
	if err != nil {
		return err
	}
	f, err := r.forward(spec, target)
	if err != nil {
		return err
	}
	for {
		answer, m, err := r.attempt(ctx, sender, target, f)
		if err != nil {
			return err
		}
		if m.Meaning == httptarget.Throttled && r.call.Retry && r.again(f, m.Stop) {
			_ = answer.Body.Close()
			continue
		}
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
		return nil
	}
}

// again prepares another attempt, if the body can be sent again and time is left.
func (r *run) again(f *httptarget.Forward, stop time.Duration) bool {
	if time.Until(r.deadline) < stop || f.Body != nil && r.kept == nil {
		return false
	}
	r.call.Within = time.Until(r.deadline)
	if f.Body != nil {
		f.Body = bytes.NewReader(r.kept)
	}
	return true
}

// attempt sends the call in its turn.
func (r *run) attempt(
	ctx context.Context, sender *httptarget.Sender, target *httptarget.Target, f *httptarget.Forward,
) (answer *http.Response, m httptarget.Meant, err error) {
	r.p.waits(1)
	waits := true
	came := func() {
		if waits {
			waits = false
			r.p.waits(-1)
		}
	}
	defer came()
	err = r.p.o.Turns.Use(ctx, r.call.Queue, r.call.TurnRequest, func(turn *pull.Turn) error {
		t := &turnOf{turn: turn, came: func() {
			came()
			r.started()
		}}
		f.Turn = t
		answer, err = sender.Forward(ctx, f, target)
		t.answered()
		if t.now == nil { // it never came, or the last one was missed
			turn.Cancel(context.WithoutCancel(ctx))
		}
		if err != nil {
			return failed(t.now, err, r.receiving.Load())
		}
		m = target.Means(answer, time.Now())
		r.p.feedback(context.WithoutCancel(ctx), r.call.Queue, t.now, answer, m)
		return nil
	})
	return answer, m, err
}

func (r *run) started() {
	r.waited = time.Since(r.began)
	if !r.sent {
		r.sent = true
		r.p.o.Observer.Runs(1)
	}
}

func (p *Proxy) waits(change int) {
	p.waiting.Add(int64(change))
	p.o.Observer.Waits(change)
}

// turnOf is the turn of a call as httptarget sees it.
type turnOf struct {
	turn *pull.Turn
	now  *pull.Departure // nil while waiting
	came func()
	late *time.Timer // ends the turn before its lease does
}

func (t *turnOf) Come(ctx context.Context) (time.Time, error) {
	now, err := t.turn.Come(ctx)
	if err != nil {
		return time.Time{}, err
	}
	t.now = now
	t.late = time.AfterFunc(time.Until(now.LeaseEnd)/2, func() { now.End(queue.Settlement{}) })
	t.came()
	return now.Latest, nil
}

func (t *turnOf) Miss() {
	t.answered()
	t.now.Miss()
	t.now = nil
}

// answered stops waiting for an answer that says how the turn ends.
func (t *turnOf) answered() {
	if t.late != nil {
		t.late.Stop()
	}
}

// forward returns the request to the receiver.
func (r *run) forward(spec *queue.Spec, target *httptarget.Target) (*httptarget.Forward, error) {
	f := &httptarget.Forward{
		Queue: r.call.Queue, Method: r.r.Method, Path: r.call.Path, Query: r.call.Query,
		Header: requestHeaders(r.r, r.call.Queue, target.PassAuthorization), Length: r.r.ContentLength,
		Deadline: r.deadline, Spare: r.p.spare(spec),
	}
	if r.r.Body == nil || r.r.Body == http.NoBody {
		return f, nil
	}
	most := int64(earlyBody)
	if r.call.Retry {
		most = keptBody
	}
	if f.Length >= 0 && f.Length <= most {
		r.kept = make([]byte, f.Length)
		if _, err := io.ReadFull(r.r.Body, r.kept); err != nil {
			return nil, &BodyError{err}
		}
		f.Body = bytes.NewReader(r.kept)
		return f, nil
	}
	f.Body = callersBody{r, http.MaxBytesReader(r.w, r.r.Body, MaxBody)}
	f.Trailer = func() http.Header { return trailers(r.r.Trailer) }
	f.Abort = func() { _ = http.NewResponseController(r.w).SetReadDeadline(time.Unix(1, 0)) }
	return f, nil
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
	}
	return n, err
}
