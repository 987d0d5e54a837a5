package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/penstock/penstock/client"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// page is the size of a page.
const page = 1000

// Queues returns all queues, by name.
func (c *Client) Queues(ctx context.Context) ([]wire.Queue, error) {
	all := []wire.Queue{}
	after := ""
	for {
		var answer wire.Queues
		query := url.Values{"limit": {strconv.Itoa(page)}}
		if after != "" {
			query.Set("after", after)
		}
		if _, err := c.do(ctx, http.MethodGet, "/v1/queues?"+query.Encode(), nil, nil, &answer); err != nil {
			return nil, err
		}
		for i := range answer.Queues {
			if err := c.whole(&answer.Queues[i]); err != nil {
				return nil, err
			}
		}
		all = append(all, answer.Queues...)
		if answer.Next == "" || answer.Next == after {
			return all, nil
		}
		after = answer.Next
	}
}

// QueueNames returns one page of queue names in order, from the first name that starts with begun.
func (c *Client) QueueNames(ctx context.Context, begun string) ([]string, error) {
	query := url.Values{"limit": {strconv.Itoa(page)}}
	if after := before(begun); after != "" {
		query.Set("after", after)
	}
	var answer wire.Queues
	if _, err := c.do(ctx, http.MethodGet, "/v1/queues?"+query.Encode(), nil, nil, &answer); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(answer.Queues))
	for i := range answer.Queues {
		names = append(names, answer.Queues[i].Name)
	}
	return names, nil
}

// before returns a text that sorts directly before all names that start with begun.
func before(begun string) string {
	n := len(begun)
	if n == 0 {
		return ""
	}
	return begun[:n-1] + string(begun[n-1]-1) + "~"
}

// Queue returns a queue, or a *Problem with reason unknown_queue.
func (c *Client) Queue(ctx context.Context, name string) (wire.Queue, error) {
	return c.queue(ctx, http.MethodGet, queuePath(name), nil)
}

// queue sends a request that is answered with a whole queue.
func (c *Client) queue(ctx context.Context, method, path string, in any) (wire.Queue, error) {
	var q wire.Queue
	if _, err := c.do(ctx, method, path, nil, in, &q); err != nil {
		return q, err
	}
	return q, c.whole(&q)
}

// whole refuses an answer without the queue's state.
func (c *Client) whole(q *wire.Queue) error {
	if q.Flow == nil {
		return fmt.Errorf(
			"the answer lacks the state of queue %s, is %s an ingress?", clip.Quote(q.Name, 80), c.Address(),
		)
	}
	return nil
}

// Conditions of a change, beside a revision.
const (
	// Always makes the change at any revision.
	Always = queue.AnyRevision
	// Absent makes the change only if nothing exists yet.
	Absent = 0
)

func condition(revision int64) http.Header {
	switch revision {
	case Always:
		return nil
	case Absent:
		return client.IfAbsent().Header()
	}
	return client.IfRevision(revision).Header()
}

// Put creates a queue or updates its spec, given as JSON, if it is at the given revision. Otherwise it returns a
// *Problem with reason revision_mismatch. The result's Flow is nil if the queue could not be read after the change.
func (c *Client) Put(ctx context.Context, name string, spec json.RawMessage, revision int64) (wire.Queue, error) {
	var q wire.Queue
	_, err := c.do(ctx, http.MethodPut, queuePath(name), condition(revision), spec, &q)
	return q, err
}

// Delete deletes a queue. Without force, a queue that holds jobs is refused: a *Problem with reason not_empty.
func (c *Client) Delete(ctx context.Context, name string, revision int64, force bool) error {
	path := queuePath(name)
	if force {
		path += "?force=true"
	}
	_, err := c.do(ctx, http.MethodDelete, path, condition(revision), nil, nil)
	return err
}

// Pause pauses a queue until an instant, or until it is resumed if that is zero.
func (c *Client) Pause(ctx context.Context, name, reason string, until time.Time) (wire.Queue, error) {
	return c.queue(ctx, http.MethodPost, queuePath(name, "pause"), client.PauseRequest{Reason: reason, Until: until})
}

// Resume resumes a queue.
func (c *Client) Resume(ctx context.Context, name string) (wire.Queue, error) {
	return c.queue(ctx, http.MethodPost, queuePath(name, "resume"), nil)
}

// Rollback rolls a queue back to an earlier revision, if it is at the given revision, or shows that spec. A revision
// that is not recorded is a *Problem with reason unknown_revision.
func (c *Client) Rollback(
	ctx context.Context, name string, ask wire.RollbackRequest, revision int64,
) (wire.Queue, error) {
	var q wire.Queue
	_, err := c.do(ctx, http.MethodPost, queuePath(name, "rollback"), condition(revision), ask, &q)
	return q, err
}

// Quote returns what would happen to jobs if they were appended now. It appends none.
func (c *Client) Quote(ctx context.Context, name string, ask wire.QuoteRequest) (wire.Quote, error) {
	var q wire.Quote
	_, err := c.do(ctx, http.MethodPost, queuePath(name, "quote"), nil, ask, &q)
	return q, err
}

// Timetable returns the coming departures of a queue.
func (c *Client) Timetable(ctx context.Context, name string, span time.Duration) (wire.Timetable, error) {
	var t wire.Timetable
	ask := "?for=" + url.QueryEscape(span.String())
	_, err := c.do(ctx, http.MethodGet, queuePath(name, "timetable")+ask, nil, nil, &t)
	return t, err
}

// Forecast returns when the jobs of a queue leave if the queue had the given settings, each as FIELD=VALUE.
func (c *Client) Forecast(ctx context.Context, name string, settings ...string) (wire.QueueForecast, error) {
	var f wire.QueueForecast
	ask := ""
	if len(settings) > 0 {
		ask = "?" + url.Values{"set": settings}.Encode()
	}
	_, err := c.do(ctx, http.MethodGet, queuePath(name, "forecast")+ask, nil, nil, &f)
	return f, err
}

// Lanes returns a page of the lanes of a queue, the slowest first, from an offset on.
func (c *Client) Lanes(ctx context.Context, name string, offset, limit int) (v wire.Lanes, err error) {
	ask := url.Values{"offset": {strconv.Itoa(offset)}, "limit": {strconv.Itoa(limit)}}
	_, err = c.do(ctx, http.MethodGet, queuePath(name, "lanes")+"?"+ask.Encode(), nil, nil, &v)
	return v, err
}

// Batches returns a page of the batches of a queue, after a label.
func (c *Client) Batches(ctx context.Context, queueName, after string, limit int) (page wire.Batches, err error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if after != "" {
		q.Set("after", after)
	}
	_, err = c.do(ctx, http.MethodGet, queuePath(queueName, "batches")+"?"+q.Encode(), nil, nil, &page)
	return page, err
}

// Batch returns a batch by its label.
func (c *Client) Batch(ctx context.Context, queueName, label string) (b wire.Batch, err error) {
	_, err = c.do(ctx, http.MethodGet, queuePath(queueName, "batches", label), nil, nil, &b)
	return b, err
}

// Job returns a job.
func (c *Client) Job(ctx context.Context, queueName, id string) (wire.Job, error) {
	var j wire.Job
	_, err := c.do(ctx, http.MethodGet, queuePath(queueName, "jobs", id), nil, nil, &j)
	return j, err
}

// Cancel cancels a job that has not departed. If it has, the error is a *Problem with reason not_cancellable and the
// job's State.
func (c *Client) Cancel(ctx context.Context, queueName, id string) (wire.Cancelled, error) {
	var j wire.Cancelled
	_, err := c.do(ctx, http.MethodPost, queuePath(queueName, "jobs", id, "cancel"), nil, nil, &j)
	return j, err
}

// Overview returns a page of all queues as of the ingress's last survey. The parameters are name, state, full, sort,
// offset and limit.
func (c *Client) Overview(ctx context.Context, ask url.Values) (o wire.Overview, err error) {
	_, err = c.do(ctx, http.MethodGet, "/v1/overview?"+ask.Encode(), nil, nil, &o)
	return o, err
}

// Rows returns all queues as of the ingress's last survey, by name.
func (c *Client) Rows(ctx context.Context) (all []wire.QueueRow, err error) {
	for offset := 0; ; {
		o, err := c.Overview(ctx, url.Values{"limit": {strconv.Itoa(page)}, "offset": {strconv.Itoa(offset)}})
		if err != nil {
			return nil, err
		}
		all = append(all, o.Queues...)
		if o.Next <= offset {
			return all, nil
		}
		offset = o.Next
	}
}

// Attention returns a page of the problems that need a person, the worst first: of one queue, or of all if name is
// empty.
func (c *Client) Attention(ctx context.Context, name string, offset, limit int) (a wire.Attention, err error) {
	ask := url.Values{"queue": {name}, "offset": {strconv.Itoa(offset)}, "limit": {strconv.Itoa(limit)}}
	_, err = c.do(ctx, http.MethodGet, "/v1/attention?"+ask.Encode(), nil, nil, &a)
	return a, err
}

// Store returns the state of the store and its drainers.
func (c *Client) Store(ctx context.Context) (s wire.Store, err error) {
	_, err = c.do(ctx, http.MethodGet, "/v1/store", nil, nil, &s)
	return s, err
}

// Drainers returns the drainers that were recently active.
func (c *Client) Drainers(ctx context.Context) (wire.Drainers, error) {
	var answer wire.Drainers
	_, err := c.do(ctx, http.MethodGet, "/v1/drainers", nil, nil, &answer)
	return answer, err
}

// Ready returns nil if the ingress can accept at least some jobs now, else why not.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodGet, "/readyz", nil, nil, nil)
	return err
}

// Readiness is Ready that also returns the defects of a degraded ingress.
func (c *Client) Readiness(ctx context.Context) (wire.Readiness, error) {
	var answer wire.Readiness
	_, err := c.do(ctx, http.MethodGet, "/readyz", nil, nil, &answer)
	return answer, err
}
