package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/queue"
)

// What comes of jobs with a lane or a schedule, alone and as lines.
func TestLaneAnswers(t *testing.T) {
	eta := map[string]any{"at": "2026-05-04T03:02:01.123456Z", "exact": false}
	a := &answering{jobs: map[string]queue.Job{}, by: map[string]queue.Appended{
		"waiting":   {Outcome: queue.Accepted, State: queue.Waiting, Position: 3, ETA: queue.ETA{At: epoch}},
		"scheduled": {Outcome: queue.Accepted, State: queue.Scheduled, ETA: queue.ETA{At: epoch}},
		"again":     {Outcome: queue.Duplicate, State: queue.Scheduled},
		"lane":      {Outcome: queue.LaneFull, RetryAfter: 1234567 * time.Microsecond},
		"schedule":  {Outcome: queue.ScheduleFull, RetryAfter: 1},
		"late":      {Outcome: queue.Lapsed, ETA: queue.ETA{At: epoch}},
		"passed":    {Outcome: queue.Lapsed},
	}}
	f := serveTo(t, a, api.Options{})
	for _, c := range []struct {
		id      string
		status  int
		members []any
		header  string // Retry-After
		detail  string
	}{
		{"waiting", 202, []any{"state", "waiting", "position", 3, "eta", eta}, "", ""},
		{"scheduled", 202, []any{"state", "scheduled", "position", nil, "eta", eta}, "", ""},
		{"again", 200, []any{"state", "scheduled", "position", nil, "eta", nil}, "", ""},
		{"lane", 429, []any{"reason", "lane_full", "field", "lane", "retry_after_ms", 1235}, "2", "lane is full"},
		{"schedule", 429, []any{"reason", "schedule_full", "field", "not_before", "retry_after_ms", 1}, "1", "are scheduled"},
		{"late", 422, []any{"reason", "expired", "field", "expires_at", "eta", eta}, "", "will have passed"},
		{"passed", 422, []any{"reason", "expired", "field", "expires_at", "eta", nil}, "", "has passed"},
	} {
		members := append(c.members, "id", c.id)
		body := `{"payload":1,"id":"` + c.id + `","lane":"\u00e9.example.com","priority":9,` +
			`"not_before":"2100-01-02T16:04:05.000001+01:00"}`
		one := f.do("POST", jobs, body)
		one.want(t, c.status, members...)
		if got := one.header.Get("Retry-After"); got != c.header || !strings.Contains(one.text, c.detail) {
			t.Errorf("%s: Retry-After %q, want %q: %s", c.id, got, c.header, one.text)
		}
		feed, lines, _ := f.open(jobs)
		say(t, feed, body+"\n")
		wantLine(t, line(t, lines), append(members, "line", 1, "status", c.status)...)
		_ = feed.Close()
		want := time.Date(2100, 1, 2, 15, 4, 5, 1000, time.UTC)
		if j := a.jobs[c.id]; j.Lane != "é.example.com" || j.Priority != 9 || j.NotBefore != want || !j.ExpiresAt.IsZero() {
			t.Errorf("the job is %+v", j)
		}
	}
	f.do("POST", jobs, `{"payload":1,"id":"waiting","priority":0,"not_before":"2020-01-01T00:00:00Z"}`).want(t, 202)
	if j := a.jobs["waiting"]; j.Lane != "" || j.Priority != 0 || j.NotBefore.Year() != 2020 {
		t.Errorf("the job is %+v", j)
	}
}

// A job shows its lane and priority; one with neither is shown as ever.
func TestLaneOfAJob(t *testing.T) {
	f := serve(t, api.Options{})
	f.do("POST", jobs, `{"payload":1,"id":"a","lane":"`+strings.Repeat("é", 128)+`","priority":3}`).want(t, 202)
	f.do("GET", jobs+"/a", "").want(t, 200, "lane", strings.Repeat("é", 128), "priority", 3)
	f.do("POST", jobs, `{"payload":1,"id":"b"}`).want(t, 202)
	f.do("GET", jobs+"/b", "").want(t, 200, "lane", nil, "priority", nil)
	f.do("POST", jobs, `{"payload":1,"id":"b","lane":"x"}`).want(t, 409, "reason", "conflict")
}

// A queue is shown with the bounds that it has, and with no others.
func TestLanesOfAQueue(t *testing.T) {
	f := serve(t, api.Options{})
	f.do("GET", email, "").want(t, 200, "max_in_flight", nil, "max_scheduled", nil, "ordered", nil, "lanes", nil)
	rule := map[string]any{"rate": "10/s", "capacity": 5.0}
	f.do(
		"PUT", email,
		`{"rate":"14/s","max_in_flight":50,"max_scheduled":7,"ordered":true,"lanes":{"rate":"2/s","burst":3,`+
			`"max_in_flight":1,"overrides":{"gmail.com":{"rate":"10/s","capacity":5},"b":{}}}}`,
	).
		want(t, 200, "max_in_flight", 50, "max_scheduled", 7, "ordered", true,
			"lanes", map[string]any{
				"rate": "2/s", "burst": 3.0, "max_in_flight": 1.0,
				"overrides": map[string]any{"gmail.com": rule, "b": map[string]any{}},
			})
	stats, _ := f.do("GET", email, "").body["stats"].(map[string]any)
	if stats["lanes"] != 0.0 {
		t.Errorf("lanes %v", stats["lanes"])
	}
	for body, field := range map[string]string{
		`{"rate":"14/s","max_in_flight":0}`:                                       "max_in_flight",
		`{"rate":"14/s","lanes":{"rate":"2"}}`:                                    "lanes.rate",
		`{"rate":"14/s","lanes":{"overrides":{"gmail.com":{"rates":"10/s"}}}}`:    "lanes.overrides.gmail.com.rates",
		`{"rate":"14/s","lanes":{"overrides":{"gmail.com":{"capacity":-1}}}}`:     "lanes.overrides.gmail.com.capacity",
		`{"rate":"14/s","lanes":{"overrides":{"gmail.com":{"rate":"1 mail/s"}}}}`: "lanes.overrides.gmail.com.rate",
	} {
		f.do("PUT", email, body).want(t, 400, "reason", "invalid_field", "field", field)
	}
}
