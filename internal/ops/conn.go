package ops

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// What things hold, as measured, with something to spare. TestMemoryMaximum of cmd/ingress holds the sum to its
// maximum.
const (
	// connCost is a connection's: its goroutine, the two buffers of net/http, small headers.
	connCost = 20 << 10
	// tlsCost is one with TLS: a record and the state besides.
	tlsCost = 48 << 10
	// http2Cost is what one has besides that speaks HTTP/2: goroutines, frames, tables, and what was received and is not
	// read.
	http2Cost = 112 << 10
	// requestCost is each request's on such a connection.
	requestCost = 16 << 10
	// headerFactor is what a byte of a header may take when it is parsed. The worst are names of three letters without
	// values: an entry in a map, a string and a slice each.
	headerFactor = 24
	// freeHeader is what connCost has for headers.
	freeHeader = 2 << 10
	// leftover is the most that net/http has read ahead of the present request: a buffer, or a record of TLS.
	leftover = 16 << 10
)

// conn is a connection that is charged to its client's account for as long as it is open, and for its request's header
// while that is read: nobody knows yet what will become of it, so for the worst. Once it is read, the request is
// charged for what it holds (see Server.charged).
type conn struct {
	net.Conn
	account *Account
	refuse  func(net.Conn, error)
	own     func(status int, said string) []byte
	end     func()

	held    atomic.Int64 // for the connection
	header  atomic.Int64 // for the header that is being read
	heading atomic.Bool  // one is
	http2   atomic.Bool
	last    atomic.Int64 // bytes of the last read
	waits   atomic.Int32 // deadlines set since the last request ended
	away    atomic.Bool  // it was turned away, and is closed by who does that
	closed  atomic.Bool
}

// Read charges for headers.
func (c *conn) Read(b []byte) (int, error) {
	c.waits.Store(2) // what was read ahead is used up
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
		return &net.OpError{Op: "read", Net: "tcp", Err: err} // to which net/http has nothing to answer
	}
	c.header.Add(n * headerFactor)
	if c.closed.Load() {
		c.freeHeader()
	}
	return nil
}

func (c *conn) freeHeader() { c.account.Free(c.header.Swap(0)) }

// SetReadDeadline notices a request that came together with the one before it: net/http sets one deadline for the time
// between requests and one for the next header, and reads from the connection in between unless it has that already.
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

// state is told what the server makes of the connection.
func (c *conn) state(outer net.Conn, s http.ConnState) {
	switch s {
	case http.StateActive:
		c.heading.Store(false)
		c.freeHeader()
		if t, ok := outer.(*tls.Conn); ok && !c.http2.Load() && t.ConnectionState().NegotiatedProtocol == "h2" {
			c.http2.Store(true)
			if c.account.Take(http2Cost) != nil {
				_ = outer.Close() // there is no request yet to answer
				return
			}
			c.held.Add(http2Cost)
		}
	case http.StateIdle: // of HTTP/2 the header is in what it costs
		c.waits.Store(0)
		c.heading.Store(true)
	}
}

// Write writes nothing where somebody else answers: net/http has its own word for a header that breaks off.
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

// CloseWrite lets net/http end its side first, so that an answer is not lost to a reset.
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

// free gives back all that the connection was charged for. It must be called once.
func (c *conn) free() {
	c.closed.Store(true)
	c.account.Free(c.held.Swap(0))
	c.freeHeader()
	c.account.Close()
}

// inner is the connection below TLS and whatever else; nil if it is none of ours.
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
