package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
)

// brokenLeases is an engine that cannot decide about some leases: those of the jobs named.
type brokenLeases struct {
	queue.Engine
	broken map[string]error
}

func (e brokenLeases) Settle(ctx context.Context, list []queue.Settlement) ([]queue.Settled, error) {
	answers, err := e.Engine.Settle(ctx, list)
	for i := range answers {
		if why := e.broken[list[i].ID]; why != nil {
			answers[i] = queue.Settled{Err: why}
		}
	}
	return answers, err
}

func (e brokenLeases) Extend(ctx context.Context, list []queue.Lease) ([]queue.Extended, error) {
	answers, err := e.Engine.Extend(ctx, list)
	for i := range answers {
		if why := e.broken[list[i].ID]; why != nil {
			answers[i] = queue.Extended{Err: why}
		}
	}
	return answers, err
}

// A lease that nothing could be decided about takes nothing from the answers about the others.
func TestLeasesFailOneByOne(t *testing.T) {
	f, e := servePull(t, pull.Options{})
	f.do("PUT", email, `{"rate":"unlimited","pull":true}`).want(t, 201)
	for _, id := range []string{"a", "b", "c"} {
		f.do("POST", jobs, `{"payload":1,"id":"`+id+`"}`).want(t, 202)
	}
	l := f.pulled(`{"max":3,"wait":"30s"}`, "a", "b", "c")
	f.serveOver(brokenLeases{e, map[string]error{
		"a": fmt.Errorf("of a: %w", queue.ErrUnavailable), "b": fmt.Errorf("of b: %w", queue.ErrOutcomeUnknown),
	}}, api.Options{})
	const (
		away    = `"status":503,"reason":"unavailable","detail":`
		unknown = `"status":504,"reason":"outcome_unknown","detail":`
		gone    = `"id":"c","lease":"1-gone"`
	)
	with := func(leases ...string) string {
		return list(strings.Split(strings.Join(leases, `,"outcome":"delivered"~`)+`,"outcome":"delivered"`, "~")...)
	}
	for _, c := range []struct {
		path, body string
		want       []string // of each job's answer, what it begins with
	}{
		{"extend", list(l[0], l[2], l[1]), []string{`"id":"a",` + away, `"id":"c","expires_in_ms":`, `"id":"b",` + unknown}},
		{"extend", list(gone, l[0]), []string{`"id":"c","expires_in_ms":0}`, `"id":"a",` + away}},
		{"settle", with(gone, l[0]), []string{`"id":"c","stale":true}`, `"id":"a",` + away}},
		{
			"settle", with(l[0], l[2], l[1]),
			[]string{`"id":"a",` + away, `"id":"c","state":"delivered"}`, `"id":"b",` + unknown},
		},
	} {
		a := f.do("POST", email+"/"+c.path, c.body)
		a.want(t, 200)
		for _, want := range c.want {
			if !strings.Contains(a.text, "{"+want) {
				t.Errorf("%s: %s\nwant one that begins with %s", c.path, a.text, want)
			}
		}
		if strings.Contains(a.text, "of a:") || strings.Count(a.text, `"id"`) != len(c.want) {
			t.Errorf("%s: %s", c.path, a.text)
		}
	}
	// Where it is not known what became of any, that is the answer to the request: a worker repeats it for its status.
	f.do("POST", email+"/extend", list(l[0], l[0])).want(t, 503, "reason", "unavailable")
	f.do("POST", email+"/settle", with(l[1])).want(t, 504, "reason", "outcome_unknown")
}
