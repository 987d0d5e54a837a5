package httptarget

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
)

// MaxAnswerBytes is how much of an answer's body a Client reads.
const MaxAnswerBytes = 512 << 10

// Client makes the requests of targets that speak an API over HTTP, each at its departure.
type Client struct {
	sender *Sender
	pool   *pool
}

// Answer is what came back.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // the first MaxAnswerBytes of it
	Cut    bool   // there was more, or it broke off
}

// NewClient returns a Client. Close it when nothing is being requested any more.
func NewClient(o Options) *Client {
	s := New(o)
	// Less long than receivers keep connections: of a request that crosses the closing of its connection nobody knows
	// whether it arrived.
	p, _ := s.pools.of(Default()) // it asks nothing of TLS, so there is no error
	p.transport.IdleConnTimeout = 15 * time.Second
	return &Client{s, p}
}

// Close closes the connections that are kept.
func (c *Client) Close() error { return c.sender.Close() }

// Do waits for a connection and in the gate, makes a request and reads its answer, within a timeout from the
// departure. Its error is what a drain.Handler returns, and tells whether the receiver may have the request: one marked
// drain.Unknown says that it may, all others that it has not.
func (c *Client) Do(ctx context.Context, gate drain.Gate, timeout time.Duration, req *http.Request) (*Answer, error) {
	e := newExchange(ctx, gate, timeout)
	defer e.end()
	// A request that could not be written to its end was not understood by anybody: its length is given.
	var broken atomic.Bool
	e.trace.WroteRequest = func(w httptrace.WroteRequestInfo) { broken.Store(w.Err != nil) }
	req = e.traced(req)
	resp, err := c.pool.transport.RoundTrip(req)
	if err != nil {
		return nil, c.unanswered(ctx, e, req, err, broken.Load())
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswerBytes+1))
	cut := err != nil || len(body) > MaxAnswerBytes
	return &Answer{
		Status: resp.StatusCode, Header: resp.Header, Body: body[:min(len(body), MaxAnswerBytes)], Cut: cut,
	}, nil
}

// unanswered says what became of a request to which there was no answer.
func (c *Client) unanswered(ctx context.Context, e *exchange, req *http.Request, err error, broken bool) error {
	said := explain(ctx, e, c.pool.dialer, req, err)
	switch {
	case drain.What(said).Verdict != queue.Hold:
		return said
	case broken:
		return drain.Down(said)
	}
	return fmt.Errorf("no answer, and it may have been sent: %w", said)
}

// sent reports whether something of the request was written. The connection writes nothing more of it.
func (e *exchange) sent() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conn == nil {
		return false
	}
	e.conn.out.Store(false)
	return e.conn.wrote.Load() != e.wrote
}
