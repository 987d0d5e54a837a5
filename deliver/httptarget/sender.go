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

// Options of a Sender. The zero Options are useful.
type Options struct {
	// Concurrency is that of the drainer: so many connections to one host are kept
	// at most. The default is drain.DefaultConcurrency.
	Concurrency int
	// Secrets is where ${secret:NAME} is resolved.
	Secrets secrets.Source
	// Egress says where connections may go; nil is to public addresses alone.
	Egress *egress.Guard
	// TLS is the client's configuration; the default trusts the system's roots.
	TLS *tls.Config
}

// Sender posts jobs over HTTP/1.1.
//
// It does not speak HTTP/2: there a connection is shared by requests under way, and being given it
// does not mean that this request's bytes are the next. A gate in front of it could
// neither be precise nor refuse.
type Sender struct {
	secrets secrets.Source
	pools   pools
}

// New returns a Sender. Close it when nothing is being delivered any more.
func New(o Options) *Sender {
	if o.Concurrency <= 0 {
		o.Concurrency = drain.DefaultConcurrency
	}
	return &Sender{secrets: o.Secrets, pools: pools{o: o, dialer: newDialer(o.Egress), known: make(map[poolKey]*pool)}}
}

// Close closes the connections that are kept, and waits for those being made.
func (s *Sender) Close() error {
	s.pools.close()
	return nil
}

// Deliver makes one attempt; what its error says is in docs/targets/http.md.
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
	// RoundTrip and not http.Client: no redirects, no cookies, no surprises.
	answer, err := pool.transport.RoundTrip(req)
	if err != nil {
		return explain(ctx, e, pool.dialer, req, Veil(err, func(text string) string { return hide(text, job, target) }))
	}
	return e.read(answer, job, target)
}

// explain says what an error of RoundTrip is to the drainer.
func explain(ctx context.Context, e *exchange, d *tlsDialer, req *http.Request, err error) error {
	refused, cause := e.refusal(), context.Cause(e.ctx)
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("interrupted: %w", context.Cause(ctx))
		if e.sent() {
			return drain.Unknown(err) // no fault of the receiver's
		}
		return drain.Unsent(err)
	case errors.Is(refused, errTwice):
		return drain.Trouble(drain.Unknown(refused))
	case refused != nil:
		return refused
	case errors.Is(cause, errUnready):
		// A receiver that is slow to shake hands has its connection for the next job. One
		// that cannot be reached must not have jobs go round for ever.
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
	return drain.Down(err) // there was no connection, or none that took a byte
}

// address is what the transport dials for a request.
func address(req *http.Request) string {
	port := req.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[req.URL.Scheme]
	}
	return net.JoinHostPort(req.URL.Hostname(), port)
}
