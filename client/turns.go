package client

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Turn waits for a turn of a pull queue, and returns how long it waited at the server; 0 waits for at most 30 s. When
// it returns, start. If the turn would not come in time, the error is a *Problem with reason no_turn, at once. If ctx
// ends, the next caller gets the place.
func (c *Client) Turn(ctx context.Context, queue string, wait time.Duration) (waited time.Duration, err error) {
	if wait == 0 {
		wait = 30 * time.Second
	}
	var turn struct {
		WaitedMS int64 `json:"waited_ms"`
	}
	_, err = c.Do(ctx, &Request{
		Method: http.MethodPost, Path: queuePath(queue, "turns"), Wait: wait, Repeatable: true,
		Body: map[string]string{"wait": wait.String()},
	}, &turn)
	return milliseconds(turn.WaitedMS), err
}

// Throttle stops a queue for a while, since the provider asked for it. It returns when the queue continues.
func (c *Client) Throttle(
	ctx context.Context, queue string, after time.Duration, reason string,
) (until time.Time, err error) {
	var answer struct {
		Until time.Time `json:"until"`
	}
	body := map[string]string{"after": after.String()}
	if reason != "" {
		body["reason"] = clip(reason)
	}
	r := &Request{Method: http.MethodPost, Path: queuePath(queue, "throttle"), Body: body, Repeatable: true}
	_, err = c.Do(ctx, r, &answer)
	return answer.Until, err
}

// Transport is an http.RoundTripper whose requests wait for their turns in a pull queue. If the provider answers 429 or
// 503 with Retry-After, the Transport stops the queue for that time, for all programs that use it. After a 429 without
// Retry-After, this is 1 s.
type Transport struct {
	Client *Client
	Queue  string
	// Wait is the maximum wait for a turn; 0 is 30 s.
	Wait time.Duration
	// Base sends the requests; nil is http.DefaultTransport.
	Base http.RoundTripper
}

// reporting is how long a Transport tries to report that the provider asked for a break.
const reporting = 5 * time.Second

// RoundTrip implements http.RoundTripper. If the turn would not come in time, the error is a *Problem.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	if _, err := t.Client.Turn(r.Context(), t.Queue, t.Wait); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	resp, err := base.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return resp, err
	}
	after := retryAfter(resp.Header)
	if after == 0 && resp.StatusCode == http.StatusTooManyRequests {
		after = time.Second
	}
	if after > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), reporting)
		defer cancel()
		reason := fmt.Sprintf("%s answered %s", r.URL.Host, resp.Status)
		if _, err := t.Client.Throttle(ctx, t.Queue, min(after, 24*time.Hour), reason); err != nil {
			t.Client.tell(Notice{Kind: NoticeThrottle, Queue: t.Queue, Err: err})
		}
	}
	return resp, nil
}
