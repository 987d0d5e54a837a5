package httptarget

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/clip"
)

var (
	errUnready    = fmt.Errorf("%w: there was no connection in time", drain.ErrLate)
	errOver       = fmt.Errorf("%w: this process was too busy to write the request in time", drain.ErrLate)
	errEnded      = errors.New("the receiver ended a new connection, or sent data, before there was a request")
	errUnanswered = errors.New("the connection ended before an answer came; the receiver may have the request")
)

// inline is the maximum size of a body that is written together with the headers. While a larger body is written, the
// answer is read: some receivers refuse a body before they have read it.
const inline = 16 << 10

// writeWait is how long to wait for the end of the write when the answer has ended.
const writeWait = 50 * time.Millisecond

// call is one request, from the wait for a connection to the end of the answer. One goroutine uses it.
type call struct {
	ctx     context.Context
	gate    drain.Gate
	timeout time.Duration // from the departure to the end of the answer's headers
	pool    *pool
	out     outgoing

	conn    *conn
	ends    time.Time  // the time limit of the present step
	refused error      // of the gate
	sent    bool       // some of the request may have left
	broken  bool       // the request was not written in full
	writing chan error // gets the result of writing a large body; nil without one
	abort   func()     // makes reading the body fail while it is written; nil if reading cannot block
	detach  func() bool
}

// do writes a request at its departure, and returns the beginning of the answer. The caller must call end, after it has
// read the body.
func (c *call) do() (*http.Response, error) {
	if err := c.depart(); err != nil {
		return nil, err
	}
	return c.exchange()
}

// exchange writes the request on the connection, and reads the beginning of the answer.
func (c *call) exchange() (*http.Response, error) {
	c.within(c.timeout)
	c.detach = context.AfterFunc(c.ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	if err := c.write(); err != nil {
		c.broken = true
		return nil, err
	}
	return c.read()
}

// depart waits for a connection and in the gate. Another connection replaces one that ends meanwhile.
func (c *call) depart() error {
	for {
		conn, err := c.pool.get(c.ctx, c.out.to, c.gate.Closes())
		if err != nil {
			return err
		}
		err = c.gate.Wait(c.ctx)
		c.refused = err
		if err == nil && !conn.usable() {
			c.pool.drop(conn)
			if conn.fresh { // the next one would fare no better
				return errEnded
			}
			continue
		}
		// On a busy machine, this goroutine may have been stopped behind the gate.
		if err == nil && time.Now().After(c.gate.Closes()) {
			err = errOver
		}
		if err != nil {
			c.pool.put(conn)
			return err
		}
		c.conn = conn
		return nil
	}
}

// within sets the time limit of the next step.
func (c *call) within(d time.Duration) {
	c.ends = time.Now().Add(d)
	_ = c.conn.SetDeadline(c.ends)
	if c.ctx.Err() != nil { // it may have ended before that
		_ = c.conn.SetDeadline(time.Unix(1, 0))
	}
}

// write writes the request; the rest of a large body in the background.
func (c *call) write() error {
	switch {
	case c.ctx.Err() != nil:
		return context.Cause(c.ctx)
	case time.Now().After(c.gate.Closes()): // this goroutine may have been stopped again
		return errOver
	}
	c.conn.fresh, c.sent = false, true // a failed write may have sent something
	_, err := c.conn.Write(c.out.head)
	if err != nil || c.out.body == nil {
		return err
	}
	conn, body := c.conn, c.out.body
	c.writing = make(chan error, 1)
	go func() {
		err := body(conn)
		if unread := (*unreadError)(nil); errors.As(err, &unread) {
			_ = conn.SetDeadline(time.Unix(1, 0)) // the receiver waits for a rest that does not come
		}
		c.writing <- err
	}()
	return nil
}

// unreadError is the error of a body that could not be read from its caller.
type unreadError struct{ error }

// read returns the answer behind interim ones.
func (c *call) read() (*http.Response, error) {
	c.conn.header = maxHeaderBytes
	for {
		answer, err := http.ReadResponse(c.conn.reader, c.out.request)
		if err != nil {
			return nil, err
		}
		if answer.ProtoMajor != 1 {
			return nil, fmt.Errorf("the receiver answered in %s; only HTTP/1.1 is supported", clip.Quote(answer.Proto, 20))
		}
		if interim := answer.StatusCode/100 == 1 && answer.StatusCode != http.StatusSwitchingProtocols; !interim {
			c.conn.header = math.MaxInt64
			return answer, nil
		}
	}
}

// end gives the connection back if the answer was read to its end, and else closes it.
func (c *call) end(answer *http.Response, whole bool) {
	if c.conn == nil {
		return
	}
	keep := whole && !answer.Close && answer.StatusCode >= 200 && c.conn.drained()
	if c.writing != nil && keep { // the answer may have come a little before the write returns
		wait := time.NewTimer(writeWait)
		defer wait.Stop()
		select {
		case err := <-c.writing:
			keep, c.writing = err == nil, nil
		case <-wait.C:
			keep = false
		}
	}
	if !c.detach() { // ctx has ended, and the deadline may be set at any time
		keep = false
	}
	if keep {
		c.pool.put(c.conn)
		return
	}
	c.pool.drop(c.conn)
	if c.writing != nil {
		if c.abort != nil {
			c.abort()
		}
		<-c.writing //nolint:errcheck // the connection is closed, and the payload is the caller's
	}
}

// explain converts an error of do to an error for the drainer.
func (c *call) explain(err error) error {
	switch {
	case c.ctx.Err() != nil:
		err = fmt.Errorf("interrupted: %w", context.Cause(c.ctx))
		if c.sent {
			return drain.Unknown(err) // not the receiver's fault
		}
		return drain.Unsent(err)
	case errors.Is(err, errUnready):
		// If the receiver's handshake is slow, the next job gets the connection. If the receiver is unreachable, jobs must
		// not be granted and given back forever.
		if failed := c.pool.dialer.failed(c.out.to); failed != nil {
			return drain.Down(failed)
		}
		return errUnready
	case c.refused != nil:
		return c.refused
	case errors.Is(err, errOver):
		return errOver
	case !c.sent:
		return drain.Down(err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("no answer within %v", c.timeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		err = errUnanswered
	}
	return drain.Trouble(drain.Unknown(err))
}
