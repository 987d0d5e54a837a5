package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
)

// Whoever loses what he may do keeps no stream open, and waits for nothing more.
func TestStreamEndsWithTheRole(t *testing.T) {
	s := secure(t, api.Options{})
	made := s.by(s.operator, "POST", "/v1/tokens", `{"app":"acme","grants":[{"role":"produce"},{"role":"consume"}]}`)
	made.want(t, 201)
	token := made.body["secret"].(string)
	body, feed := io.Pipe()
	req, err := http.NewRequest(http.MethodPost, s.url+"/v1/queues/acme-mail/jobs", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answers := bufio.NewReader(resp.Body)
	say(t, feed, `{"payload":1}`+"\n")
	wantLine(t, line(t, answers), "status", 202)
	s.put("/v1/queues/acme-empty", `{"rate":"1/s","pull":true}`)
	waited := make(chan *answer, 1)
	go func() { waited <- s.by(token, "POST", "/v1/queues/acme-empty/leases", `{"wait":"50s"}`) }()
	time.Sleep(50 * time.Millisecond) // so that it waits; if it does not yet, it is refused as well
	begun := time.Now()
	s.by(s.operator, "DELETE", made.header.Get("Location"), "").want(t, 204)
	if rest, _ := io.ReadAll(answers); !strings.Contains(string(rest), "unauthenticated") {
		t.Errorf("the stream ended with %q", rest)
	}
	(<-waited).want(t, 401, "reason", "unauthenticated")
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	s.by(token, "GET", "/v1/whoami", "").want(t, 401)
}

// An app that is deleted ends its tokens at once; what it had in flight is the operator's, and nothing is lost.
func TestAppDeletedWithJobsInFlight(t *testing.T) {
	s := secure(t, api.Options{})
	consumer := s.with("acme", auth.Consume)
	leased := s.by(consumer, "POST", "/v1/queues/acme-mail/leases", `{"wait":"10s"}`)
	leased.want(t, 200)
	job := leased.body["jobs"].([]any)[0].(map[string]any)
	s.by(s.operator, "DELETE", "/v1/apps/acme", "").want(t, 204)
	settle := fmt.Sprintf(`{"jobs":[{"id":"j1","lease":%q,"outcome":"delivered"}]}`, job["lease"])
	s.by(consumer, "POST", "/v1/queues/acme-mail/settle", settle).want(t, 401, "reason", "unauthenticated")
	s.by(s.operator, "GET", "/v1/queues/acme-mail/jobs/j1", "").want(t, 200, "state", "leased")
	// One of the same name has none of the tokens.
	s.put("/v1/apps/acme?adopt=true", `{"prefixes":["acme-*"]}`)
	s.by(consumer, "POST", "/v1/queues/acme-mail/settle", settle).want(t, 401)
	s.by(s.operator, "POST", "/v1/queues/acme-mail/settle", settle).want(t, 200)
	s.by(s.operator, "GET", "/v1/queues/acme-mail/jobs/j1", "").want(t, 200, "state", "delivered")
}

// The same Idempotency-Key of two apps is two jobs.
func TestIdempotencyKeyOfTwoApps(t *testing.T) {
	s := secure(t, api.Options{})
	for _, app := range []string{"acme", "beta"} {
		token := s.with(app, auth.Produce)
		for _, status := range []int{202, 200} {
			s.by(token, "POST", "/v1/queues/"+app+"-mail/jobs", `{"payload":"`+app+`"}`, "Idempotency-Key", "same").
				want(t, status)
		}
		s.by(token, "GET", "/v1/queues/"+map[string]string{"acme": "beta", "beta": "acme"}[app]+"-mail/jobs/same", "").
			want(t, 404, "reason", "unknown_queue")
	}
}

// Of two operators who change an app at once with the revision that both have read, one is told.
func TestTwoAdminsAtOnce(t *testing.T) {
	s := secure(t, api.Options{})
	tag := s.by(s.operator, "GET", "/v1/apps/acme", "").header.Get("Etag")
	answers := make([]*answer, 8)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			answers[i] = s.by(s.operator, "PUT", "/v1/apps/acme",
				fmt.Sprintf(`{"prefixes":["acme-*"],"limits":{"rate":"%d/s"}}`, i+1), "If-Match", tag)
		})
	}
	all.Wait()
	won := -1
	for i, a := range answers {
		switch a.status {
		case 200:
			if won >= 0 {
				t.Error("two have changed it")
			}
			won = i
		case 412:
			if a.body["revision"] == nil {
				t.Errorf("no revision: %s", a.text)
			}
		default:
			t.Errorf("%d %s", a.status, a.text)
		}
	}
	s.by(s.operator, "GET", "/v1/rules/app.acme", "").want(t, 200, "rate", fmt.Sprint(won+1, "/s"))
	s.by(s.operator, "PUT", "/v1/apps/gamma", `{"prefixes":["acme-x*"]}`).want(t, 400, "field", "prefixes[0]")
	s.by(s.operator, "PUT", "/v1/apps/gamma", `{"prefixes":["g-*"]}`, "If-None-Match", "*").want(t, 201)
	s.by(s.operator, "PUT", "/v1/apps/gamma", `{"prefixes":["g-*"]}`, "If-None-Match", "*").want(t, 412)
}

// Strangers learn from the pages that ask nobody no more than whether jobs are taken.
func TestReadinessForStrangers(t *testing.T) {
	s := secure(t, api.Options{})
	a := s.do("GET", "/readyz", "")
	a.want(t, 200, "status", "degraded", "drainers", "none", "detail", nil, "auth", nil)
	s.by(s.with("acme", auth.Admin), "GET", "/readyz", "").want(t, 200, "detail", nil)
	if b := s.by(s.operator, "GET", "/readyz", ""); b.body["detail"] == nil {
		t.Errorf("the operator is not told: %s", b.text)
	}
	serve(t, api.Options{}).do("GET", "/readyz", "").want(t, 200, "auth", "off")
}

// What is known of tokens holds while the store is away; one that is not known may exist.
func TestUnknownTokenWhileTheStoreIsAway(t *testing.T) {
	s := secure(t, api.Options{})
	known := s.with("acme", auth.View)
	s.by(known, "GET", "/v1/queues", "").want(t, 200)
	s.documents.away.Store(true)
	s.by(known, "GET", "/v1/queues", "").want(t, 200)
	unknown, _ := auth.NewToken()
	a := s.by(unknown, "GET", "/v1/queues", "")
	a.want(t, 503, "reason", "auth_unavailable")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	s.documents.away.Store(false)
	await.Until(
		t,
		"it is known that there is none",
		func() bool { return s.by(unknown, "GET", "/v1/queues", "").status == 401 },
	)
}

// A request that is refused is answered before its body has come.
func TestRefusedBeforeTheBody(t *testing.T) {
	s := secure(t, api.Options{})
	body, feed := io.Pipe()
	defer feed.Close()
	req := httptest.NewRequest(http.MethodPost, s.url+"/v1/queues/beta-mail/jobs", body)
	req.RequestURI = ""
	req.Header.Set("Authorization", "Bearer "+s.with("acme", auth.Produce))
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("status %d", resp.StatusCode)
	}
}

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
	s.put("/v1/queues/ses", `{"rate":"100/s","limits":[{"quota":"1/w"},{"unit":"tokens","rate":"100/s","burst":50}],
		"estimate":{"tokens":{"default":1}}}`)
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
	for token, shown := range map[string]bool{s.operator: true, acme: false} {
		parent := s.by(token, "GET", "/v1/queues/ses.acme", "").body["parent"].(map[string]any)
		if (parent["quotas"] != nil) != shown || (parent["budgets"] != nil) != shown {
			t.Errorf("quotas and budgets of the parent are shown, want %v: %v", shown, parent)
		}
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
