package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

func (j *JobInfo) keep(raw json.RawMessage)  { j.Raw = raw }
func (q *Queue) keep(raw json.RawMessage)    { q.Raw = raw }
func (f *Forecast) keep(raw json.RawMessage) { f.Raw = raw }

// Job returns a job.
func (c *Client) Job(ctx context.Context, queue, id string) (*JobInfo, error) {
	j := &JobInfo{}
	_, err := c.Do(ctx, &Request{Method: http.MethodGet, Path: queuePath(queue, "jobs", id)}, j)
	return j, err
}

// List selects jobs.
type List struct {
	State  State // required
	Lane   *string
	Reason string    // only dead and held jobs with this text in their reason
	Before time.Time // only dead and held jobs that ended, or were held, before
	Since  time.Time
	// Payload asks for payloads too, on smaller pages.
	Payload bool
}

// Jobs yields the jobs in a state, page by page. After an error it ends.
func (c *Client) Jobs(ctx context.Context, queue string, l List) iter.Seq2[*JobInfo, error] {
	q := url.Values{"state": {string(l.State)}, "limit": {"500"}}
	if l.Lane != nil {
		q.Set("lane", *l.Lane)
	}
	if l.Reason != "" {
		q.Set("reason", l.Reason)
	}
	for name, at := range map[string]time.Time{"before": l.Before, "since": l.Since} {
		if !at.IsZero() {
			q.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	if l.Payload {
		q.Set("payload", "true")
		q.Set("limit", strconv.Itoa(20))
	}
	return func(yield func(*JobInfo, error) bool) {
		for {
			var page struct {
				Jobs []JobInfo `json:"jobs"`
				Next string    `json:"next"`
			}
			path := queuePath(queue, "jobs") + "?" + q.Encode()
			if _, err := c.Do(ctx, &Request{Method: http.MethodGet, Path: path}, &page); err != nil {
				yield(nil, err)
				return
			}
			for i := range page.Jobs {
				if !yield(&page.Jobs[i], nil) {
					return
				}
			}
			if page.Next == "" || page.Next == q.Get("after") {
				return
			}
			q.Set("after", page.Next)
		}
	}
}

// Cancel cancels a job that has not departed. If it has, the error is a *Problem with reason not_cancellable and the
// job's State.
func (c *Client) Cancel(ctx context.Context, queue, id string) error {
	r := &Request{Method: http.MethodPost, Path: queuePath(queue, "jobs", id, "cancel"), Repeatable: true}
	_, err := c.Do(ctx, r, nil)
	return err
}

// Wait waits until a job has ended, or is held, and returns it. While the job's departure is far away, it asks every
// 5 s, since the server's clock may be set ahead.
func (c *Client) Wait(ctx context.Context, queue, id string) (*JobInfo, error) {
	for pause := 100 * time.Millisecond; ; pause = min(pause*3/2, 5*time.Second) {
		j, err := c.Job(ctx, queue, id)
		if err != nil {
			return j, err
		}
		switch j.State {
		case StateDelivered, StateDead, StateCancelled, StateExpired, StateHeld:
			return j, nil
		}
		next := pause
		if j.ETA != nil {
			next = max(next, min(time.Until(j.ETA.At)+50*time.Millisecond, 5*time.Second))
		}
		if err := sleep(ctx, next); err != nil {
			return j, err
		}
	}
}
