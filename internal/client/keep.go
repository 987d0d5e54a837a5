package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/penstock/penstock/internal/wire"
)

// List says which jobs to list.
type List struct {
	State  string
	Lane   *string // only this one
	Reason string  // of dead jobs
	After  string
	Limit  int
}

// Jobs returns a page of jobs.
func (c *Client) Jobs(ctx context.Context, queueName string, l List) (wire.Jobs, error) {
	q := url.Values{"state": {l.State}, "limit": {strconv.Itoa(l.Limit)}}
	if l.Lane != nil {
		q.Set("lane", *l.Lane)
	}
	if l.Reason != "" {
		q.Set("reason", l.Reason)
	}
	if l.After != "" {
		q.Set("after", l.After)
	}
	var page wire.Jobs
	_, err := c.do(ctx, http.MethodGet, queuePath(queueName, "jobs")+"?"+q.Encode(), nil, nil, &page)
	return page, err
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

// Purge takes jobs back, as many as one request does.
func (c *Client) Purge(ctx context.Context, queueName string, r wire.PurgeRequest) (done wire.Purged, err error) {
	_, err = c.do(ctx, http.MethodPost, queuePath(queueName, "purge"), nil, r, &done)
	return done, err
}
