package client

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Condition is a condition of a change: IfRevision or IfAbsent. A change with a condition is never repeated, since the
// repetition could fail because of the change itself.
type Condition struct{ name, value string }

// IfRevision makes a change only at a revision. Else the error is a *Problem with reason revision_mismatch.
func IfRevision(revision int64) Condition {
	return Condition{"If-Match", `"` + strconv.FormatInt(revision, 10) + `"`}
}

// IfAbsent makes a change only if nothing exists under the name.
func IfAbsent() Condition { return Condition{"If-None-Match", "*"} }

// Header returns the condition as headers of a request.
func (c Condition) Header() http.Header { return http.Header{c.name: {c.value}} }

func headerOf(conditions []Condition) http.Header {
	head := http.Header{}
	for _, c := range conditions {
		maps.Copy(head, c.Header())
	}
	return head
}

// PutQueue creates a queue, or replaces its settings. spec is a Spec, or anything else that encodes to its JSON. The
// result has no Status if the queue could not be read after the change.
func (c *Client) PutQueue(ctx context.Context, name string, spec any, conditions ...Condition) (*Queue, error) {
	return c.queue(ctx, http.MethodPut, queuePath(name), spec, conditions)
}

// queue makes a call that is answered with a queue.
func (c *Client) queue(ctx context.Context, method, path string, in any, conditions []Condition) (*Queue, error) {
	q := &Queue{}
	_, err := c.Do(ctx, &Request{
		Method: method, Path: path, Body: in, Header: headerOf(conditions), Repeatable: len(conditions) == 0,
	}, q)
	if err != nil {
		return nil, err
	}
	return q, nil
}

// Queue returns a queue: its settings, with secrets masked, and its state.
func (c *Client) Queue(ctx context.Context, name string) (*Queue, error) {
	return c.queue(ctx, http.MethodGet, queuePath(name), nil, nil)
}

// DeleteQueue deletes a queue. Without force, the queue must be empty. It is never repeated.
func (c *Client) DeleteQueue(ctx context.Context, name string, force bool, conditions ...Condition) error {
	path := queuePath(name)
	if force {
		path += "?force=true"
	}
	_, err := c.Do(ctx, &Request{Method: http.MethodDelete, Path: path, Header: headerOf(conditions)}, nil)
	return err
}

// Apply puts queues, parents before their children. It can be repeated: a queue that is as wanted does not change.
func (c *Client) Apply(ctx context.Context, specs map[string]Spec) error {
	for _, name := range slices.Sorted(maps.Keys(specs)) { // the name of a parent is the beginning of its children's
		spec := specs[name]
		if _, err := c.PutQueue(ctx, name, spec); err != nil {
			return fmt.Errorf("put queue %s: %w", name, err)
		}
	}
	return nil
}

// Pause pauses a queue until an instant, or until it is resumed if that is zero.
func (c *Client) Pause(ctx context.Context, name, reason string, until time.Time) (*Queue, error) {
	return c.queue(ctx, http.MethodPost, queuePath(name, "pause"), PauseRequest{reason, until}, nil)
}

// PauseRequest is the body of a pause.
type PauseRequest struct {
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until,omitzero"`
}

// Resume resumes a queue.
func (c *Client) Resume(ctx context.Context, name string) (*Queue, error) {
	return c.queue(ctx, http.MethodPost, queuePath(name, "resume"), nil, nil)
}

// Forecast returns when the jobs of a queue leave if no more are appended. The settings are assumed, each as
// FIELD=VALUE, such as rate=50/s.
func (c *Client) Forecast(ctx context.Context, name string, settings ...string) (*Forecast, error) {
	path := queuePath(name, "forecast")
	if len(settings) > 0 {
		path += "?" + url.Values{"set": settings}.Encode()
	}
	f := &Forecast{}
	_, err := c.Do(ctx, &Request{Method: http.MethodGet, Path: path}, f)
	return f, err
}
