package post

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
)

// Headers that name the job.
const (
	HeaderID      = "Penstock-Id"
	HeaderQueue   = "Penstock-Queue"
	HeaderAttempt = "Penstock-Attempt"

	headerIdempotency = "Idempotency-Key" // the id, too
	userAgent         = "Penstock"
)

const (
	idleTimeout    = 90 * time.Second
	leastIdleConns = 1024
	maxHeaderBytes = 64 << 10 // of an answer

	// An answer's body is read so far and so long, so that its connection can be used
	// again; beyond that it is cheaper to dial.
	drainBytes = 64 << 10
	drainTime  = time.Second

	excerptBytes = 200
)

var (
	errUnready = fmt.Errorf("%w: there was no connection by then", drain.ErrLate)
	errOver    = fmt.Errorf("%w: this process was kept from writing the request in time", drain.ErrLate)
	errTimeout = errors.New("timeout")
	errURL     = errors.New("deliver.http.url: cannot be requested; it must be an http or https URL") // net/url's error would quote it
	errTwice   = errors.New("the connection ended before an answer came; the receiver may have the request")
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
	dialer    *dialer
	transport *http.Transport
}

// New returns a Sender. Close it when nothing is being delivered any more.
func New(o Options) *Sender {
	if o.Concurrency <= 0 {
		o.Concurrency = drain.DefaultConcurrency
	}
	d := newDialer(o.TLS, o.Egress)
	return &Sender{dialer: d, transport: &http.Transport{
		// Proxy is nil: a variable of the environment must not reroute deliveries.
		DialContext:            d.dial,
		DialTLSContext:         d.dialTLS,
		MaxConnsPerHost:        o.Concurrency,
		MaxIdleConnsPerHost:    o.Concurrency,
		MaxIdleConns:           max(leastIdleConns, 4*o.Concurrency),
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
		Protocols:              onlyHTTP1(),
	}}
}

func onlyHTTP1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

// Close implements Sender.
func (s *Sender) Close() error {
	s.dialer.close()
	s.transport.CloseIdleConnections()
	return nil
}

// Deliver implements Sender. A 2xx answer is nil, anything else an error.
func (s *Sender) Deliver(ctx context.Context, job *drain.Job, gate drain.Gate, to setting.Setting) error {
	target := to.(*Target)
	a := &attempt{gate: gate, timeout: target.Timeout.D()}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	defer a.end()
	a.timer = time.AfterFunc(time.Until(gate.Closes()), a.unready)

	req, err := a.request(job, target)
	if err != nil {
		return drain.Permanent(errURL)
	}
	// RoundTrip and not http.Client: no redirects, no cookies, no surprises.
	answer, err := s.transport.RoundTrip(req)
	if err != nil {
		return s.explain(ctx, a, req, err)
	}
	return a.read(answer, func(text string) string { return hide(text, job, target) })
}

// explain says what an error of RoundTrip is to the drainer.
func (s *Sender) explain(ctx context.Context, a *attempt, req *http.Request, err error) error {
	refused, cause := a.refusal(), context.Cause(a.ctx)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	case refused != nil:
		return refused
	case errors.Is(cause, errUnready):
		// A receiver that is slow to shake hands has its connection for the next job. One
		// that cannot be reached must not have jobs go round for ever.
		if failed := s.dialer.failed(req.URL.Scheme, address(req)); failed != nil {
			return failed
		}
		return errUnready
	case errors.Is(cause, errTimeout):
		return fmt.Errorf("no answer within %v", a.timeout)
	}
	return err
}

// address is what the transport dials for a request.
func address(req *http.Request) string {
	port := req.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[req.URL.Scheme]
	}
	return net.JoinHostPort(req.URL.Hostname(), port)
}

// attempt is one delivery under way.
type attempt struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	gate    drain.Gate
	timeout time.Duration

	mu      sync.Mutex
	timer   *time.Timer // for the connection, then for the answer
	conn    *conn       // that the request was let out on
	wrote   int64       // what conn had written before
	refused error       // why it was not
	over    bool        // too late for the first connection
}

func (a *attempt) end() {
	a.mu.Lock()
	a.timer.Stop()
	a.mu.Unlock()
	a.cancel(nil)
}

func (a *attempt) refusal() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

func (a *attempt) request(job *drain.Job, target *Target) (*http.Request, error) {
	ctx := httptrace.WithClientTrace(a.ctx, &httptrace.ClientTrace{GotConn: a.gotConn})
	// With a reader of bytes the length is known, and the body can be read again when a
	// kept connection turns out to be closed before anything was written.
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.URL, bytes.NewReader(job.Payload))
	if err != nil {
		return nil, err
	}
	h := req.Header
	h.Set("User-Agent", userAgent)
	for name, value := range job.Headers {
		h.Set(name, value)
	}
	for name, value := range target.Headers {
		h.Set(name, value)
	}
	h.Set("Content-Type", job.ContentType)
	h.Set(HeaderID, job.ID)
	h.Set(HeaderQueue, job.Queue)
	h.Set(HeaderAttempt, strconv.Itoa(job.Attempt))
	h.Set(headerIdempotency, job.ID)
	return req, nil
}

// unready gives up waiting for a connection. The dial goes on, for the next job.
func (a *attempt) unready() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn == nil {
		a.over = true
		a.cancel(errUnready)
	}
}

// gotConn is where the request waits for its departure. net/http calls it in
// the goroutine of RoundTrip, before the request is given to the connection. It is called again when
// net/http wants to repeat the request on another connection.
func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	c := info.Conn.(*conn) // the dialer makes no others
	c.out.Store(false)
	if err := a.pass(c); err != nil {
		a.mu.Lock()
		a.refused = err
		a.mu.Unlock()
		// The connection writes nothing, and is lost: net/http has no way to put it back.
		// The context keeps net/http from trying one kept connection after the other.
		a.cancel(err)
		_ = c.Close()
		return
	}
	c.first.Store(a)
	c.out.Store(true)
}

// leave is asked right before the first byte is written. Between the gate and the write
// net/http changes goroutines: where there is more to do than there are processors, that
// alone can outlast the window, and a start would be late that the gate has let go.
func (a *attempt) leave() error {
	if !time.Now().After(a.gate.Closes()) {
		return nil
	}
	a.mu.Lock()
	a.refused = errOver
	a.mu.Unlock()
	a.cancel(errOver) // as in gotConn
	return errOver
}

func (a *attempt) pass(c *conn) error {
	a.mu.Lock()
	before, wrote := a.conn, a.wrote
	a.mu.Unlock()
	if before != nil && before.wrote.Load() != wrote {
		// One departure is one start: a request that may have arrived is not
		// repeated before the next.
		return errTwice
	}
	if err := a.gate.Wait(a.ctx); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return errUnready
	}
	if a.conn == nil {
		a.timer.Stop()
		a.timer = time.AfterFunc(a.timeout, func() { a.cancel(errTimeout) })
	}
	a.conn, a.wrote = c, c.wrote.Load()
	return nil
}

// read judges an answer; what is told of it is hidden as far as hide says.
func (a *attempt) read(answer *http.Response, hide func(string) string) error {
	a.mu.Lock()
	a.timer.Stop() // the answer is known; its body has a time of its own
	a.timer = time.AfterFunc(drainTime, func() { a.cancel(errTimeout) })
	a.mu.Unlock()
	defer answer.Body.Close()
	head := make([]byte, 4*excerptBytes) // so that nothing to hide is cut in two before it is found
	n, err := io.ReadFull(answer.Body, head)
	if err == nil {
		_, _ = io.CopyN(io.Discard, answer.Body, drainBytes)
	}
	if answer.StatusCode >= 200 && answer.StatusCode <= 299 {
		return nil
	}
	text := fmt.Sprintf("the receiver answered %d", answer.StatusCode)
	if answer.StatusCode >= 300 && answer.StatusCode <= 399 {
		text += " (redirects are not followed)"
	}
	if e := queue.Cut(hide(excerpt(head[:n])), excerptBytes); e != "" {
		text += ": " + e
	}
	return errors.New(text)
}

// excerpt makes what can be shown to people of the beginning of an answer.
func excerpt(b []byte) string {
	printable := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, string(b))
	return strings.Join(strings.Fields(printable), " ")
}
