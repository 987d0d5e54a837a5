package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

// ChangesQuery selects changes. The zero query matches all, the newest first.
type ChangesQuery struct {
	Limit        int      // 0 means a full page
	Before       int64    // the Next of the previous page
	What         []string // empty means all
	Since, Until time.Time
}

func (q *ChangesQuery) encode() string {
	v := url.Values{"what": q.What}
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.Before != 0 {
		v.Set("before", strconv.FormatInt(q.Before, 10))
	}
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			v.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return "?" + v.Encode()
}

// Changes returns the changes of a queue, newest first.
func (c *Client) Changes(ctx context.Context, name string, q ChangesQuery) (page wire.Record[wire.Change], err error) {
	_, err = c.do(ctx, http.MethodGet, queuePath(name, "changes")+q.encode(), nil, nil, &page)
	return page, err
}

// RuleChanges returns the changes of a rule, newest first.
func (c *Client) RuleChanges(
	ctx context.Context, name string, q ChangesQuery,
) (page wire.Record[wire.RuleChange], err error) {
	_, err = c.do(ctx, http.MethodGet, rulePath(name)+"/changes"+q.encode(), nil, nil, &page)
	return page, err
}
