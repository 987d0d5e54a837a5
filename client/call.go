package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

// Request is a request of Do.
type Request struct {
	Method string
	Path   string // with the query; see Path
	Header http.Header
	Body   any // is sent as JSON; nil for none
	// Repeatable allows retries. A GET is always repeatable.
	Repeatable bool
	// Wait is how long the server may wait before it answers.
	Wait time.Duration
}

// Do makes a call for which the package has no method. It decodes the answer into out, unless out is nil, and returns
// the headers of the answer, also of a refusal.
func (c *Client) Do(ctx context.Context, r *Request, out any) (http.Header, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = json.Marshal(r.Body); err != nil {
			return nil, fmt.Errorf("%w: encode the request: %w", ErrInvalid, err)
		}
	}
	return c.call(ctx, r, body, out)
}

// call is Do with an encoded body.
func (c *Client) call(ctx context.Context, r *Request, body []byte, out any) (http.Header, error) {
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout+r.Wait)
		defer cancel()
	}
	for n := 1; ; n++ {
		head, err := c.once(ctx, r, body, out)
		if err == nil || !r.Repeatable && r.Method != http.MethodGet || n >= c.tries || !repeatable(err) {
			return head, err
		}
		pause := pauseAfter(err, n)
		if end, limited := ctx.Deadline(); limited && time.Until(end) <= pause {
			return head, err
		}
		c.tell(Notice{Kind: NoticeRetry, Attempt: n, Err: err, Pause: pause})
		if sleep(ctx, pause) != nil {
			return head, c.unreachable(ctx, ctx.Err())
		}
	}
}

// pauseAfter returns how long to wait after the n-th failure in a row.
func pauseAfter(err error, n int) time.Duration {
	most := min(10*time.Second, 100*time.Millisecond<<min(n-1, 10))
	pause := rand.N(most)
	var p *Problem
	if errors.As(err, &p) {
		pause = max(pause, p.RetryAfter())
	}
	return pause
}

// lastAnswer is how long a request may still be answered after its caller has gone, so that what it brings is given
// back.
const lastAnswer = 200 * time.Millisecond

// outlast returns a context that ends a while after ctx.
func outlast(ctx context.Context, while time.Duration) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(while, cancel) })
	return later, func() {
		stop()
		cancel()
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// once makes one attempt.
func (c *Client) once(ctx context.Context, r *Request, body []byte, out any) (http.Header, error) {
	head := r.Header
	if body != nil {
		head = r.Header.Clone()
		if head == nil {
			head = http.Header{}
		}
		head.Set("Content-Type", "application/json")
	}
	resp, answered, err := c.open(ctx, r.Method, r.Path, head, bytes.NewReader(body))
	if err != nil {
		return answered, err
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
			"%s %s: the answer cannot be read, is this an ingress? %w", r.Method, c.shown+c.mask(r.Path), err,
		)
	}
	if keeper, ok := out.(interface{ keep(json.RawMessage) }); ok {
		keeper.keep(text)
	}
	return resp.Header, nil
}

// Open makes a call once, with any body, and returns the answer, which the caller must close. Any status but 2xx is an
// error. The time is limited only by ctx.
func (c *Client) Open(
	ctx context.Context, method, path string, head http.Header, body io.Reader,
) (*http.Response, error) {
	resp, _, err := c.open(ctx, method, path, head, body)
	return resp, err
}

// open is Open that also returns the headers of a refusal. If the token is refused, and there is another one, the
// request is sent again.
func (c *Client) open(
	ctx context.Context, method, path string, head http.Header, body io.Reader,
) (*http.Response, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, nil, fmt.Errorf("make the request: %w", err)
	}
	for name, values := range head {
		req.Header[name] = values
	}
	req.Header.Set("User-Agent", c.agent)
	if trace, ok := ctx.Value(traceKey{}).(string); ok {
		req.Header.Set("Traceparent", trace)
	}
	if c.before != nil {
		c.before(req)
	}
	token, err := c.token.get(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	for again := false; ; again = true {
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := c.http.Do(req)
		if err != nil {
			return nil, nil, c.unreachable(ctx, err)
		}
		if resp.StatusCode/100 == 2 {
			return resp, resp.Header, nil
		}
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // an incomplete body is shown too
		_ = resp.Body.Close()
		problem := problemOf(resp, text)
		if again || resp.StatusCode != http.StatusUnauthorized || body != nil && req.GetBody == nil {
			return nil, resp.Header, problem
		}
		next, err := c.token.get(ctx, token)
		if err != nil || next == token {
			return nil, resp.Header, problem
		}
		token = next
		if req = req.Clone(ctx); req.GetBody != nil {
			req.Body, _ = req.GetBody() // a reader of bytes has no errors
		}
	}
}

type traceKey struct{}

// WithTraceparent returns a context whose calls have the header traceparent, in the format of W3C Trace Context.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	return context.WithValue(ctx, traceKey{}, traceparent)
}

// errSilent is the cause of the end of a stream on which nothing came.
var errSilent = fmt.Errorf("nothing came: %w", context.DeadlineExceeded)

// unreachable returns an *Unreachable, unless the caller canceled the request.
func (c *Client) unreachable(ctx context.Context, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), errSilent):
		err = errSilent
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case ctx.Err() != nil:
		err = ctx.Err()
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return &Unreachable{URL: c.shown, Err: err, Advice: c.advice}
}
