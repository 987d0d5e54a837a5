package httptarget

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
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
	p.idleFor = 15 * time.Second
	return &Client{s, p}
}

// Close closes idle connections.
func (c *Client) Close() error { return c.sender.Close() }

// Do waits for a connection and in the gate, makes a request and reads its answer, within a timeout from the departure.
// Its error is for a drain.Handler to return. An error marked drain.Unknown means that the receiver may have the
// request; with any other error it does not.
func (c *Client) Do(ctx context.Context, gate drain.Gate, timeout time.Duration, req *http.Request) (*Answer, error) {
	var head bytes.Buffer
	if err := req.Write(&head); err != nil {
		return nil, drain.Down(err)
	}
	e := call{
		ctx: ctx, gate: gate, timeout: timeout, pool: c.pool,
		out: outgoing{to: placeOf(req.URL), head: head.Bytes(), request: req},
	}
	answer, err := e.do() //nolint:bodyclose // end closes the connection
	if err != nil {
		e.end(nil, false)
		return nil, e.unanswered(err)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, MaxAnswerBytes+1))
	cut := err != nil || len(body) > MaxAnswerBytes
	e.end(answer, !cut)
	return &Answer{
		Status: answer.StatusCode, Header: answer.Header, Body: body[:min(len(body), MaxAnswerBytes)], Cut: cut,
	}, nil
}

// unanswered returns the error of a Client's request without an answer. A receiver ignores a request that was not fully
// written, because its length is given.
func (c *call) unanswered(err error) error {
	said := c.explain(err)
	switch {
	case drain.What(said).Verdict != queue.Hold:
		return said
	case c.broken:
		return drain.Down(said)
	}
	return fmt.Errorf("no answer, and it may have been sent: %w", said)
}
