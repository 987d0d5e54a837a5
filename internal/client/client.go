// Package client is a client of the HTTP API of an ingress.
//
// It distinguishes two failures. A *Problem is a refusal by the server, with a machine-readable reason. An *Unreachable
// means that no answer came; repeating is then safe for every request with an id.
//
// Changes are recorded with the note of audit.WithNote in the context. The package never retries by itself: whether and
// how long to wait is the caller's decision.
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

// DefaultURL is the default address of an ingress.
const DefaultURL = "http://127.0.0.1:8080"

// maxAnswer is the size limit of an answer that is not a stream.
const maxAnswer = 64 << 20

// Client is a client of one ingress. It is safe for use by many goroutines.
type Client struct {
	base  string
	shown string // base with its password masked, for messages
	http  *http.Client
	agent string
}

// New returns a client of the ingress at base, such as http://127.0.0.1:8080, or unix:///PATH for a socket that the
// transport of hc dials. It does not connect. A nil hc behaves like http.DefaultClient, without a timeout; each call
// has its own context.
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
	// ETA is when an expiring job would have departed.
	ETA *queue.ETA `json:"eta"`
	// State is the state of a job that could not be cancelled.
	State string `json:"state"`
	// Revision is the present revision, if another was expected.
	Revision int64 `json:"revision"`
	// Rule is the rule that refused; the following fields are its answer. Without a Rule, Limit is in bytes.
	Rule         string `json:"rule"`
	Limit        int64  `json:"limit"`
	Remaining    int64  `json:"remaining"`
	ResetAfterMS int64  `json:"reset_after_ms"`
	Away         string `json:"away"`
	// Queues are some of the queues that use a rule that was to be deleted.
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

// Again reports whether a retry, not before RetryAfter, may help: there was no room, or nothing could be decided.
func (p *Problem) Again() bool { return (&queue.Refusal{Status: p.Status}).Again() }

// RetryAfter returns how long to wait before a retry, 0 if the server did not say.
func (p *Problem) RetryAfter() time.Duration {
	return time.Duration(p.RetryAfterMS) * time.Millisecond
}

// Unreachable means that no answer came, or only part of one.
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

// do sends a request with in as its JSON body, unless in is nil. It decodes the answer into out, unless out is nil, and
// returns the answer's headers.
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

// send returns a 2xx response; any other status is an error.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(req.Context(), err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // an incomplete body is shown too
	return nil, problemOf(resp, text)
}

// problemOf parses a refusal. A refusal that is not Penstock's, such as a proxy's, is converted as well as possible.
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

// unreachable returns an *Unreachable, unless the caller canceled the request.
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
