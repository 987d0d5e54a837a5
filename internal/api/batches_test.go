package api_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
)

func TestBatches(t *testing.T) {
	const batches = email + "/batches"
	onBoth(t, func(t *testing.T, f *fixture, e queue.Engine) {
		f.do("GET", batches, "").want(t, 404, "reason", "unknown_queue")
		f.do("PUT", email, `{"rate":"50/s","lanes":{"rate":"2/s"}}`).want(t, 201)
		if a := f.do("GET", batches, ""); a.status != 200 || a.text != `{"batches":[]}`+"\n" {
			t.Errorf("without batches: %d %s", a.status, a.text)
		}
		f.do("GET", batches+"/spring", "").want(t, 404, "reason", "unknown_batch")
		for n := range 40 {
			lane := "a"
			if n%4 == 3 {
				lane = "b"
			}
			job := fmt.Sprintf(`{"id":"j%d","lane":%q,"batch":"spring","payload":1}`, n, lane)
			f.do("POST", email+"/jobs", job).want(t, 202)
		}
		f.do("POST", email+"/jobs", `{"id":"other","lane":"a","batch":"50% / Ä","payload":1}`).want(t, 202)
		f.do("GET", email+"/jobs/j0", "").want(t, 200, "batch", "spring")
		f.do("GET", batches+"/spring", "").want(t, 200,
			"accepted", 40.0, "remaining", 40.0, "finish_at", nil, "why", "drainer") // nobody asks for jobs
		for p := range e.Partitions() { // a drainer appears
			r := queue.ReserveRequest{Partition: p, Number: 1, Max: 1, Client: queue.Client{ID: "c", Name: "c"}}
			if _, err := e.Reserve(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		a := f.do("GET", batches+"/spring", "")
		a.want(t, 200, "slowest_lane", "a", "remaining", 40.0, "failures", 0.0)
		at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(a.body["finish_at"]))
		if in := time.Until(at); err != nil || in < 12*time.Second || in > 16*time.Second {
			t.Errorf("30 jobs of a lane at 2/s leave within %v, %v", in, err)
		}
		f.do("POST", email+"/jobs/other/cancel", "").want(t, 200)
		f.do("GET", batches+"/"+url.PathEscape("50% / Ä"), "").want(t, 200,
			"batch", "50% / Ä", "accepted", 1.0, "remaining", 0.0, "cancelled", 1.0, "finish_at", nil)
		f.do("POST", email+"/jobs/j38/cancel", "").want(t, 200) // the last of its lane, though others remain
		f.do("POST", email+"/jobs/j39/cancel", "").want(t, 200)
		f.do("GET", batches+"/spring", "").want(t, 200, "remaining", 38.0, "at_most", true)

		page := f.do("GET", batches+"?limit=1", "")
		page.want(t, 200, "next", "50% / Ä")
		page = f.do("GET", batches+"?limit=1&after="+url.QueryEscape("50% / Ä"), "")
		if list := page.body["batches"].([]any); len(list) != 1 || list[0].(map[string]any)["batch"] != "spring" {
			t.Errorf("the second page is %s", page.text)
		}
		page.want(t, 200, "next", nil)
		f.do("GET", batches+"?limit=100", "").want(t, 200, "next", nil)
		for _, ask := range []string{"?limit=0", "?limit=101", "?limit=x", "?limit=1&limit=2", "?after=%0a", "/%FF", "/%0A"} {
			f.do("GET", batches+ask, "").want(t, 400)
		}
	})
}

func TestBatchOfAJobIsText(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, _ queue.Engine) {
		f.do("PUT", email, `{"rate":"50/s"}`).want(t, 201)
		for _, label := range []string{`""`, `1`, `null`, `"."`, `"a\nb"`, `"\u0000"`} {
			f.do("POST", email+"/jobs", `{"batch":`+label+`,"payload":1}`).want(t, 400, "field", "batch")
		}
		f.do("POST", email+"/jobs", `{"batch":"a","batch":"b","payload":1}`).want(t, 400)
	})
}
