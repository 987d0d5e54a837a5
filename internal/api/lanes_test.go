package api_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/test/attend"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/redisq"
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
		{"schedule", 429, []any{"reason", "schedule_full", "field", "not_before", "retry_after_ms", 1}, "1", "maximum"},
		{"late", 422, []any{"reason", "expired", "field", "expires_at", "eta", eta}, "", "would pass before"},
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

// onBoth runs a test over either engine.
func onBoth(t *testing.T, test func(t *testing.T, f *fixture, e queue.Engine)) {
	run := func(t *testing.T, e queue.Engine, err error) {
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = e.Close() }()
		f := &fixture{t: t}
		f.serveOver(e, api.Options{})
		test(t, f, e)
	}
	t.Run("bolt", func(t *testing.T) {
		e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
		run(t, e, err)
	})
	t.Run("redis", func(t *testing.T) {
		e, err := redisq.OpenClient(t.Context(), redistest.New(t, redistest.Options{}).Client(), redisq.Options{
			Init: true, Partitions: 1, Patience: redistest.Patience,
		})
		run(t, e, err)
	})
}

// Jobs with lanes, priorities and schedules, from the request to the drainer.
func TestLanesLife(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, e queue.Engine) {
		const bounds = `"max_scheduled":1,"lanes":{"capacity":2,"overrides":{"big":{"capacity":4}}}`
		f.do("PUT", email, `{"rate":"1/h",`+bounds+`}`).want(t, 201, "max_scheduled", 1)
		post := func(id, more string) *answer {
			t.Helper()
			return f.do("POST", jobs, `{"payload":"`+id+`","id":"`+id+`"`+more+`}`)
		}
		post("x1", `,"lane":"x"`).want(t, 202, "state", "waiting", "position", 1)
		post("x2", `,"lane":"x"`).want(t, 202, "position", 2)
		full := post("x3", `,"lane":"x"`)
		full.want(t, 429, "reason", "lane_full", "field", "lane", "id", "x3")
		if full.header.Get("Retry-After") == "" || full.body["retry_after_ms"].(float64) < 1 {
			t.Errorf("the promise is %s", full.text)
		}
		post("x2", `,"lane":"x"`).want(t, 200, "position", 2)
		post("x2", `,"lane":"y"`).want(t, 409, "reason", "conflict")
		post("b1", `,"lane":"big"`).want(t, 202, "position", 1)
		post("b2", `,"lane":"big","priority":9`).want(t, 202, "position", 1)
		f.do("GET", jobs+"/b1", "").want(t, 200, "lane", "big", "position", 2, "priority", nil)
		f.do("GET", jobs+"/b2", "").want(t, 200, "lane", "big", "position", 1, "priority", 9)
		post("none", "").want(t, 202, "position", 1)

		// The schedule.
		due := time.Now().Add(2 * time.Hour).UTC().Truncate(time.Microsecond)
		scheduled := post("s1", `,"lane":"big","not_before":"`+due.Format(time.RFC3339Nano)+`"`)
		scheduled.want(t, 202, "state", "scheduled", "position", nil)
		if at := etaOf(t, scheduled); at.Before(due) {
			t.Errorf("a job that waits until %v is to depart at %v", due, at)
		}
		f.do("GET", jobs+"/s1", "").want(t, 200, "state", "scheduled", "lane", "big", "due_at", due.Format(time.RFC3339Nano))
		later := post("s2", `,"not_before":"`+due.Add(time.Hour).Format(time.RFC3339Nano)+`"`)
		later.want(t, 429, "reason", "schedule_full", "field", "not_before", "id", "s2")
		if ms := later.body["retry_after_ms"].(float64); ms < 1000 || ms > 2*3600*1000 {
			t.Errorf("the first is due in %v ms", ms)
		}
		post("s3", `,"not_before":"2020-01-01T00:00:00Z"`).want(t, 202, "state", "waiting")
		far := time.Now().Add(queue.MaxAhead + time.Hour).UTC().Format(time.RFC3339)
		post("s4", `,"not_before":"`+far+`"`).want(t, 400, "reason", "invalid_field", "field", "not_before")

		// A deadline that cannot be met, and one that can.
		soon := time.Now().Add(time.Hour).UTC()
		late := post("late", `,"lane":"y","expires_at":"`+soon.Format(time.RFC3339Nano)+`"`)
		late.want(t, 422, "reason", "expired", "field", "expires_at", "id", "late")
		if at := etaOf(t, late); !at.After(soon) {
			t.Errorf("refused for %v, and would depart at %v", soon, at)
		}
		post(
			"late", `,"lane":"y","expires_at":"`+soon.Add(100*time.Hour).Format(time.RFC3339Nano)+`"`,
		).want(t, 202, "position", 1)

		// The same in a stream: one line's lane is full, and the others go on.
		feed, lines, _ := f.open(jobs)
		say(t, feed, strings.Join([]string{
			`{"payload":1,"id":"x4","lane":"x"}`,
			`{"payload":1,"id":"b3","lane":"big","priority":5}`,
			`{"payload":1,"id":"s5","not_before":"` + due.Format(time.RFC3339Nano) + `"}`,
			`{"payload":1,"id":"y2","lane":"y","priority":10}`,
			`{"payload":1,"id":"y3","lane":"y","expires_at":"` + soon.Format(time.RFC3339Nano) + `"}`,
			`{"payload":1,"id":"y4","lane":"y"}`,
		}, "\n")+"\n")
		wantLine(t, line(t, lines), "line", 1, "status", 429, "id", "x4", "reason", "lane_full")
		wantLine(t, line(t, lines), "line", 2, "status", 202, "id", "b3", "position", 2)
		wantLine(t, line(t, lines), "line", 3, "status", 429, "id", "s5", "reason", "schedule_full")
		wantLine(t, line(t, lines), "line", 4, "status", 400, "id", "y2", "field", "priority")
		y3 := line(t, lines)
		wantLine(t, y3, "line", 5, "status", 422, "id", "y3", "reason", "expired")
		if y3["eta"] == nil {
			t.Errorf("no eta in %v", y3)
		}
		wantLine(t, line(t, lines), "line", 6, "status", 202, "id", "y4", "position", 2)
		_ = feed.Close()

		stats, _ := f.do("GET", email, "").body["stats"].(map[string]any)
		for name, want := range map[string]float64{"lanes": 4, "scheduled": 1, "waiting": 9, "refused": 4} {
			if stats[name] != want {
				t.Errorf("%s is %v, want %v", name, stats[name], want)
			}
		}

		// All that wait leave, each lane in its order; the scheduled one stays.
		f.do("PUT", email, `{"rate":"unlimited",`+bounds+`}`).want(t, 200)
		left := map[string][]string{}
		for number, n := uint64(1), 0; n < 9; number++ {
			got, err := e.Reserve(t.Context(), queue.ReserveRequest{Client: queue.Client{ID: "x"}, Number: number, Max: 100})
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range got.Jobs {
				left[j.Lane] = append(left[j.Lane], j.ID)
				n++
			}
		}
		for lane, want := range map[string][]string{
			"x": {"x1", "x2"}, "big": {"b2", "b3", "b1"}, "": {"none", "s3"}, "y": {"late", "y4"},
		} {
			if !slices.Equal(left[lane], want) {
				t.Errorf("lane %q left in the order %v, want %v", lane, left[lane], want)
			}
		}
		f.do("POST", jobs+"/s1/cancel", "").want(t, 200, "state", "cancelled")
	})
}

func etaOf(t *testing.T, a *answer) time.Time {
	t.Helper()
	eta, _ := a.body["eta"].(map[string]any)
	at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(eta["at"]))
	if err != nil {
		t.Fatalf("no eta in %s", a.text)
	}
	return at
}

// The lanes of a queue with their depth and finish, the slowest first, page by page.
func TestListLanes(t *testing.T) {
	const lanes = email + "/lanes"
	onBoth(t, func(t *testing.T, f *fixture, e queue.Engine) {
		f.do("GET", lanes, "").want(t, 404, "reason", "unknown_queue")
		f.do("PUT", email, `{"rate":"50/s","lanes":{"rate":"2/s","overrides":{"fast":{"rate":"20/s"}}}}`).want(t, 201)
		f.do("GET", lanes, "").want(t, 200, "total", 0, "waiting", 0, "never", 0, "next", nil, "why", nil)
		var list []queue.Job
		for lane, n := range map[string]int{"slow": 60, "short": 20, "fast": 40, "": 10} {
			for i := range n {
				list = append(list, queue.Job{
					Queue: "email", ID: fmt.Sprint("j", lane, i), Lane: lane, Payload: []byte("1"), Cost: 1,
					ContentType: queue.DefaultContentType,
				})
			}
		}
		if _, err := e.Append(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		a := f.do("GET", lanes, "")
		a.want(t, 200, "total", 4, "waiting", 130, "never", 4, "finish_at", nil)
		if why, _ := a.body["why"].(map[string]any); why["why"] != "drainer" {
			t.Errorf("nobody asks for jobs: %s", a.text)
		}
		attend.Queues(t, e)
		rows := func(a *answer) (texts []string) {
			t.Helper()
			a.want(t, 200, "total", 4, "waiting", 130, "never", 0, "why", nil, "exact", false)
			now, err := time.Parse(time.RFC3339Nano, fmt.Sprint(a.body["now"]))
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range a.body["lanes"].([]any) {
				ln := row.(map[string]any)
				at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(ln["finish_at"]))
				if err != nil {
					t.Fatalf("%v: %s", err, a.text)
				}
				text := fmt.Sprintf("%s %v in %.0f s", ln["lane"], ln["waiting"], at.Sub(now).Seconds())
				if ln["limit"] != nil {
					text += fmt.Sprintf(" of %v", ln["limit"])
				}
				texts = append(texts, text)
			}
			return texts
		}
		all := rows(f.do("GET", lanes, ""))
		if len(all) != 4 || all[0] != "slow 60 in 30 s of 2/s" || all[1] != "short 20 in 10 s of 2/s" ||
			!strings.HasPrefix(all[2], "fast 40 in 2 s of 20/s") || !strings.HasPrefix(all[3], " 10 in ") {
			t.Errorf("lanes: %q", all)
		}
		first, second := f.do("GET", lanes+"?limit=3", ""), f.do("GET", lanes+"?limit=3&offset=3", "")
		first.want(t, 200, "next", 3)
		second.want(t, 200, "next", nil)
		if paged := append(rows(first), rows(second)...); len(paged) != 4 || paged[0][:4] != "slow" || paged[3][:1] != " " {
			t.Errorf("in pages: %q", paged)
		}
		f.do("GET", lanes+"?offset=9", "").want(t, 200, "lanes", []any{}, "next", nil)
		for query, field := range map[string]string{
			"limit=0": "limit", "limit=251": "limit", "limit=x": "limit", "offset=-1": "offset", "offset=x": "offset",
		} {
			f.do("GET", lanes+"?"+query, "").want(t, 400, "reason", "invalid_field", "field", field)
		}
		f.do("GET", lanes+"?offset=1&offset=2", "").want(t, 400, "reason", "duplicate_field", "field", "offset")
	})
}

// Of more than 10,000 lanes the rest is only counted, and the answer says so. A page of many lanes has all keys.
func TestListManyLanes(t *testing.T) {
	const lanes = email + "/lanes"
	onBoth(t, func(t *testing.T, f *fixture, e queue.Engine) {
		f.do("PUT", email, `{"rate":"1000/s","capacity":20000}`).want(t, 201)
		attend.Queues(t, e)
		for begin := 0; begin < queue.MaxLineupLanes+20; begin += 1002 {
			list := make([]queue.Job, 1002)
			for n := range list {
				list[n] = queue.Job{
					Queue: "email", ID: fmt.Sprint("j", begin+n), Lane: fmt.Sprint("lane", begin+n), Payload: []byte("1"), Cost: 1,
					ContentType: queue.DefaultContentType,
				}
			}
			if _, err := e.Append(t.Context(), list); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		a := f.do("GET", lanes+"?limit=50&offset=5000", "")
		t.Logf("a page of 10,020 lanes took %v", time.Since(begun))
		a.want(t, 200, "total", 10020, "waiting", 10020, "unlisted", 20, "estimated", true, "next", 5050)
		if page := a.body["lanes"].([]any); len(page) != 50 {
			t.Errorf("the page has %d lanes", len(page))
		} else {
			for _, row := range page {
				if key := fmt.Sprint(row.(map[string]any)["lane"]); !strings.HasPrefix(key, "lane") {
					t.Errorf("a lane has the key %q", key)
				}
			}
		}
	})
}
