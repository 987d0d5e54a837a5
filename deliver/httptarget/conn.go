package httptarget

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"syscall"
	"time"
)

// errHeader is returned for answers with too many bytes before their body.
var errHeader = errors.New("the headers of the answer exceeded 64 KiB")

// conn is a connection to a receiver. One goroutine at a time uses it.
type conn struct {
	net.Conn
	to     place
	reader *bufio.Reader // of header
	header int64         // number of bytes that may still be read; math.MaxInt64 while a body is read
	fresh  bool          // it has not carried a request
	idle   time.Time     // when it was put into the pool
	raw    syscall.RawConn
	peek   func(fd uintptr) bool // for alive; made once
	seen   peeked
}

// place is a receiver: what connections are shared by.
type place struct{ scheme, address string }

func newConn(c net.Conn, to place) *conn {
	made := &conn{Conn: c, to: to, fresh: true}
	made.reader = bufio.NewReader(headerReader{made})
	if s, ok := socket(c).(syscall.Conn); ok {
		made.raw, _ = s.SyscallConn() // without it, a write shows whether the connection is alive
	}
	made.peek = func(fd uintptr) bool {
		made.seen = peekAt(fd)
		return true
	}
	return made
}

// socket returns the connection below TLS.
func socket(c net.Conn) net.Conn {
	for {
		secured, ok := c.(*tls.Conn)
		if !ok {
			return c
		}
		c = secured.NetConn()
	}
}

// peeked is what a socket has to read.
type peeked int

const (
	nothing peeked = iota
	data
	ended
)

// Close ends the connection without a word to the receiver: TLS would wait until the receiver takes its last record.
func (c *conn) Close() error { return socket(c.Conn).Close() }

func (c *conn) secured() bool {
	_, ok := c.Conn.(*tls.Conn)
	return ok
}

// drained reports whether nothing that the receiver sent is left behind an answer. TLS reads ahead of what it returns.
func (c *conn) drained() bool {
	if c.reader.Buffered() > 0 || !c.secured() {
		return c.reader.Buffered() == 0
	}
	_ = c.SetReadDeadline(time.Unix(1, 0)) // so that only what TLS holds is read
	_, err := c.reader.Peek(1)
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// usable is alive without reading, for the moment before a write. New connections with TLS may have session tickets to
// read.
func (c *conn) usable() bool {
	seen := c.look()
	return c.reader.Buffered() == 0 && (seen == nothing || seen == data && c.fresh && c.secured())
}

// alive reports whether a request can be written: the receiver has neither ended the connection nor sent anything
// without a request. An answer longer than its length must not become the answer to the next job.
func (c *conn) alive() bool {
	if c.reader.Buffered() > 0 {
		return false
	}
	switch c.look() {
	case nothing:
		return true
	case ended:
		return false
	case data:
	}
	if !c.secured() || !c.fresh {
		return false
	}
	// TLS 1.3 receivers send session tickets after the handshake. Reading them leaves nothing.
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	c.header = maxHeaderBytes
	_, err := c.reader.Peek(1)
	_ = c.SetReadDeadline(time.Time{})
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// look returns what the socket has to read, without reading it. No goroutine waits for it meanwhile.
func (c *conn) look() peeked {
	if c.raw == nil {
		return nothing
	}
	if err := c.raw.Read(c.peek); err != nil {
		return ended
	}
	return c.seen
}

// headerReader reads at most conn.header bytes, so that an answer cannot use up memory.
type headerReader struct{ c *conn }

func (r headerReader) Read(b []byte) (int, error) {
	if r.c.header <= 0 {
		return 0, errHeader
	}
	n, err := r.c.Conn.Read(b[:min(int64(len(b)), r.c.header)])
	if r.c.header != math.MaxInt64 {
		r.c.header -= int64(n)
	}
	return n, err
}

var _ io.Reader = headerReader{}
