package api_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
)

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
		for p := range e.Partitions() { // a drainer appears
			r := queue.ReserveRequest{Partition: p, Number: 1, Max: 1, Client: queue.Client{ID: "c", Name: "c"}}
			if _, err := e.Reserve(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
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
