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

// MaxAnswerBytes is the maximum number of bytes of an answer's body that a Client reads.
const MaxAnswerBytes = 512 << 10

// Client makes the requests of targets with an HTTP API, each at its departure.
type Client struct {
	sender *Sender
	pool   *pool
}

// Answer is a receiver's answer.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // at most its first MaxAnswerBytes
	Cut    bool   // the body was longer, or broke off
}

// NewClient returns a Client. Close it after the last request has ended.
func NewClient(o Options) *Client {
	s := New(o)
	p, _ := s.pools.of(Default()) // without TLS settings there is no error
	// Shorter than receivers keep connections: a request on a connection that is just being closed may or may not arrive.
	p.transport.IdleConnTimeout = 15 * time.Second
	return &Client{s, p}
}

// Close closes idle connections.
func (c *Client) Close() error { return c.sender.Close() }

// Do waits for a connection and in the gate, makes a request and reads its answer, within a timeout from the departure.
// Its error is for a drain.Handler to return. An error marked drain.Unknown means that the receiver may have the
// request; with any other error it does not.
func (c *Client) Do(ctx context.Context, gate drain.Gate, timeout time.Duration, req *http.Request) (*Answer, error) {
	e := newExchange(ctx, gate, timeout)
	defer e.end()
	// A receiver ignores a request that was not fully written, because its length is given.
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

// unanswered returns the error of a request without an answer.
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

// sent reports whether any byte of the request was written. After that the connection writes nothing more of it.
func (e *exchange) sent() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conn == nil {
		return false
	}
	e.conn.out.Store(false)
	return e.conn.wrote.Load() != e.wrote
}
