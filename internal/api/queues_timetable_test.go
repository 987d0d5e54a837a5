package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

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
