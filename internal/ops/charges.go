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

// charges charges the memory of connections and requests to the clients' accounts.
type charges struct {
	o        ServerOptions
	tls      bool
	client   admission.KeyFunc
	address  admission.KeyFunc // like client, with all bits of an IPv6 address
	refusing atomic.Int64
}

const (
	// maxRefusing is the maximum number of concurrent refusals. Further connections are closed without an answer.
	maxRefusing = 256
	// lingering is the time that a refused client gets to read the answer.
	lingering = 500 * time.Millisecond
	// http2Buffer is the number of bytes of bodies that a connection receives before handlers read them. It is the
	// minimum that HTTP/2 allows.
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

// peer returns the client to charge for a connection: its remote address, or none if that is a proxy.
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

// turnAway refuses a connection before its first request, and closes it.
func (c *charges) turnAway(to net.Conn, why error) {
	if c.tls || c.refusing.Add(1) > maxRefusing {
		if !c.tls {
			c.refusing.Add(-1)
		}
		_ = to.Close()
		return
	}
	go func() { // the deadline ends it
		defer c.refusing.Add(-1)
		defer func() { _ = to.Close() }()
		_ = to.SetDeadline(time.Now().Add(lingering))
		if _, err := to.Write(c.refusal(why)); err != nil {
			return
		}
		if half, ok := to.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, to) // unread data would reset the connection before the client has read the answer
		}
	}()
}

// refusal returns the bytes of the answer.
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

// plainAnswer is an http.ResponseWriter that keeps the answer.
type plainAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *plainAnswer) Header() http.Header         { return a.header }
func (a *plainAnswer) WriteHeader(status int)      { a.status = status }
func (a *plainAnswer) Write(b []byte) (int, error) { return a.body.Write(b) }

// over charges each request for its header and, on HTTP/2 connections, for the request itself. Handlers find the
// account with ClientOf. For requests through a proxy, RemoteAddr becomes the client's address with port 0, so that
// records and logs show the client.
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

// remote returns the RemoteAddr of the client behind a proxy.
func (c *charges) remote(r *http.Request) string {
	at, err := c.address(r)
	if err != nil {
		return r.RemoteAddr
	}
	host, _, _ := strings.Cut(at, "/")
	return net.JoinHostPort(host, "0")
}

// headerCost returns the memory that a request's header uses, in bytes.
func headerCost(r *http.Request) int64 {
	n := len(r.RequestURI) * 3 // including the parsed URL
	for name, values := range r.Header {
		n += len(name) + 128
		for _, v := range values {
			n += len(v) + 32
		}
	}
	return int64(n)
}

type accountKey struct{}

// ClientOf returns the account charged for a request of a Server, or nil.
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
