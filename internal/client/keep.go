package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

// List says which jobs to list.
type List struct {
	State  string
	Lane   *string // only this one
	Reason string  // of dead and held jobs; so too
	Before *time.Time
	Since  *time.Time
	After  string
	Limit  int
	// Payload asks for what the jobs carry; a page then has MaxCarried at most.
	Payload bool
}

// MaxCarried is how many jobs a page has at most with what they carry.
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

// DeadQueues returns the queues that have dead jobs, deleted ones among them.
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

// Dead returns how many dead jobs a queue has, or had when it was deleted.
func (c *Client) Dead(ctx context.Context, queueName string) (int64, error) {
	var answer wire.DeadQueues
	_, err := c.do(ctx, http.MethodGet, "/v1/dead?"+url.Values{"queue": {queueName}}.Encode(), nil, nil, &answer)
	if err != nil || len(answer.Queues) == 0 {
		return 0, err
	}
	return answer.Queues[0].Dead, nil
}

// Replay puts dead jobs back, as many as one request does.
func (c *Client) Replay(ctx context.Context, queueName string, choice wire.Choice) (wire.Decided, error) {
	return c.decide(ctx, queueName, "replay", choice)
}

// Forget drops dead jobs, as many as one request does.
func (c *Client) Forget(ctx context.Context, queueName string, choice wire.Choice) (wire.Decided, error) {
	return c.decide(ctx, queueName, "forget", choice)
}

func (c *Client) decide(ctx context.Context, queueName, what string, choice wire.Choice) (d wire.Decided, err error) {
	_, err = c.do(ctx, http.MethodPost, queuePath(queueName, what), nil, choice, &d)
	return d, err
}

// Decide decides about held jobs, as many as one request does.
func (c *Client) Decide(ctx context.Context, queueName string, decision wire.Decision) (d wire.Decided, err error) {
	_, err = c.do(ctx, http.MethodPost, queuePath(queueName, "decide"), nil, decision, &d)
	return d, err
}

// Purge takes jobs back, as many as one request does.
func (c *Client) Purge(ctx context.Context, queueName string, r wire.PurgeRequest) (done wire.Purged, err error) {
	_, err = c.do(ctx, http.MethodPost, queuePath(queueName, "purge"), nil, r, &done)
	return done, err
}
