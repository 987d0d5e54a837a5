package ops

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/admission"
)

// charges puts what a server holds for its clients on their accounts.
type charges struct {
	o        ServerOptions
	tls      bool
	client   admission.KeyFunc
	address  admission.KeyFunc // client, of IPv6 to the last bit
	refusing atomic.Int64
}

const (
	// maxRefusing is how many refusals may be under way at once; what comes on top is cut off without one.
	maxRefusing = 256
	// lingering is how long one that is turned away may take to read why.
	lingering = 500 * time.Millisecond
	// http2Buffer is how much of bodies is received on a connection before a handler reads it. It is the least there may
	// be.
	http2Buffer = 64 << 10
)

func newCharges(o ServerOptions, tls bool) *charges {
	return &charges{
		o: o, tls: tls, client: admission.ClientAddress(admission.AddressOptions{Proxies: o.Proxies}),
		address: admission.ClientAddress(admission.AddressOptions{Proxies: o.Proxies, IPv6Bits: 128}),
	}
}

func (c *charges) gate(ln net.Listener) net.Listener {
	cost := int64(connCost)
	if c.tls {
		cost = tlsCost
	}
	return &gate{
		Listener: ln, memory: c.o.Memory, cost: cost, client: c.peer, refuse: c.turnAway, own: c.o.Own,
		places: make(chan struct{}, c.o.MaxConnections), closed: make(chan struct{}),
	}
}

// peer is whose account a connection is on: that of who is at its other end, but a proxy's is nobody's.
func (c *charges) peer(remote string) string {
	key, err := c.client(&http.Request{RemoteAddr: remote})
	if err != nil || c.proxied(remote) {
		return ""
	}
	return key
}

func (c *charges) proxied(remote string) bool {
	at, err := netip.ParseAddrPort(remote)
	return err == nil && slices.ContainsFunc(c.o.Proxies, func(p netip.Prefix) bool {
		return p.Contains(at.Addr().Unmap())
	})
}

// turnAway answers a connection of which no request was read, and closes it.
func (c *charges) turnAway(to net.Conn, why error) {
	if c.tls || c.refusing.Add(1) > maxRefusing {
		if !c.tls {
			c.refusing.Add(-1)
		}
		_ = to.Close()
		return
	}
	go func() { // it ends by its deadline
		defer c.refusing.Add(-1)
		defer func() { _ = to.Close() }()
		_ = to.SetDeadline(time.Now().Add(lingering))
		if _, err := to.Write(c.refusal(why)); err != nil {
			return
		}
		if half, ok := to.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, to) // or what it still sends would reset the connection before it has read
		}
	}()
}

// refusal is the answer as it goes over a connection.
func (c *charges) refusal(why error) []byte {
	a := &plainAnswer{header: http.Header{}, status: http.StatusOK}
	c.o.Refuse(a, why)
	a.header.Set("Connection", "close")
	a.header.Set("Content-Length", fmt.Sprint(a.body.Len()))
	var out bytes.Buffer
	fmt.Fprintf(&out, "HTTP/1.1 %d %s\r\n", a.status, http.StatusText(a.status))
	_ = a.header.Write(&out)
	out.WriteString("\r\n")
	_, _ = a.body.WriteTo(&out)
	return out.Bytes()
}

// plainAnswer keeps an answer.
type plainAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *plainAnswer) Header() http.Header         { return a.header }
func (a *plainAnswer) WriteHeader(status int)      { a.status = status }
func (a *plainAnswer) Write(b []byte) (int, error) { return a.body.Write(b) }

// over charges each request for its header and, where a connection has many at once, for itself. What it is charged to
// is ClientOf its context. The RemoteAddr of what came by a proxy is that of the client, of port 0, for all that is
// recorded and logged of it.
func (c *charges) over(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		account := ClientOf(r.Context())
		if len(c.o.Proxies) > 0 && c.proxied(r.RemoteAddr) {
			if key, err := c.client(r); err == nil {
				account = c.o.Memory.Open(key)
				defer account.Close()
				r = r.WithContext(context.WithValue(r.Context(), accountKey{}, account))
				r.RemoteAddr = c.remote(r)
			}
		}
		cost := headerCost(r) - freeHeader
		if r.ProtoMajor > 1 {
			cost = max(0, cost) + requestCost
		}
		if cost > 0 && account != nil {
			if err := account.Take(cost); err != nil {
				if c.refusing.Add(1) > maxRefusing {
					c.refusing.Add(-1)
					panic(http.ErrAbortHandler)
				}
				defer c.refusing.Add(-1)
				w.Header().Set("Connection", "close")
				c.o.Refuse(w, err)
				return
			}
			defer account.Free(cost)
		}
		h.ServeHTTP(w, r)
	})
}

// remote is the address of the client of a request that came by a proxy, as a RemoteAddr.
func (c *charges) remote(r *http.Request) string {
	at, err := c.address(r)
	if err != nil {
		return r.RemoteAddr
	}
	host, _, _ := strings.Cut(at, "/")
	return net.JoinHostPort(host, "0")
}

// headerCost is what the header of a request holds.
func headerCost(r *http.Request) int64 {
	n := len(r.RequestURI) * 3 // with what is parsed of it
	for name, values := range r.Header {
		n += len(name) + 128
		for _, v := range values {
			n += len(v) + 32
		}
	}
	return int64(n)
}

type accountKey struct{}

// ClientOf is the account that a request of a Server is charged to; nil if there is none.
func ClientOf(ctx context.Context) *Account {
	a, _ := ctx.Value(accountKey{}).(*Account)
	return a
}

func connAccount(ctx context.Context, c net.Conn) context.Context {
	if held := inner(c); held != nil {
		return context.WithValue(ctx, accountKey{}, held.account)
	}
	return ctx
}

func connState(c net.Conn, state http.ConnState) {
	if held := inner(c); held != nil {
		held.state(c, state)
	}
}
