package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/attend"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

const quote = email + "/quote"

func TestQuote(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, e queue.Engine) {
		f.do("POST", quote, `{"jobs":1}`).want(t, 404, "reason", "unknown_queue")
		f.do("PUT", email, `{"rate":"1/h","capacity":10,"lanes":{"capacity":2}}`).want(t, 201)
		f.do("POST", quote, `{"jobs":1}`).want(t, 200, "fit", 1, "now", map[string]any{
			"rate": "1/h", "never": "drainer", "exact": false, "expiring": map[string]any{"jobs": 0, "exact": true},
		})
		attend.Queues(t, e)
		for _, id := range []string{"a", "b", "c"} {
			f.do("POST", jobs, `{"payload":1,"id":"`+id+`"}`).want(t, 202)
		}
		at := func(forecast any, field string) time.Duration {
			t.Helper()
			m, _ := forecast.(map[string]any)
			text, ok := m[field].(string)
			if !ok {
				return -1
			}
			when, err := time.Parse(time.RFC3339Nano, text)
			if err != nil {
				t.Fatal(err)
			}
			return time.Until(when).Round(30 * time.Minute)
		}
		a := f.do("POST", quote, `{"jobs":50000,"cost":2}`)
		a.want(t, 200, "fit", 7, "deferred", 0, "refused", 49993, "refused_as", "full", "paused", false, "then", nil)
		if now := a.body["now"]; at(now, "first_at") != 3*time.Hour || at(now, "last_at") != 15*time.Hour ||
			at(now, "drained_at") != 2*time.Hour {
			t.Error(a.text)
		}
		f.do("POST", quote, `{"jobs":3,"lane":"x"}`).want(t, 200, "fit", 2, "refused", 1, "refused_as", "lane_full")
		f.do("POST", email+"/pause", "").want(t, 200)
		a = f.do("POST", quote, `{"rate":"1/4h"}`)
		a.want(t, 200, "fit", 0, "refused", 0, "refused_as", nil, "paused", true)
		for _, which := range []string{"now", "then"} {
			if d, _ := a.body[which].(map[string]any); d["never"] != "paused" || d["drained_at"] != nil || d["exact"] != false {
				t.Error(a.text)
			}
		}
		f.do("POST", email+"/resume", "").want(t, 200)
		a = f.do("POST", quote, `{"rate":"1/4h"}`)
		if then := a.body["then"]; at(a.body["now"], "drained_at") != 2*time.Hour || at(then, "drained_at") != 8*time.Hour ||
			at(then, "first_at") != -1 {
			t.Error(a.text)
		}
		if i, err := e.Get(t.Context(), "email"); err != nil || i.Appended != 3 || i.Refused != 0 ||
			i.Spec.Rate.String() != "1/h" {
			t.Errorf("asking changed it: %+v, %v", i, err)
		}

		for body, field := range map[string]string{
			`{}`: "jobs", `{"jobs":0}`: "jobs", `{"jobs":0,"rate":"1/s"}`: "jobs", `{"jobs":-1}`: "jobs",
			`{"jobs":1000000000000000000}`: "jobs", `{"jobs":1e18}`: "jobs", `{"jobs":1.5}`: "jobs",
			`{"jobs":99999999999999999999}`: "jobs", `{"jobs":"1"}`: "jobs", `{"jobs":1,"cost":0}`: "cost",
			`{"jobs":1,"cost":1001}`: "cost", `{"jobs":1,"lane":""}`: "lane", `{"rate":"fast"}`: "rate", `{"rate":5}`: "rate",
		} {
			f.do("POST", quote, body).want(t, 400, "reason", "invalid_field", "field", field)
		}
		f.do("POST", quote, `{"job":1}`).want(t, 400, "reason", "unknown_field", "field", "job")
		f.do("POST", quote, ``).want(t, 400, "reason", "invalid_json")
		f.do("POST", quote, `{"jobs":1}`, "Content-Type", "text/plain").want(t, 415)
	})
}

// How many would expire, and that a job is shown with when it does.
func TestQuoteTellsWhatExpires(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, _ queue.Engine) {
		expiring := func(ask, forecast, want string) {
			t.Helper()
			a := f.do("POST", quote, ask)
			if of, _ := a.body[forecast].(map[string]any); a.status != 200 || fmt.Sprint(of["expiring"]) != want {
				t.Errorf("%s: %s, want %s", ask, a.text, want)
			}
		}
		f.do("PUT", email, `{"rate":"1/s"}`).want(t, 201)
		expiring(`{"jobs":1}`, "now", "map[exact:true jobs:0]")
		until := time.Now().Add(time.Hour).UTC().Truncate(time.Second).Format(time.RFC3339)
		for _, id := range []string{"a", "b", "c"} {
			f.do("POST", jobs, `{"payload":1,"id":"`+id+`","expires_at":"`+until+`"}`).want(t, 202)
		}
		f.do("GET", jobs+"/b", "").want(t, 200, "expires_at", until)
		if a := f.do("GET", jobs+"?state=waiting", ""); strings.Count(a.text, `"expires_at":"`+until) != 3 {
			t.Error(a.text)
		}
		expiring(`{"jobs":5,"rate":"1/2h"}`, "now", "map[exact:true jobs:0]")
		expiring(`{"jobs":5,"rate":"1/2h"}`, "then", "map[exact:true jobs:2]")
		f.do("POST", jobs, `{"payload":1,"lane":"x"}`).want(t, 202)
		expiring(`{"rate":"1/2h"}`, "then", "map[exact:false jobs:2]")
	})
}

// A job that has not left says why.
func TestWhy(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, _ queue.Engine) {
		f.do("PUT", email, `{"rate":"1/h"}`).want(t, 201)
		due := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		for id, more := range map[string]string{"a": "", "s": `,"not_before":"` + due.Format(time.RFC3339) + `"`} {
			f.do("POST", jobs, `{"payload":1,"id":"`+id+`"`+more+`}`).want(t, 202)
		}
		f.do("GET", jobs+"/a", "").want(t, 200, "why", map[string]any{"by": "drainer"})
		f.do("GET", jobs+"/s", "").want(t, 200, "why", map[string]any{"by": "scheduled", "until": due.Format(time.RFC3339)})
		f.do("POST", email+"/pause", `{"reason":"the provider is down"}`).want(t, 200)
		f.do("GET", jobs+"/a", "").want(t, 200, "why", map[string]any{"by": "paused", "reason": "the provider is down"})
		f.do("POST", jobs+"/a/cancel", "").want(t, 200)
		f.do("GET", jobs+"/a", "").want(t, 200, "state", "cancelled", "why", nil)
	})
}

func TestTimetable(t *testing.T) {
	const timetable = email + "/timetable"
	onBoth(t, func(t *testing.T, f *fixture, e queue.Engine) {
		f.do("GET", timetable, "").want(t, 404, "reason", "unknown_queue")
		f.do("PUT", email, `{"rate":"1/s"}`).want(t, 201)
		f.do("GET", timetable, "").want(t, 200, "standstill", nil, "departures", []any{}, "more", nil)
		for _, id := range []string{"a", "b", "c"} {
			f.do("POST", jobs, `{"payload":1,"id":"`+id+`"}`).want(t, 202)
		}
		a := f.do("GET", timetable+"?for=2.5s", "")
		a.want(t, 200)
		rows, _ := a.body["departures"].([]any)
		if still, ok := a.body["standstill"].(map[string]any); !ok || still["ends"] != "a drainer asks for jobs" ||
			len(rows) != 3 {
			t.Error(a.text)
		}
		for n, row := range rows {
			d, _ := row.(map[string]any)
			if d["id"] != []string{"a", "b", "c"}[n] || d["exact"] != false || d["why"] != "drainer" || d["attempt"] != 1.0 {
				t.Error(row)
			}
		}
		if i, err := e.Get(t.Context(), "email"); err != nil || i.Leased != 0 || i.Waiting != 3 {
			t.Errorf("asking changed it: %+v, %v", i, err)
		}

		until := time.Now().Add(time.Hour).UTC().Truncate(time.Second).Format(time.RFC3339)
		f.do("POST", email+"/pause", `{"reason":"why not","until":"`+until+`"}`).want(t, 200)
		a = f.do("GET", timetable+"?for=10m", "")
		a.want(t, 200, "departures", []any{})
		still, _ := a.body["standstill"].(map[string]any)
		if still["until"] != until || still["since"] == nil ||
			still["ends"] != "that time is over, or the queue is resumed" {
			t.Error(a.text)
		}

		for _, span := range []string{"0", "0s", "-1s", "1y", "10m1s", "", "60", "1e9s", "%00", "9999999999h"} {
			f.do("GET", timetable+"?for="+span, "").want(t, 400, "reason", "invalid_field", "field", "for")
		}
		f.do("GET", timetable+"?for=1s&for=2s", "").want(t, 400, "reason", "duplicate_field", "field", "for")
	})
}

// The lanes of the jobs that wait are told by their depth, with how many of each leave: they take turns.
func TestLanesByDepth(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, _ queue.Engine) {
		f.do("PUT", email, `{"rate":"1/s"}`).want(t, 201)
		f.do("POST", jobs, `{"payload":1}`).want(t, 202)
		for lane, n := range map[string]int{"crowd": 6, "<b>": 2} {
			for range n {
				f.do("POST", jobs, `{"payload":1,"lane":"`+lane+`"}`).want(t, 202)
			}
		}
		a := f.do("GET", email+"/timetable?for=4500ms", "")
		a.want(t, 200, "lanes_more", nil)
		var found struct{ Lanes []wire.LaneDepth }
		if err := json.Unmarshal([]byte(a.text), &found); err != nil || len(found.Lanes) != 3 {
			t.Fatalf("%v: %s", err, a.text)
		}
		var leave int64
		for n, want := range []wire.LaneDepth{
			{Lane: "crowd", Waiting: 6}, {Lane: "<b>", Waiting: 2}, {Lane: "", Waiting: 1},
		} {
			l := found.Lanes[n]
			if l.Lane != want.Lane || l.Waiting != want.Waiting || l.Leaves < 1 || l.Leaves > 3 {
				t.Errorf("%+v, want %+v", l, want)
			}
			leave += l.Leaves
		}
		if departures, _ := a.body["departures"].([]any); leave != int64(len(departures)) {
			t.Errorf("%d leave of %d departures", leave, len(departures))
		}
	})
}

func TestForecast(t *testing.T) {
	const forecast = email + "/forecast"
	onBoth(t, func(t *testing.T, f *fixture, e queue.Engine) {
		f.do("GET", forecast, "").want(t, 404, "reason", "unknown_queue")
		f.do("PUT", email, `{"rate":"50/s","lanes":{"rate":"2/s"}}`).want(t, 201)
		f.do("GET", forecast, "").want(t, 200, "exact", false)
		list := make([]queue.Job, 0, 320)
		for n := range 320 {
			lane := "a"
			if n%16 == 15 {
				lane = "b"
			}
			list = append(list, queue.Job{
				Queue: "email", ID: fmt.Sprint("j", n), Lane: lane, Payload: []byte("1"), Cost: 1,
				ContentType: queue.DefaultContentType,
			})
		}
		if _, err := e.Append(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		a := f.do("GET", forecast, "")
		a.want(t, 200, "finish_at", nil)
		if bends := a.body["bends"].([]any); bends[len(bends)-1].(map[string]any)["why"] != "drainer" {
			t.Errorf("nobody asks for jobs: %s", a.text)
		}
		attend.Queues(t, e)
		ends := func(a *answer) (finish time.Duration, drained any) {
			t.Helper()
			a.want(t, 200, "exact", false)
			now, err1 := time.Parse(time.RFC3339Nano, fmt.Sprint(a.body["now"]))
			at, err2 := time.Parse(time.RFC3339Nano, fmt.Sprint(a.body["finish_at"]))
			if err1 != nil || err2 != nil {
				t.Fatalf("%v, %v: %s", err1, err2, a.text)
			}
			for _, b := range a.body["bends"].([]any) {
				if lane := b.(map[string]any)["drained_lane"]; lane != nil && drained == nil {
					drained = lane
				}
			}
			return at.Sub(now), drained
		}
		finish, drained := ends(f.do("GET", forecast, ""))
		if off := finish - 150*time.Second; off.Abs() > 1500*time.Millisecond || drained != "b" {
			t.Errorf("300 jobs of a lane at 2/s leave within %v; drained first: %v", finish, drained)
		}
		if finish, _ := ends(f.do("GET", forecast+"?rate=1/s", "")); finish < 310*time.Second || finish > 320*time.Second {
			t.Errorf("320 jobs at 1/s leave within %v", finish)
		}
		f.do("GET", forecast+"?rate=fast", "").want(t, 400, "field", "rate")
		f.do("GET", forecast+"?rate=", "").want(t, 400, "field", "rate")
		f.do("GET", forecast+"?rate=1/s&rate=2/s", "").want(t, 400, "field", "rate")
	})
}
