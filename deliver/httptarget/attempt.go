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
	errUnready = fmt.Errorf("%w: there was no connection by then", drain.ErrLate)
	errOver    = fmt.Errorf("%w: this process was kept from writing the request in time", drain.ErrLate)
	errTimeout = errors.New("timeout")
	errTwice   = errors.New("the connection ended before an answer came; the receiver may have the request")
)

// attempt is one delivery under way.
type attempt struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	gate    drain.Gate
	timeout time.Duration
	trace   httptrace.ClientTrace

	mu      sync.Mutex
	timer   *time.Timer // for the connection, then for the answer, then for its body
	due     time.Time   // when that is over
	conn    *conn       // that the request was let out on
	wrote   int64       // what conn had written before
	refused error       // why it was not
	over    bool        // too late for the first connection
}

func attempting(ctx context.Context, gate drain.Gate, timeout time.Duration) *attempt {
	a := &attempt{gate: gate, timeout: timeout}
	a.trace.GotConn = a.gotConn
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.within(time.Until(gate.Closes()))
	return a
}

// traced returns a request that waits in gotConn.
func (a *attempt) traced(req *http.Request) *http.Request {
	return req.WithContext(httptrace.WithClientTrace(a.ctx, &a.trace))
}

func (a *attempt) end() {
	a.mu.Lock()
	a.timer.Stop()
	a.mu.Unlock()
	a.cancel(nil)
}

// within gives what comes next its time. a.mu is held.
func (a *attempt) within(d time.Duration) {
	a.due = time.Now().Add(d)
	if a.timer == nil {
		a.timer = time.AfterFunc(d, a.ranOut)
	} else {
		a.timer.Reset(d)
	}
}

// ranOut ends what took too long. A dial goes on, for the next job.
func (a *attempt) ranOut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case time.Now().Before(a.due): // something else has begun at this moment
	case a.conn == nil:
		a.over = true
		a.cancel(errUnready)
	default:
		a.cancel(errTimeout)
	}
}

func (a *attempt) refusal() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// gotConn is where the request waits for its departure. net/http calls it in
// the goroutine of RoundTrip, before the request is given to the connection. It is called again when
// net/http wants to repeat the request on another connection.
func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	c := info.Conn.(*conn) // the dialer makes no others
	if !c.take() {
		return // it writes nothing, and net/http takes another
	}
	if err := a.pass(c); err != nil {
		a.mu.Lock()
		a.refused = err
		a.mu.Unlock()
		// The connection writes nothing, and is lost: net/http has no way to put it back.
		// The context keeps net/http from trying one kept connection after the other.
		a.cancel(err)
		_ = c.Close()
		return
	}
	c.first.Store(a)
	c.out.Store(true)
}

// leave is asked right before the first byte is written. Between the gate and the write
// net/http changes goroutines: where there is more to do than there are processors, that
// alone can outlast the window, and a start would be late that the gate has let go.
func (a *attempt) leave() error {
	if !time.Now().After(a.gate.Closes()) {
		return nil
	}
	a.mu.Lock()
	a.refused = errOver
	a.mu.Unlock()
	a.cancel(errOver) // as in gotConn
	return errOver
}

func (a *attempt) pass(c *conn) error {
	a.mu.Lock()
	before, wrote := a.conn, a.wrote
	a.mu.Unlock()
	if before != nil && before.wrote.Load() != wrote {
		// One departure is one start: a request that may have arrived is not
		// repeated before the next.
		return errTwice
	}
	if err := a.gate.Wait(a.ctx); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return errUnready
	}
	if a.conn == nil {
		a.within(a.timeout)
	}
	a.conn, a.wrote = c, c.wrote.Load()
	return nil
}
