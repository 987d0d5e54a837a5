// Package client speaks the HTTP API of an ingress.
//
// It promises to tell apart what a caller must tell apart: a *Problem is the
// server's refusal, with its machine-readable reason; an *Unreachable means that
// no answer came, and that repeating is safe for everything that carries an id.
//
// What it changes is by whom audit.WithNote says.
//
// It refuses to retry by itself: who waits, and how long, is
// the caller's decision.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

// DefaultURL is where an ingress listens unless told otherwise.
const DefaultURL = "http://127.0.0.1:8080"

// maxAnswer bounds what is read of an answer that is not a stream.
const maxAnswer = 64 << 20

// Client is safe for use by many goroutines.
type Client struct {
	base  string
	shown string // base for people: it may have a password
	http  *http.Client
	agent string
}

// New returns a client of the ingress at base, such as http://127.0.0.1:8080, or unix:///PATH for a socket that the
// transport of hc dials. It does not connect. A nil hc means http.DefaultClient's behaviour without a
// time limit; each call has its context.
func New(base string, hc *http.Client) (*Client, error) {
	shown := secrets.MaskURL(base)
	u, err := url.Parse(base)
	socket := err == nil && u.Scheme == "unix" && u.Host == "" && u.Path != "" && hc != nil
	if err != nil || !socket && (u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("server %q: must be a URL such as %s", shown, DefaultURL)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("server %q: must not have a query or fragment", shown)
	}
	if socket {
		base = "http://localhost"
	}
	if hc == nil {
		hc = &http.Client{}
	}
	return &Client{
		base: strings.TrimRight(base, "/"), shown: strings.TrimRight(shown, "/"), http: hc, agent: "penstock",
	}, nil
}

// Problem is a refusal by the server (RFC 9457).
type Problem struct {
	Status       int    `json:"status"`
	Title        string `json:"title"`
	Reason       string `json:"reason"`
	Detail       string `json:"detail"`
	Field        string `json:"field"`
	ID           string `json:"id"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	// ETA is when a job would depart that is worthless by then.
	ETA *queue.ETA `json:"eta"`
	// State is where a job is that could not be cancelled.
	State string `json:"state"`
	// Revision is the present one when another was expected.
	Revision int64 `json:"revision"`
	// Rule is the one that refuses, and the others what it said. Limit is in bytes where there is no Rule.
	Rule         string `json:"rule"`
	Limit        int64  `json:"limit"`
	Remaining    int64  `json:"remaining"`
	ResetAfterMS int64  `json:"reset_after_ms"`
	Away         string `json:"away"`
	// Queues are some of those that ask a rule which was to be removed.
	Queues []string `json:"queues"`
}

func (p *Problem) Error() string {
	detail := p.Detail
	if detail == "" {
		detail = p.Title
	}
	if p.Field != "" {
		detail = p.Field + ": " + detail
	}
	return fmt.Sprintf("%s (%s, HTTP %d)", detail, p.Reason, p.Status)
}

// Again reports whether asking again, not before RetryAfter, may help: there was no room, or nothing could be decided.
func (p *Problem) Again() bool { return (&queue.Refusal{Status: p.Status}).Again() }

// RetryAfter is when to come back, 0 if the server did not say.
func (p *Problem) RetryAfter() time.Duration {
	return time.Duration(p.RetryAfterMS) * time.Millisecond
}

// Unreachable means that no answer came, or only a part of one.
type Unreachable struct {
	URL string
	Err error
}

func (e *Unreachable) Error() string {
	var op *net.OpError
	if errors.As(e.Err, &op) && op.Op == "dial" {
		return fmt.Sprintf(
			"nothing answers at %s (%v): is an ingress running there? \"penstock up\" starts one; --server or PENSTOCK_URL "+
				"names another",
			e.URL, op.Err,
		)
	}
	return fmt.Sprintf("no answer from %s: %v", e.URL, e.Err)
}

func (e *Unreachable) Unwrap() error { return e.Err }

// do sends a request; in is encoded as JSON if it is not nil, and the answer is
// decoded into out if that is not nil. The headers of the answer are returned.
func (c *Client) do(ctx context.Context, method, path string, head http.Header, in, out any) (http.Header, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	req, err := c.request(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range head {
		req.Header[name] = values
	}
	resp, err := c.send(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if out == nil {
		return resp.Header, nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf(
			"%s %s: the answer cannot be read, is this an ingress? %w", method, c.shown+secrets.MaskURL(path), err,
		)
	}
	return resp.Header, nil
}

func (c *Client) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("User-Agent", c.agent)
	if actor, err := audit.ActorOf(ctx); err == nil && actor.Note != "" && method != http.MethodGet {
		req.Header.Set("Penstock-By", actor.Note)
	}
	return req, nil
}

// send returns the response to a request if it is a 2xx, else the problem.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(req.Context(), err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // what there is of it is shown
	return nil, problemOf(resp, text)
}

// problemOf reads a refusal; one that is not Penstock's, a proxy's say, is made
// into one as well as it can be.
func problemOf(resp *http.Response, text []byte) *Problem {
	p := &Problem{}
	if json.Unmarshal(text, p) != nil || p.Reason == "" && p.Detail == "" && p.Title == "" {
		p = &Problem{Title: http.StatusText(resp.StatusCode), Detail: strings.TrimSpace(string(text[:min(len(text), 200)]))}
	}
	if p.Reason == "" {
		p.Reason = "http_error"
	}
	p.Status = resp.StatusCode
	if seconds, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 32); err == nil && p.RetryAfterMS == 0 {
		p.RetryAfterMS = seconds * 1000
	}
	return p
}

// unreachable keeps a caller's own ending apart from the server's silence.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil && errors.Is(cause, context.Canceled) {
		return cause
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return &Unreachable{URL: c.shown, Err: err}
}

func queuePath(name string, more ...string) string { return path("/v1/queues/", name, more) }

func path(root, name string, more []string) string {
	path := root + url.PathEscape(name)
	for _, part := range more {
		path += "/" + url.PathEscape(part)
	}
	return path
}
