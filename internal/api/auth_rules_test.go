package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
)

// A rule of the operator's counts for each app what it appends, whatever the jobs say of themselves; in a stream too.
func TestRulesCountByTheProvenApp(t *testing.T) {
	s := secure(t, api.Options{})
	s.put("/v1/rules/ses.each", `{"algorithm":"meter","rate":"1/h","burst":2,"key":"{app}"}`)
	s.put("/v1/queues/ses", `{"rate":"100/s","rules":["ses.each"]}`)
	acme, beta := s.with("acme", auth.Produce), s.with("beta", auth.Produce)
	const posing = `{"payload":{"app":"beta"},"lane":"beta","headers":{"app":"beta"}}`
	s.by(acme, "POST", "/v1/queues/ses.acme/jobs", posing).want(t, 202)
	a := s.by(acme, "POST", "/v1/queues/ses.acme/jobs", posing+"\n"+posing+"\n", "Content-Type", "application/x-ndjson")
	a.want(t, 200)
	if want := `"status":429,"reason":"limit_reached"`; !strings.Contains(a.text, `"line":1,"status":202`) ||
		!strings.Contains(a.text, want) {
		t.Errorf("the stream was answered %s", a.text)
	}
	s.by(acme, "POST", "/v1/queues/ses.acme/jobs", posing).want(t, 429, "reason", "limit_reached", "rule", "ses.each")
	s.by(beta, "POST", "/v1/queues/ses.beta/jobs", posing).want(t, 202)
	s.by(s.operator, "POST", "/v1/queues/ses.acme/jobs", posing).want(t, 202)
	s.by(s.operator, "POST", "/v1/rules/ses.each/peek", `{"key":"-"}`).want(t, 200, "remaining", 0)
	s.by(s.operator, "POST", "/v1/rules/ses.each/peek", `{"key":"acme"}`).want(t, 200, "allowed", false)
}

// With produce one gives back the places that one holds, and not what others took.
func TestRefundOfWhatIsOnesOwn(t *testing.T) {
	s := secure(t, api.Options{})
	s.put("/v1/rules/acme-places", `{"algorithm":"concurrency","limit":2,"ttl":"1h"}`)
	produce, operate := s.with("acme", auth.Produce), s.with("acme", auth.Operate)
	taken := s.by(produce, "POST", "/v1/rules/acme-places/take", "{}")
	taken.want(t, 200)
	s.by(produce, "POST", "/v1/rules/acme-places/refund", `{"lease":"`+taken.body["lease"].(string)+`"}`).want(t, 200)
	s.by(produce, "POST", "/v1/rules/acme-rule/take", "{}").want(t, 200)
	s.by(produce, "POST", "/v1/rules/acme-rule/refund", "{}").want(t, 403, "reason", "forbidden", "field", "receipt")
	s.by(produce, "POST", "/v1/rules/acme-rule/refund", `{"takes":[{"lease":"x"},{}]}`).want(t, 403)
	s.by(operate, "POST", "/v1/rules/acme-rule/refund", "{}").want(t, 200)
	s.by(operate, "POST", "/v1/rules/acme-rule/reset", "{}").want(t, 200)
	var recorded []string
	await.Until(t, "it is recorded", func() bool {
		recorded = nil
		for _, e := range s.entries() {
			if e.Name == "acme-rule" && e.Refused == "" && e.Actor.App == "acme" {
				recorded = append(recorded, string(e.What)+" "+e.Detail+" by "+e.Actor.Operation)
			}
		}
		return len(recorded) == 2
	})
	if got := fmt.Sprint(recorded); got != "[refunded 1 of its keys by refundRule reset 1 of its keys by resetRule]" {
		t.Errorf("recorded %s", got)
	}
}

// Where apps share a queue's outflow, each by a child of its own, the turns go by app first and by lane second: one
// that brings a hundred lanes has no more of it than one that brings a single job at a time.
func TestSharingIsByAppFirst(t *testing.T) {
	s := secure(t, api.Options{})
	s.put("/v1/queues/ses", `{"rate":"unlimited","burst":1}`)
	acme, beta := s.with("acme", auth.Produce), s.with("beta", auth.Produce)
	for i := range 100 {
		s.by(acme, "POST", "/v1/queues/ses.acme/jobs", fmt.Sprintf(`{"payload":1,"lane":"lane-%d"}`, i)).want(t, 202)
	}
	for range 5 {
		s.by(beta, "POST", "/v1/queues/ses.beta/jobs", `{"payload":1,"lane":"only"}`).want(t, 202)
	}
	s.put("/v1/queues/ses.acme", `{"rate":"unlimited"}`)
	s.put("/v1/queues/ses.beta", `{"rate":"unlimited"}`)
	var order []string
	lanes := map[string]bool{}
	for number := uint64(1); len(order) < 10; number++ {
		r, err := s.store.Reserve(t.Context(), queue.ReserveRequest{
			Client: queue.Client{ID: "drainer"}, Number: number, Max: 10 - len(order),
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Jobs {
			order = append(order, r.Jobs[i].Queue)
			lanes[r.Jobs[i].Lane] = true
		}
	}
	of := map[string]int{}
	for _, name := range order {
		of[name]++
	}
	if of["ses.acme"] != 5 || of["ses.beta"] != 5 || len(lanes) != 6 {
		t.Errorf("the turns went to %v, in %d lanes", order, len(lanes))
	}
}

// Of a parent that is not his an app sees that it holds up his queue and until when, and not by which quota or pause.
func TestStatusByForeignParent(t *testing.T) {
	s := secure(t, api.Options{})
	s.put("/v1/queues/ses", `{"rate":"100/s","limits":[{"quota":"1/w"}]}`)
	acme := s.with("acme", auth.View, auth.Produce)
	for range 2 {
		s.by(acme, "POST", "/v1/queues/ses.acme/jobs", `{"payload":1}`).want(t, 202)
	}
	if _, err := s.store.Reserve(t.Context(), queue.ReserveRequest{
		Client: queue.Client{ID: "drainer"}, Number: 1, Max: 10,
	}); err != nil {
		t.Fatal(err)
	}
	status := func(token string) map[string]any {
		queue := s.by(token, "GET", "/v1/queues/ses.acme", "")
		timetable := s.by(token, "GET", "/v1/queues/ses.acme/timetable", "")
		queue.want(t, 200)
		timetable.want(t, 200)
		v := queue.body["status"].(map[string]any)
		if w := timetable.body["status"].(map[string]any); v["code"] != w["code"] || v["reason"] != w["reason"] ||
			v["claimed_by"] != w["claimed_by"] {
			t.Errorf("the timetable says %v, the queue %v", w, v)
		}
		return v
	}
	if v := status(s.operator); v["code"] != "quota" || v["reason"] != "1/w" {
		t.Fatalf("the operator sees %v", v)
	}
	if v := status(acme); v["code"] != "quota" || v["queue"] != "ses" || v["until"] == nil || v["reason"] != nil {
		t.Errorf("under a quota acme sees %v", v)
	}
	s.by(s.operator, "POST", "/v1/queues/ses/pause", `{"reason":"invoice"}`, "Penstock-By", "ann").want(t, 200)
	v := status(acme)
	if v["code"] != "parent_paused" || v["reason"] != nil || v["by"] != nil || v["claimed_by"] != nil {
		t.Errorf("under a pause acme sees %v", v)
	}
}
