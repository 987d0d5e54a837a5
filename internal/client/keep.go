package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

// List selects jobs.
type List struct {
	State  string
	Lane   *string // only this lane
	Reason string  // only dead and held jobs with this reason
	Before *time.Time
	Since  *time.Time
	After  string
	Limit  int
	// Payload asks for payloads. A page then has at most MaxCarried jobs.
	Payload bool
}

// MaxCarried is the maximum number of jobs on a page with payloads.
const MaxCarried = 20

// Jobs returns a page of jobs.
func (c *Client) Jobs(ctx context.Context, queueName string, l List) (wire.Jobs, error) {
	q := url.Values{"state": {l.State}, "limit": {strconv.Itoa(l.Limit)}}
	if l.Lane != nil {
		q.Set("lane", *l.Lane)
	}
	if l.Reason != "" {
		q.Set("reason", l.Reason)
	}
	for name, at := range map[string]*time.Time{"before": l.Before, "since": l.Since} {
		if at != nil {
			q.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	if l.Payload {
		q.Set("payload", "true")
		q.Set("limit", strconv.Itoa(min(l.Limit, MaxCarried)))
	}
	if l.After != "" {
		q.Set("after", l.After)
	}
	var page wire.Jobs
	_, err := c.do(ctx, http.MethodGet, queuePath(queueName, "jobs")+"?"+q.Encode(), nil, nil, &page)
	return page, err
}

// Find selects jobs of all queues.
type Find struct {
	ID     string
	Prefix string // of the ids, in place of ID
	Lane   string
	After  string
	Limit  int
}

// Find returns a page of a search for jobs. It may have fewer jobs than the limit, and still have a next.
func (c *Client) Find(ctx context.Context, f Find) (page wire.Jobs, err error) {
	q := url.Values{"limit": {strconv.Itoa(f.Limit)}}
	for name, value := range map[string]string{"id": f.ID, "prefix": f.Prefix, "lane": f.Lane, "after": f.After} {
		if value != "" {
			q.Set(name, value)
		}
	}
	_, err = c.do(ctx, http.MethodGet, "/v1/jobs?"+q.Encode(), nil, nil, &page)
	return page, err
}

// DeadQueues returns the queues with dead jobs, deleted queues included.
func (c *Client) DeadQueues(ctx context.Context) ([]wire.DeadQueue, error) {
	all := []wire.DeadQueue{}
	for q := (url.Values{"limit": {strconv.Itoa(page)}}); ; {
		var answer wire.DeadQueues
		if _, err := c.do(ctx, http.MethodGet, "/v1/dead?"+q.Encode(), nil, nil, &answer); err != nil {
			return nil, err
		}
		if all = append(all, answer.Queues...); answer.Next == "" {
			return all, nil
		}
		q.Set("after", answer.Next)
	}
}

// Dead returns the number of a queue's dead jobs, also if the queue was deleted.
func (c *Client) Dead(ctx context.Context, queueName string) (int64, error) {
	var answer wire.DeadQueues
	_, err := c.do(ctx, http.MethodGet, "/v1/dead?"+url.Values{"queue": {queueName}}.Encode(), nil, nil, &answer)
	if err != nil || len(answer.Queues) == 0 {
		return 0, err
	}
	return answer.Queues[0].Dead, nil
}

// Replay returns dead jobs to their queue. One call may handle only a part; see Next of the result.
func (c *Client) Replay(ctx context.Context, queueName string, choice wire.Choice) (wire.Decided, error) {
	return c.decide(ctx, queueName, "replay", choice)
}

// Forget deletes dead jobs. One call may handle only a part.
func (c *Client) Forget(ctx context.Context, queueName string, choice wire.Choice) (wire.Decided, error) {
	return c.decide(ctx, queueName, "forget", choice)
}

func (c *Client) decide(ctx context.Context, queueName, what string, choice wire.Choice) (d wire.Decided, err error) {
	_, err = c.do(ctx, http.MethodPost, queuePath(queueName, what), nil, choice, &d)
	return d, err
}

// Decide decides about held jobs. One call may handle only a part.
func (c *Client) Decide(ctx context.Context, queueName string, decision wire.Decision) (d wire.Decided, err error) {
	_, err = c.do(ctx, http.MethodPost, queuePath(queueName, "decide"), nil, decision, &d)
	return d, err
}

// Purge cancels jobs that have not departed. One call may handle only a part.
func (c *Client) Purge(ctx context.Context, queueName string, r wire.PurgeRequest) (done wire.Purged, err error) {
	_, err = c.do(ctx, http.MethodPost, queuePath(queueName, "purge"), nil, r, &done)
	return done, err
}
