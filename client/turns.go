package client

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"
)

// Turn waits for a turn of a pull queue, and returns how long it waited at the server; 0 waits for at most 30 s. When
// it returns, start. If the turn would not come in time, the error is a *Problem with reason no_turn, at once. If ctx
// ends, the next caller gets the place.
func (c *Client) Turn(ctx context.Context, queue string, wait time.Duration) (waited time.Duration, err error) {
	turn, err := c.TurnWith(ctx, queue, TurnOptions{Wait: wait})
	if err != nil {
		return 0, err
	}
	return turn.Waited, nil
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
	// Costs returns what a request will use of units that limits of the queue count, such as tokens. It must not read the
	// body; GetBody returns a copy. Nil, and a nil result, mean the queue's estimate.
	Costs func(*http.Request) map[string]int64
	// Actual returns what a request used, from the response and its body as far as the program read it. It is called
	// once the program has read the whole body or closes it. With a nil result the charge stands. A body of which more
	// than 1 MiB was read is not passed. The report follows in the background; failures are notices.
	Actual func(response *http.Response, body []byte) map[string]int64
	// ReportWithin is how long a response may take, with Actual; 0 is 10 minutes.
	ReportWithin time.Duration
}

// reporting is how long a Transport tries to report that the provider asked for a break, or what a request used.
const reporting = 5 * time.Second

// RoundTrip implements http.RoundTripper. If the turn would not come in time, the error is a *Problem.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	o := TurnOptions{Wait: t.Wait}
	if t.Costs != nil {
		o.Costs = t.Costs(r)
	}
	if t.Actual != nil {
		o.ReportWithin = cmp.Or(t.ReportWithin, 10*time.Minute)
	}
	turn, err := t.Client.TurnWith(r.Context(), t.Queue, o)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	resp, err := base.RoundTrip(r)
	switch {
	case err != nil:
		go turn.closeSoon(r.Context(), nil)
	case t.Actual != nil:
		resp.Body = meter(resp, t.Actual, func(actual map[string]int64) { go turn.closeSoon(r.Context(), actual) })
	}
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
