package httptarget

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

var (
	errShut        = errors.New("the connection was not handed out")
	errClosed      = errors.New("the sender is closed")
	errUnsolicited = errors.New("the receiver sent data without a request")
)

// conn is a connection, above TLS, that writes only after it was handed out: a request whose gate refused cannot leave,
// whatever net/http does.
//
// It reads only after a request was written. Otherwise, if a receiver sends more than the length of its answer, the
// rest would be taken for the answer to the next job.
type conn struct {
	net.Conn
	out   atomic.Bool
	first atomic.Pointer[exchange] // the exchange whose first byte is next; nil once that was written
	wrote atomic.Int64             // number of writes
	asked atomic.Bool              // something was written since the connection was handed out

	mu      sync.Mutex
	changed sync.Cond
	reading bool // so everything received before was consumed
	closed  bool
}

func newConn(c net.Conn) *conn {
	made := &conn{Conn: c}
	made.changed.L = &made.mu
	return made
}

func (c *conn) Write(b []byte) (int, error) {
	if !c.out.Load() {
		return 0, errShut
	}
	if e := c.first.Swap(nil); e != nil {
		if err := e.leave(); err != nil {
			c.out.Store(false)
			return 0, err
		}
	}
	c.asked.Store(true)
	c.wrote.Add(1)     // before the write, because a failed write may have sent something
	if !c.out.Load() { // exchange.sent shut it meanwhile, and may not have seen the count
		return 0, errShut
	}
	return c.Conn.Write(b)
}

func (c *conn) Read(b []byte) (int, error) {
	c.read(true)
	n, err := c.Conn.Read(b)
	c.read(false)
	if n > 0 && !c.asked.Load() {
		return 0, errUnsolicited
	}
	return n, err
}

func (c *conn) read(begins bool) {
	c.mu.Lock()
	c.reading = begins
	c.changed.Broadcast()
	c.mu.Unlock()
}

func (c *conn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.changed.Broadcast()
	c.mu.Unlock()
	return c.Conn.Close()
}

// claim claims the connection for a request, unless it is closed. It waits until net/http reads again, which it does as
// soon as an answer has ended; if there is more data it closes the connection.
func (c *conn) claim() bool {
	c.out.Store(false)
	c.asked.Store(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.reading && !c.closed {
		c.changed.Wait()
	}
	return !c.closed
}
