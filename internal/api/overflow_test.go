package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/queue"
)

// answering is an appender that answers every job as its id is listed, so that HTTP is
// seen to say each answer, the rare ones too. It keeps the jobs.
type answering struct {
	by   map[string]queue.Appended
	jobs map[string]queue.Job
}

func (a *answering) Append(_ context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	answers := make([]queue.Appended, len(jobs))
	for i := range jobs {
		answers[i] = a.by[jobs[i].ID]
		answers[i].ID = jobs[i].ID
		a.jobs[jobs[i].ID] = jobs[i]
	}
	return answers, nil
}

// What comes of a job with an overflow, alone and as a line.
func TestOverflowAnswers(t *testing.T) {
	eta := map[string]any{"at": "2026-05-04T03:02:01.123456Z", "exact": false}
	a := &answering{jobs: map[string]queue.Job{}, by: map[string]queue.Appended{
		"deferred":  {Outcome: queue.Accepted, State: queue.Deferred, Position: 10_007, ETA: queue.ETA{At: epoch}},
		"nowhere":   {Outcome: queue.Accepted, State: queue.Deferred},
		"duplicate": {Outcome: queue.Duplicate, State: queue.Deferred},
		"cancelled": {Outcome: queue.Duplicate, State: queue.Cancelled},
		"lapsed":    {Outcome: queue.Lapsed},
		"full":      {Outcome: queue.OverflowFull, RetryAfter: 1234567 * time.Microsecond},
		"away":      {Err: fmt.Errorf("job: %w", queue.ErrUnavailable)},
	}}
	f := serveTo(t, a, api.Options{Overflow: true})
	for _, c := range []struct {
		id      string
		status  int
		members []any
		header  string // Retry-After
	}{
		{"deferred", 202, []any{"state", "deferred", "position", 10007, "eta", eta}, ""},
		{"nowhere", 202, []any{"state", "deferred", "position", nil, "eta", nil}, ""},
		{"duplicate", 200, []any{"state", "deferred", "position", nil}, ""},
		{"cancelled", 200, []any{"state", "cancelled"}, ""},
		{"lapsed", 422, []any{"reason", "expired", "field", "expires_at"}, ""},
		{"full", 429, []any{"reason", "overflow_full", "retry_after_ms", 1235}, "2"},
		{"away", 503, []any{"reason", "unavailable", "retry_after_ms", 1000}, "1"},
	} {
		members := append(c.members, "id", c.id)
		body := `{"payload":1,"id":"` + c.id + `","overflow":"defer","expires_at":"2100-01-02T16:04:05.000001+01:00"}`
		one := f.do("POST", jobs, body)
		one.want(t, c.status, members...)
		if got := one.header.Get("Retry-After"); got != c.header {
			t.Errorf("%s: Retry-After %q, want %q", c.id, got, c.header)
		}
		feed, lines, _ := f.open(jobs)
		say(t, feed, body+"\n")
		wantLine(t, line(t, lines), append(members, "line", 1, "status", c.status)...)
		_ = feed.Close()
	}
	want := time.Date(2100, 1, 2, 15, 4, 5, 1000, time.UTC)
	if j := a.jobs["deferred"]; j.Overflow != queue.Defer || j.ExpiresAt != want {
		t.Errorf("the job is %+v", j)
	}
	f.do("POST", jobs, `{"payload":1,"id":"deferred","overflow":"reject"}`).want(t, 202)
	if j := a.jobs["deferred"]; j.Overflow != queue.Reject || !j.ExpiresAt.IsZero() {
		t.Errorf("the job is %+v", j)
	}
}

// A payload that went past the engine may still be in its hands: its memory is not used
// for the next job.
func TestDeferredPayloadsAreLeftAlone(t *testing.T) {
	a := &answering{jobs: map[string]queue.Job{}, by: map[string]queue.Appended{}}
	for id, answer := range map[string]queue.Appended{
		"deferred": {Outcome: queue.Accepted, State: queue.Deferred}, "lapsed": {Outcome: queue.Lapsed},
		"full": {Outcome: queue.OverflowFull, RetryAfter: 1}, "failed": {Err: queue.ErrOutcomeUnknown},
	} {
		a.by[id], a.by["s-"+id] = answer, answer
	}
	a.by["next"] = queue.Appended{Outcome: queue.Accepted, State: queue.Waiting}
	f := serveTo(t, a, api.Options{Overflow: true})
	feed, lines, _ := f.open(jobs)
	send := func(id, payload string) {
		f.do("POST", jobs, `{"payload":"`+payload+`","id":"`+id+`"}`)
		if id != "next" {
			id = "s-" + id
		}
		say(t, feed, `{"payload":"`+payload+`","id":"`+id+`"}`+"\n")
		line(t, lines)
	}
	for id := range a.by {
		if !strings.HasPrefix(id, "s-") && id != "next" {
			send(id, "first")
			for range 20 {
				send("next", "other")
			}
		}
	}
	for id, j := range a.jobs {
		if got := string(j.Payload); id != "next" && got != `"first"` {
			t.Errorf("the payload of %s was overwritten with %s", id, got)
		}
	}
	_ = feed.Close()
}

// Without an overflow nothing is promised that will not be held, and what was promised
// by a spec that is there already is said not to be, once.
func TestNoOverflow(t *testing.T) {
	var log bytes.Buffer
	f := serve(t, api.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	feed, lines, _ := f.open(jobs)
	say(t, feed, `{"payload":1,"id":"a","overflow":"defer"}`+"\n")
	wantLine(t, line(t, lines), "line", 1, "status", 422, "id", "a", "reason", "no_overflow", "field", "overflow")
	say(t, feed, `{"payload":1,"id":"a","overflow":"reject"}`+"\n")
	wantLine(t, line(t, lines), "line", 2, "status", 202)
	_ = feed.Close()
	a := f.do("PUT", email, `{"rate":"1/s","overflow":"defer"}`)
	a.want(t, 422, "reason", "no_overflow", "field", "overflow")
	for _, a := range []*answer{a, f.do("POST", jobs, `{"payload":1,"overflow":"defer"}`)} {
		if text := fmt.Sprint(a.body["detail"]); !strings.Contains(text, "no NATS") ||
			!strings.Contains(text, "--nats nats://") {
			t.Errorf("it does not say what to do: %s", text)
		}
	}
	f.do("PUT", email, `{"rate":"1/s","overflow":"reject","deferred":{"max_age":"1h"}}`).want(t, 200)

	f.engine.queues["email"].info.Spec.Overflow = queue.Defer
	f.engine.queues["email"].info.Spec.Capacity = 1
	for _, typ := range []string{"application/json", "application/x-ndjson"} {
		log.Reset()
		f.serveOver(f.engine, api.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for range 3 {
			if a := f.do("POST", jobs, `{"payload":1}`, "Content-Type", typ); !strings.Contains(a.text, `"reason":"full"`) {
				t.Error(a.text)
			}
		}
		if n := strings.Count(log.String(), "queue=email"); n != 1 {
			t.Errorf("%s: said %d times: %s", typ, n, log.String())
		}
	}
	f.serveOver(f.engine, api.Options{Overflow: true})
	f.do("PUT", email, `{"rate":"1/s","overflow":"defer"}`).want(t, 200, "overflow", "defer")
}

// While the store is away a stream is begun all the same: what may wait can be taken.
func TestStreamWithoutStore(t *testing.T) {
	a := &answering{jobs: map[string]queue.Job{}, by: map[string]queue.Appended{
		"in":  {Outcome: queue.Accepted, State: queue.Deferred},
		"out": {Err: queue.ErrUnavailable},
	}}
	f := serveTo(t, a, api.Options{Overflow: true})
	for _, away := range []error{queue.ErrUnavailable, queue.ErrOutcomeUnknown} {
		f.engine.fail(away)
		feed, lines, head := f.open(jobs)
		if head.status != 200 {
			t.Fatalf("%v: %+v", away, head)
		}
		say(t, feed, `{"payload":1,"id":"in"}`+"\n")
		wantLine(t, line(t, lines), "status", 202, "state", "deferred")
		say(t, feed, `{"payload":1,"id":"out"}`+"\n")
		wantLine(t, line(t, lines), "status", 503, "reason", "unavailable")
		_ = feed.Close()
	}
	f.engine.fail(queue.ErrNoStore)
	f.do("POST", jobs, `{"payload":1}`, "Content-Type", "application/x-ndjson").want(t, 503, "reason", "no_store")
	f.engine.fail(nil)
	f.do(
		"POST", "/v1/queues/none/jobs", `{"payload":1}`, "Content-Type", "application/x-ndjson",
	).want(t, 404, "reason", "unknown_queue")
}

// connected is an overflow that is there, or not.
type connected struct{ err, stuck error }

func (c *connected) Connected() error { return c.err }
func (c *connected) Stuck() error     { return c.stuck }

func TestReadiness(t *testing.T) {
	nats := errors.New("no NATS server answers")
	for _, c := range []struct {
		name            string
		with            bool // an overflow
		store, overflow error
		status          int
		members         []any
	}{
		{"alone", false, nil, nil, 200, []any{"status", "ready", "store", nil, "overflow", nil}},
		{"alone, store away", false, queue.ErrUnavailable, nil, 503, []any{"reason", "not_ready"}},
		{"both", true, nil, nil, 200, []any{"status", "ready", "store", nil, "overflow", nil}},
		{"store away", true, queue.ErrUnavailable, nil, 200, []any{
			"status", "degraded", "store", "unavailable", "overflow", "ok",
		}},
		{"store silent", true, context.DeadlineExceeded, nil, 200, []any{"status", "degraded", "store", "unavailable"}},
		{"store says nothing certain", true, queue.ErrOutcomeUnknown, nil, 200, []any{"status", "degraded"}},
		{"no store", true, queue.ErrNoStore, nil, 503, []any{"reason", "not_ready"}},
		{
			"no store, said so by one that went away", true, errors.Join(queue.ErrUnavailable, queue.ErrNoStore), nil, 503,
			[]any{"reason", "not_ready"},
		},
		{"store broken", true, queue.ErrCorrupt, nil, 503, []any{"reason", "not_ready"}},
		{"overflow away", true, nil, nats, 200, []any{"status", "degraded", "store", "ok", "overflow", "unavailable"}},
		{"both away", true, queue.ErrUnavailable, nats, 503, []any{"reason", "not_ready"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := api.Options{Overflow: c.with}
			if c.with {
				o.OverflowState = &connected{err: c.overflow}
			}
			f := serve(t, o)
			f.engine.fail(c.store)
			a := f.do("GET", "/readyz", "")
			a.want(t, c.status, c.members...)
			for _, err := range []error{c.store, c.overflow} {
				if err != nil && !strings.Contains(a.text, strings.SplitN(err.Error(), "\n", 2)[0]) {
					t.Errorf("it does not say %q: %s", err, a.text)
				}
			}
			f.do("GET", "/healthz", "").want(t, 200)
		})
	}
	dead := errors.New("the dead letters' stream is full")
	for away, want := range map[error][]any{
		nil:  {"status", "degraded", "store", "ok", "overflow", "stuck", "detail", dead.Error()},
		nats: {"status", "degraded", "overflow", "unavailable"},
	} {
		serve(t, api.Options{
			Overflow: true, OverflowState: &connected{err: away, stuck: dead},
		}).do("GET", "/readyz", "").want(t, 200, want...)
	}
	late, back := errors.New("late for 30 of the last 40"), errors.New("gave back 30 of the last 100")
	paced := func(lacks, err error) func() (error, error) {
		return func() (error, error) { return lacks, err }
	}
	for _, c := range []struct {
		o    api.Options
		want []any
	}{
		{
			api.Options{Pace: paced(nil, late)},
			[]any{
				"status", "degraded", "store", "ok", "pull", "late", "detail",
				"jobs are accepted, but most jobs of pull queues are released: " + late.Error(),
			},
		},
		{
			api.Options{Pace: paced(back, nil)},
			[]any{
				"status", "degraded", "store", "ok", "pull", "releasing", "detail",
				"jobs are accepted; for pull queues, this server " + back.Error(),
			},
		},
		{
			api.Options{DrainerPace: paced(nil, late), Pace: paced(back, nil)},
			[]any{
				"status", "degraded", "store", "ok", "drainers", "late", "pull", nil, "detail",
				"jobs are accepted, but the drainer in this process releases most of them: " + late.Error(),
			},
		},
		{
			api.Options{DrainerPace: paced(back, nil)},
			[]any{
				"status", "degraded", "store", "ok", "drainers", "releasing", "detail",
				"jobs are accepted; the drainer in this process " + back.Error(),
			},
		},
		{
			api.Options{Pace: paced(nil, late), Overflow: true, OverflowState: &connected{err: nats}},
			[]any{"overflow", "unavailable", "pull", nil},
		},
		{
			api.Options{Pace: paced(nil, nil), DrainerPace: paced(nil, nil)},
			[]any{"status", "ready", "pull", nil, "drainers", nil},
		},
	} {
		serve(t, c.o).do("GET", "/readyz", "").want(t, 200, c.want...)
	}
	stopping, stop := context.WithCancel(t.Context())
	stop()
	f := serve(t, api.Options{Stopping: stopping, Overflow: true})
	f.do("GET", "/readyz", "").want(t, 503, "reason", "stopping")
}
