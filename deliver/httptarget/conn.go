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
	errUnsolicited = errors.New("the receiver sent what nobody had asked for")
)

// conn is a connection, above TLS, that writes only when it was handed out: a request
// whose gate refused cannot leave, whatever net/http does with it.
//
// And it reads only when it was asked something. What comes behind the end of an answer, from a receiver that lies
// about its length, would else be taken for the answer to the next job.
type conn struct {
	net.Conn
	out   atomic.Bool
	first atomic.Pointer[exchange] // the one whose first byte is the next; nil once that was let out
	wrote atomic.Int64
	asked atomic.Bool // since it was handed out

	mu      sync.Mutex
	changed sync.Cond
	reading bool // so all that came before was used
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
	c.wrote.Add(1)     // before: an error does not mean that nothing left
	if !c.out.Load() { // attempt.sent shut it meanwhile, and may not have seen the count
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

// take makes the connection one's own. It reports whether it can be: net/http begins to read again as soon as an answer
// has ended, and closes the connection when there is more of it.
func (c *conn) take() bool {
	c.out.Store(false)
	c.asked.Store(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.reading && !c.closed {
		c.changed.Wait()
	}
	return !c.closed
}
