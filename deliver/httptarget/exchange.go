package httptarget

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/penstock/penstock/drain"
)

var (
	errUnready = fmt.Errorf("%w: there was no connection in time", drain.ErrLate)
	errOver    = fmt.Errorf("%w: this process was too busy to write the request in time", drain.ErrLate)
	errTimeout = errors.New("timeout")
	errTwice   = errors.New("the connection ended before an answer came; the receiver may have the request")
)

// exchange is the request of one delivery, and its answer.
type exchange struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	gate    drain.Gate
	timeout time.Duration
	trace   httptrace.ClientTrace

	mu      sync.Mutex
	timer   *time.Timer // for the connection, then for the answer, then for its body
	due     time.Time   // when the timer fires
	conn    *conn       // the connection of the request
	wrote   int64       // conn.wrote before the request
	refused error       // why the request got no connection
	over    bool        // too late for the first connection
}

func newExchange(ctx context.Context, gate drain.Gate, timeout time.Duration) *exchange {
	e := &exchange{gate: gate, timeout: timeout}
	e.trace.GotConn = e.gotConn
	e.ctx, e.cancel = context.WithCancelCause(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.within(time.Until(gate.Closes()))
	return e
}

// traced returns a request that waits in gotConn.
func (e *exchange) traced(req *http.Request) *http.Request {
	return req.WithContext(httptrace.WithClientTrace(e.ctx, &e.trace))
}

func (e *exchange) end() {
	e.mu.Lock()
	e.timer.Stop()
	e.mu.Unlock()
	e.cancel(nil)
}

// within sets the time limit of the next step. mu is held.
func (e *exchange) within(d time.Duration) {
	e.due = time.Now().Add(d)
	if e.timer == nil {
		e.timer = time.AfterFunc(d, e.ranOut)
	} else {
		e.timer.Reset(d)
	}
}

// ranOut ends a step that took too long. A dial goes on, for the next job.
func (e *exchange) ranOut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case time.Now().Before(e.due): // the next step has just begun
	case e.conn == nil:
		e.over = true
		e.cancel(errUnready)
	default:
		e.cancel(errTimeout)
	}
}

func (e *exchange) refusal() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.refused
}

// gotConn waits for the departure. net/http calls it in the goroutine of RoundTrip, before it writes the request to the
// connection, and again to repeat the request on another connection.
func (e *exchange) gotConn(info httptrace.GotConnInfo) {
	c := info.Conn.(*conn) // as made by the dialer
	if !c.claim() {
		return // it writes nothing, and net/http tries another
	}
	if err := e.pass(c); err != nil {
		e.mu.Lock()
		e.refused = err
		e.mu.Unlock()
		// The connection writes nothing, and is lost, because net/http cannot put it back. The context keeps net/http from
		// trying one idle connection after the other.
		e.cancel(err)
		_ = c.Close()
		return
	}
	c.first.Store(e)
	c.out.Store(true)
}

// leave checks the window again right before the first byte is written. Between the gate and the write net/http changes
// goroutines, and on a busy machine that alone may take longer than the window.
func (e *exchange) leave() error {
	if !time.Now().After(e.gate.Closes()) {
		return nil
	}
	e.mu.Lock()
	e.refused = errOver
	e.mu.Unlock()
	e.cancel(errOver) // as in gotConn
	return errOver
}

func (e *exchange) pass(c *conn) error {
	e.mu.Lock()
	before, wrote := e.conn, e.wrote
	e.mu.Unlock()
	if before != nil && before.wrote.Load() != wrote {
		// One departure is one start: a request that may have arrived is not repeated.
		return errTwice
	}
	if err := e.gate.Wait(e.ctx); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return errUnready
	}
	if e.conn == nil {
		e.within(e.timeout)
	}
	e.conn, e.wrote = c, c.wrote.Load()
	return nil
}
