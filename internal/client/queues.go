package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// page is how many queues are asked for at once.
const page = 1000

// Queues returns all queues in order of name.
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

// QueueNames returns names of queues in order, those that begin with begun and some
// that follow them: as many as one request answers.
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

// before is the last text before begun that no name begins with.
func before(begun string) string {
	n := len(begun)
	if n == 0 {
		return ""
	}
	return begun[:n-1] + string(begun[n-1]-1) + "~"
}

// Queue returns one queue. A *Problem with reason unknown_queue says that there
// is none.
func (c *Client) Queue(ctx context.Context, name string) (wire.Queue, error) {
	return c.queue(ctx, http.MethodGet, queuePath(name), nil)
}

// queue does what is answered by a whole queue.
func (c *Client) queue(ctx context.Context, method, path string, in any) (wire.Queue, error) {
	var q wire.Queue
	if _, err := c.do(ctx, method, path, nil, in, &q); err != nil {
		return q, err
	}
	return q, c.whole(&q)
}

// whole refuses a queue that is not told how it is doing.
func (c *Client) whole(q *wire.Queue) error {
	if q.Flow == nil {
		return fmt.Errorf(
			"the answer does not say how queue %s is doing, is %s an ingress?", clip.Quote(q.Name, 80), c.shown,
		)
	}
	return nil
}

// Conditions of a change, beside a revision.
const (
	// Always changes whatever is there.
	Always = queue.AnyRevision
	// Absent changes only if there is none.
	Absent = 0
)

func condition(revision int64) http.Header {
	switch revision {
	case Always:
		return nil
	case Absent:
		return http.Header{"If-None-Match": {"*"}}
	}
	return http.Header{"If-Match": {`"` + strconv.FormatInt(revision, 10) + `"`}}
}

// Put makes a queue or changes its spec, given as JSON, if it is at the given
// revision; a *Problem with reason revision_mismatch says that it is not. The
// queue's Flow is nil if the server could make the change and then not read it.
func (c *Client) Put(ctx context.Context, name string, spec json.RawMessage, revision int64) (wire.Queue, error) {
	var q wire.Queue
	_, err := c.do(ctx, http.MethodPut, queuePath(name), condition(revision), spec, &q)
	return q, err
}

// Delete removes a queue. Without force one that holds jobs is left alone: a
// *Problem with reason not_empty.
func (c *Client) Delete(ctx context.Context, name string, revision int64, force bool) error {
	path := queuePath(name)
	if force {
		path += "?force=true"
	}
	_, err := c.do(ctx, http.MethodDelete, path, condition(revision), nil, nil)
	return err
}

// Pause stops a queue's departures, until an instant if that is not zero.
func (c *Client) Pause(ctx context.Context, name, reason string, until time.Time) (wire.Queue, error) {
	return c.queue(ctx, http.MethodPost, queuePath(name, "pause"), struct {
		Reason string    `json:"reason,omitempty"`
		Until  time.Time `json:"until,omitzero"`
	}{reason, until})
}

// Resume lets them go on, at the rate.
func (c *Client) Resume(ctx context.Context, name string) (wire.Queue, error) {
	return c.queue(ctx, http.MethodPost, queuePath(name, "resume"), nil)
}

// Rollback puts an earlier spec of a queue again, if it is at the given revision, or shows it. A
// *Problem with reason unknown_revision says that it is not recorded.
func (c *Client) Rollback(
	ctx context.Context, name string, ask wire.RollbackRequest, revision int64,
) (wire.Queue, error) {
	var q wire.Queue
	_, err := c.do(ctx, http.MethodPost, queuePath(name, "rollback"), condition(revision), ask, &q)
	return q, err
}

// Quote tells what would become of jobs, and appends none.
func (c *Client) Quote(ctx context.Context, name string, ask wire.QuoteRequest) (wire.Quote, error) {
	var q wire.Quote
	_, err := c.do(ctx, http.MethodPost, queuePath(name, "quote"), nil, ask, &q)
	return q, err
}

// Timetable tells what leaves a queue in the time to come.
func (c *Client) Timetable(ctx context.Context, name string, span time.Duration) (wire.Timetable, error) {
	var t wire.Timetable
	ask := "?for=" + url.QueryEscape(span.String())
	_, err := c.do(ctx, http.MethodGet, queuePath(name, "timetable")+ask, nil, nil, &t)
	return t, err
}

// Job returns where a job is.
func (c *Client) Job(ctx context.Context, queueName, id string) (wire.Job, error) {
	var j wire.Job
	_, err := c.do(ctx, http.MethodGet, queuePath(queueName, "jobs", id), nil, nil, &j)
	return j, err
}

// Cancel takes a job back that has not left. A *Problem with reason not_cancellable says
// that it has, and its State where it is.
func (c *Client) Cancel(ctx context.Context, queueName, id string) (wire.Cancelled, error) {
	var j wire.Cancelled
	_, err := c.do(ctx, http.MethodPost, queuePath(queueName, "jobs", id, "cancel"), nil, nil, &j)
	return j, err
}

// Overview returns a page of all queues as the ingress last read them: by name, state, full, sort, offset and limit.
func (c *Client) Overview(ctx context.Context, ask url.Values) (o wire.Overview, err error) {
	_, err = c.do(ctx, http.MethodGet, "/v1/overview?"+ask.Encode(), nil, nil, &o)
	return o, err
}

// Store tells how full the store is, and who drains it.
func (c *Client) Store(ctx context.Context) (s wire.Store, err error) {
	_, err = c.do(ctx, http.MethodGet, "/v1/store", nil, nil, &s)
	return s, err
}

// Drainers tells which processes drained the store lately.
func (c *Client) Drainers(ctx context.Context) (wire.Drainers, error) {
	var answer wire.Drainers
	_, err := c.do(ctx, http.MethodGet, "/v1/drainers", nil, nil, &answer)
	return answer, err
}

// Ready reports whether the ingress can take jobs now, some at least; the error says why
// not.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodGet, "/readyz", nil, nil, nil)
	return err
}

// Readiness is Ready, with what the ingress goes without.
func (c *Client) Readiness(ctx context.Context) (wire.Readiness, error) {
	var answer wire.Readiness
	_, err := c.do(ctx, http.MethodGet, "/readyz", nil, nil, &answer)
	return answer, err
}
