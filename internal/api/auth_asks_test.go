package api_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/rules"
)

// asks counts what a store is asked about queues, rules and jobs.
type asks struct {
	queue.Engine
	n atomic.Int64
}

func (a *asks) Get(ctx context.Context, name string) (queue.Info, error) {
	a.n.Add(1)
	return a.Engine.Get(ctx, name)
}

func (a *asks) Job(ctx context.Context, name, id string) (queue.JobInfo, error) {
	a.n.Add(1)
	return a.Engine.Job(ctx, name, id)
}

func (a *asks) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	a.n.Add(1)
	return a.Engine.Append(ctx, jobs)
}

func (a *asks) Rule(ctx context.Context, name string) (rules.Info, error) {
	a.n.Add(1)
	return a.Engine.Rule(ctx, name)
}

func (a *asks) Take(ctx context.Context, name string, takes []rules.Take) ([]rules.Taken, error) {
	a.n.Add(1)
	return a.Engine.Take(ctx, name, takes)
}

// How long an answer takes tells nothing of a foreign name: the store is not asked about it, whether it is there or
// not, and the answers are the same but for the name.
func TestForeignNamesAskNobody(t *testing.T) {
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	counted := &asks{Engine: e}
	s := secureOver(t, counted, api.Options{})
	acme := s.with("acme", auth.Admin)
	for _, ask := range [][3]string{
		{"GET", "/v1/queues/NAME", ""},
		{"PUT", "/v1/queues/NAME", `{"rate":"1/s"}`},
		{"GET", "/v1/queues/NAME/jobs/j1", ""},
		{"POST", "/v1/queues/NAME/jobs", `{"payload":1}`},
		{"POST", "/v1/queues/NAME/leases", `{}`},
		{"GET", "/v1/rules/NAME", ""},
		{"POST", "/v1/rules/NAME/take", `{}`},
	} {
		kind, answers := "mail", []string{}
		if strings.Contains(ask[1], "/rules/") {
			kind = "rule"
		}
		before := counted.n.Load()
		for _, app := range []string{"beta", "none"} { // the one is there
			name := app + "-" + kind
			a := s.by(acme, ask[0], strings.Replace(ask[1], "NAME", name, 1), ask[2], "X-Request-Id", "r")
			a.want(t, 404)
			answers = append(answers, strings.ReplaceAll(a.text, name, "NAME"))
		}
		if asked := counted.n.Load() - before; asked != 0 || answers[0] != answers[1] {
			t.Errorf("%s %s: the store was asked %d times; %s and %s", ask[0], ask[1], asked, answers[0], answers[1])
		}
	}
	before := counted.n.Load()
	if s.by(acme, "GET", "/v1/queues/acme-mail", "").want(t, 200); counted.n.Load() == before {
		t.Error("nothing is counted")
	}
}
