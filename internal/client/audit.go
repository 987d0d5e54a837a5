package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

// AuditQuery chooses entries of the audit log. Empty fields choose all.
type AuditQuery struct {
	App, Actor, Token string // of who did it
	Of, Name          string // what it was done to
	What, Operation   string
	Refused           bool // only what was refused
	Since, Until      time.Time
	// Oldest begins with the oldest entry; else it is the newest.
	Oldest bool
	// After is the Next of the page before.
	After string
	Limit int // 0 is the server's
}

func (q *AuditQuery) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{
		"app": q.App, "actor": q.Actor, "token": q.Token, "of": q.Of, "name": q.Name, "what": q.What,
		"operation": q.Operation, "after": q.After,
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Refused {
		v.Set("refused", "true")
	}
	if q.Oldest {
		v.Set("order", "oldest")
	}
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			v.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v
}

// Audit returns a page of the audit log. It may have fewer entries than asked for, or none, and More follow.
func (c *Client) Audit(ctx context.Context, q AuditQuery) (answer wire.Audit, err error) {
	_, err = c.do(ctx, http.MethodGet, "/v1/audit?"+q.values().Encode(), nil, nil, &answer)
	return answer, err
}
