package ops

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Memory costs in bytes, measured and rounded up. TestMemoryMaximum of cmd/ingress checks their sum.
const (
	// connCost is the cost of a connection: its goroutine, the two buffers of net/http, and small headers.
	connCost = 20 << 10
	// tlsCost is the cost of a TLS connection, including a record and the TLS state.
	tlsCost = 48 << 10
	// http2Cost is the extra cost of an HTTP/2 connection: goroutines, frames, tables and unread data.
	http2Cost = 112 << 10
	// requestCost is the cost of each request on an HTTP/2 connection.
	requestCost = 16 << 10
	// headerFactor is the cost of a header byte after parsing. The worst case is names of three letters without values:
	// each takes a map entry, a string and a slice.
	headerFactor = 24
	// freeHeader is the part of connCost reserved for headers.
	freeHeader = 2 << 10
	// leftover is the maximum that net/http reads beyond the current request: a buffer, or a TLS record.
	leftover = 16 << 10
)

// conn is a connection charged to its client's account while it is open. While a header is being read, it is charged at
// the worst case, headerFactor. After that, charges.over charges the request for the actual size.
type conn struct {
	net.Conn
	account *Account
	refuse  func(net.Conn, error)
	own     func(status int, said string) []byte
	end     func()

	held    atomic.Int64 // charge for the connection
	header  atomic.Int64 // charge for the header being read
	heading atomic.Bool  // a header is being read
	http2   atomic.Bool
	last    atomic.Int64 // bytes of the last read
	waits   atomic.Int32 // deadlines set since the last request ended
	away    atomic.Bool  // the connection was refused; refuse closes it
	closed  atomic.Bool
}

// Read charges for headers.
func (c *conn) Read(b []byte) (int, error) {
	c.waits.Store(2) // the data read ahead is used up
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.last.Store(int64(n))
		if c.heading.Load() && !c.http2.Load() {
			if err := c.takeHeader(int64(n)); err != nil {
				return 0, err
			}
		}
	}
	return n, err
}

func (c *conn) takeHeader(n int64) error {
	err := c.account.Take(n * headerFactor)
	if err != nil {
		if !c.away.Swap(true) {
			c.refuse(c.Conn, err)
		}
		return &net.OpError{Op: "read", Net: "tcp", Err: err} // net/http sends no answer of its own for this error
	}
	c.header.Add(n * headerFactor)
	if c.closed.Load() {
		c.freeHeader()
	}
	return nil
}

func (c *conn) freeHeader() { c.account.Free(c.header.Swap(0)) }

// SetReadDeadline detects a request that arrived together with the previous one. net/http sets a deadline for the time
// between requests and another for the next header. In between it reads from the connection, unless it already has
// data.
func (c *conn) SetReadDeadline(t time.Time) error {
	if c.heading.Load() && !c.http2.Load() && c.waits.Add(1) == 2 {
		if err := c.takeHeader(min(c.last.Load(), leftover)); err != nil {
			return err
		}
	}
	if c.away.Load() {
		return net.ErrClosed
	}
	return c.Conn.SetReadDeadline(t)
}

// state handles a change of the connection's state in the server.
func (c *conn) state(outer net.Conn, s http.ConnState) {
	switch s {
	case http.StateActive:
		c.heading.Store(false)
		c.freeHeader()
		if t, ok := outer.(*tls.Conn); ok && !c.http2.Load() && t.ConnectionState().NegotiatedProtocol == "h2" {
			c.http2.Store(true)
			if c.account.Take(http2Cost) != nil {
				_ = outer.Close() // no request to answer yet
				return
			}
			c.held.Add(http2Cost)
		}
	case http.StateIdle: // for HTTP/2, http2Cost includes headers
		c.waits.Store(0)
		c.heading.Store(true)
	}
}

// Write writes nothing once the connection was refused, because net/http would send its own answer to the incomplete
// header.
func (c *conn) Write(b []byte) (int, error) {
	if c.away.Load() {
		return 0, net.ErrClosed
	}
	if answer := explained(b, c.own); answer != nil {
		if _, err := c.Conn.Write(answer); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// CloseWrite lets net/http close its side first, so that a reset does not lose an answer.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && !c.away.Load() {
		return half.CloseWrite()
	}
	return nil
}

func (c *conn) Close() error {
	defer c.end()
	if c.away.Load() {
		return nil
	}
	return c.Conn.Close()
}

// free returns all charges of the connection. It must be called once.
func (c *conn) free() {
	c.closed.Store(true)
	c.account.Free(c.held.Swap(0))
	c.freeHeader()
	c.account.Close()
}

// inner returns the conn below TLS and other wrappers, or nil.
func inner(c net.Conn) *conn {
	for {
		if held, ok := c.(*conn); ok {
			return held
		}
		outer, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = outer.NetConn()
	}
}
