package httptarget

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/drain"
)

// Options are the settings of a Sender. The zero Options are valid.
type Options struct {
	// Concurrency is the drainer's: at most so many connections to one host are kept. The default is
	// drain.DefaultConcurrency.
	Concurrency int
	// Secrets resolves ${secret:NAME}.
	Secrets secrets.Source
	// Egress decides where connections may go; nil permits only public addresses.
	Egress *egress.Guard
	// TLS is the configuration of TLS clients; the default trusts the system's roots.
	TLS *tls.Config
}

// Sender posts jobs over HTTP/1.1.
//
// It does not use HTTP/2, where requests share a connection: a request that gets the connection need not be the next to
// write. A gate in front of it could neither be precise nor refuse.
type Sender struct {
	secrets secrets.Source
	pools   pools
}

// New returns a Sender. Close it after the last delivery has ended.
func New(o Options) *Sender {
	if o.Concurrency <= 0 {
		o.Concurrency = drain.DefaultConcurrency
	}
	return &Sender{secrets: o.Secrets, pools: pools{o: o, dialer: newDialer(o.Egress), known: make(map[poolKey]*pool)}}
}

// Close closes idle connections, and waits for connections being made.
func (s *Sender) Close() error {
	s.pools.close()
	return nil
}

// Deliver makes one attempt. docs/targets/http.md describes its errors.
func (s *Sender) Deliver(ctx context.Context, job *drain.Job, gate drain.Gate, to setting.Setting) error {
	target, err := to.(*Target).resolve(s.secrets, job.Queue)
	if err != nil {
		return drain.Down(err)
	}
	pool, err := s.pools.of(target)
	if err != nil {
		return drain.Down(&secrets.Error{Err: err})
	}
	e := newExchange(ctx, gate, target.Timeout.D())
	defer e.end()
	req, err := e.request(job, target)
	if err != nil {
		return drain.Down(errURL)
	}
	// Not http.Client, which would follow redirects and keep cookies.
	answer, err := pool.transport.RoundTrip(req)
	if err != nil {
		return explain(ctx, e, pool.dialer, req, Veil(err, func(text string) string { return hide(text, job, target) }))
	}
	return e.read(answer, job, target)
}

// explain converts an error of RoundTrip to an error for the drainer.
func explain(ctx context.Context, e *exchange, d *tlsDialer, req *http.Request, err error) error {
	refused, cause := e.refusal(), context.Cause(e.ctx)
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("interrupted: %w", context.Cause(ctx))
		if e.sent() {
			return drain.Unknown(err) // not the receiver's fault
		}
		return drain.Unsent(err)
	case errors.Is(refused, errTwice):
		return drain.Trouble(drain.Unknown(refused))
	case refused != nil:
		return refused
	case errors.Is(cause, errUnready):
		// If the receiver's handshake is slow, the next job gets the connection. If the receiver is unreachable, jobs must
		// not be granted and given back forever.
		if failed := d.failed(req.URL.Scheme, address(req)); failed != nil {
			return drain.Down(failed)
		}
		return errUnready
	case errors.Is(cause, errTimeout):
		err = fmt.Errorf("no answer within %v", e.timeout)
	}
	if e.sent() {
		return drain.Trouble(drain.Unknown(err))
	}
	return drain.Down(err) // no byte was written
}

// address returns the address that the transport dials for a request.
func address(req *http.Request) string {
	port := req.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[req.URL.Scheme]
	}
	return net.JoinHostPort(req.URL.Hostname(), port)
}
