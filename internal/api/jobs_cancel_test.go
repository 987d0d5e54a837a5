package api_test

import (
	"context"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/queue"
)

// kept is an engine whose jobs are kept from being cancelled.
type kept struct {
	*engine
	by queue.State
}

func (k kept) Cancel(context.Context, string, string) (queue.State, error) { return k.by, nil }

func TestCancel(t *testing.T) {
	f := serve(t, api.Options{})
	f.do("POST", jobs, `{"payload":1,"id":"a/b"}`).want(t, 202)
	for range 2 {
		f.do("POST", jobs+"/a%2Fb/cancel", "").want(t, 200, "queue", "email", "id", "a/b", "state", "cancelled")
	}
	f.do("POST", jobs+"/b/cancel", "").want(t, 404, "reason", "unknown_job", "id", "b")
	f.do("POST", "/v1/queues/none/jobs/b/cancel", "").want(t, 404, "reason", "unknown_queue", "id", "b")
	f.do("POST", jobs+"/"+strings.Repeat("x", 200)+"/cancel", "").want(t, 400, "field", "id")
	f.do("POST", jobs+"/a%20b/cancel", "").want(t, 400, "field", "id")
	f.do("GET", jobs+"/b/cancel", "").want(t, 405)
	f.do("PUT", jobs+"/b", "").want(t, 405)
	for _, by := range []queue.State{queue.Leased, queue.Delivered, queue.Dead, queue.Expired} {
		f.serveOver(kept{f.engine, by}, api.Options{})
		f.do("POST", jobs+"/b/cancel", "").want(t, 409, "reason", "not_cancellable", "id", "b", "state", by)
	}
}
