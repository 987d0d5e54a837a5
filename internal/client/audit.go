package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

// AuditQuery selects entries of the audit log. Empty fields match all.
type AuditQuery struct {
	App, Actor, Token string // of the actor
	Of, Name          string // of the subject
	What, Operation   string
	Refused           bool // only refused changes
	Since, Until      time.Time
	// Oldest begins with the oldest entry instead of the newest.
	Oldest bool
	// After is the Next of the previous page.
	After string
	Limit int // 0 means the server's default
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

// Audit returns a page of the audit log. If it has More, further entries follow, even a short or empty page.
func (c *Client) Audit(ctx context.Context, q AuditQuery) (answer wire.Audit, err error) {
	_, err = c.do(ctx, http.MethodGet, "/v1/audit?"+q.values().Encode(), nil, nil, &answer)
	return answer, err
}
