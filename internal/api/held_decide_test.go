package api_test

import (
	"testing"

	"github.com/penstock/penstock/pull"
)

// Held jobs are listed and decided about, one by one and by the many.
func TestHeldJobs(t *testing.T) {
	f, _ := servePull(t, pull.Options{})
	f.do("PUT", email, `{"rate":"unlimited","pull":true}`).want(t, 201)
	for _, id := range []string{"a", "b", "c", "d"} {
		f.do("POST", jobs, `{"payload":1,"id":"`+id+`"}`).want(t, 202)
	}
	leases := f.pulled(`{"max":4,"wait":"30s"}`, "a", "b", "c", "d")
	for i, l := range leases {
		leases[i] = l + `,"outcome":"held","reason":"the connection was lost"`
	}
	f.do("POST", email+"/settle", list(leases...)).want(t, 200)
	f.do("GET", jobs+"?state=held&reason=lost&limit=1", "").want(t, 200)
	f.do("GET", jobs+"/a", "").want(t, 200, "state", "held", "reason", "the connection was lost")
	f.do("POST", jobs+"/a/cancel", "").want(t, 409, "reason", "not_cancellable", "state", "held")

	f.do("POST", jobs+"/a/decide", `{"decision":"perhaps"}`).want(t, 400, "field", "decision")
	f.do("POST", jobs+"/a/decide", `{"decision":"release","note":"x"}`).want(t, 400, "field", "note")
	f.do("POST", jobs+"/none/decide", `{"decision":"release"}`).want(t, 404, "reason", "unknown_job")
	for range 2 { // it may be repeated
		f.do("POST", jobs+"/a/decide", `{"decision":"delivered","note":"in their log"}`).want(t, 200, "state", "delivered")
	}
	f.do("POST", jobs+"/a/decide", `{"decision":"dead"}`).want(t, 409, "reason", "not_held", "state", "delivered")
	f.do("GET", jobs+"/a", "").want(t, 200, "reason", "in their log")

	f.do("POST", email+"/decide", `{}`).want(t, 400, "field", "decision")
	f.do("POST", email+"/decide", `{"decision":"dead","ids":["b"],"reason":"x"}`).want(t, 400, "field", "ids")
	f.do(
		"POST", email+"/decide", `{"decision":"dead","reason":"lost","dry_run":true}`,
	).want(t, 200, "matched", 3.0, "looked_at", 3.0)
	f.do("POST", email+"/decide", `{"decision":"dead","ids":["b","a"]}`).want(t, 200, "dead", 1.0, "not_held", 1.0)
	f.do("POST", email+"/decide", `{"decision":"release","reason":"lost"}`).want(t, 200, "released", 2.0)
	f.pulled(`{"max":4,"wait":"30s"}`, "c", "d")
}
