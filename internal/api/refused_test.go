package api_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
)

// Refused changes are recorded with who asked; refused reads, and appends that found no room, are not.
func TestRefusalsAreRecorded(t *testing.T) {
	s := secure(t, api.Options{})
	acme := s.with("acme", auth.Produce, auth.Configure)
	id := "token:" + strings.Split(acme, "_")[1]
	if who := s.by(acme, "GET", "/v1/whoami", "").body["name"]; who != id {
		id = fmt.Sprint(who)
	}
	before := len(s.records.refused())
	for range 3 {
		s.by(acme, "POST", "/v1/queues/acme-mail/pause", "", "Penstock-By", "ann", "X-Request-Id", "r1").want(t, 403)
	}
	s.by(acme, "PUT", "/v1/queues/acme-mail", `{"rate":"fast"}`).want(t, 400)
	s.by(acme, "DELETE", "/v1/queues/acme-mail", "", "If-Match", `"999"`).want(t, 412)
	s.by(acme, "POST", "/v1/queues/beta-mail/jobs", `{"payload":1}`).want(t, 404)
	s.by(acme, "POST", "/v1/queues/acme-mail/jobs", `no JSON`).want(t, 400)
	s.by(acme, "GET", "/v1/queues/beta-mail", "").want(t, 404)
	s.do("DELETE", "/v1/queues/acme-mail", "").want(t, 401)
	s.by(acme, "DELETE", "/v1/queues/"+strings.Repeat("x", 300)+"%0a", "").want(t, 404)
	want := []string{
		"pauseQueue forbidden of queue acme-mail by " + id + " x1",
		"putQueue invalid_field of queue acme-mail by " + id + " x1",
		"deleteQueue revision_mismatch of queue acme-mail by " + id + " x1",
		"appendJobs unknown_queue of queue beta-mail by " + id + " x1",
		"deleteQueue unauthenticated of queue acme-mail by 127.0.0.1 x1",
		"deleteQueue unknown_queue of queue " + fmt.Sprintf(
			"%q",
			strings.Repeat("x", 80),
		) + "... (301 bytes) by " + id + " x1",
	}
	if got := s.records.refused()[before:]; !slices.Equal(got, want) {
		t.Errorf("recorded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	a := s.by(s.operator, "GET", "/v1/audit?refused=true&operation=pauseQueue", "")
	a.want(t, 200, "more", false)
	e := a.body["records"].([]any)[0].(map[string]any)["entry"].(map[string]any)
	actor := e["actor"].(map[string]any)
	if actor["address"] != "127.0.0.1" || actor["request"] != "r1" || actor["note"] != "ann" || actor["app"] != "acme" ||
		actor["token"] == "" ||
		e["what"] != "refused" {
		t.Errorf("the entry is %v", e)
	}
}

// The same refusal is recorded at once, and then once a minute with how many there were, the last one too.
func TestRefusalsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecords()
		stopping, stop := context.WithCancel(context.Background())
		add := api.Refusals(r, stopping)
		times := func() (all []int64) {
			for i := range r.entries {
				e, _ := r.entries[i].Entry()
				all = append(all, e.Times)
			}
			return all
		}
		for range 1000 {
			add("10.0.0.1", "putQueue", "unauthenticated")
		}
		add("10.0.0.2", "putQueue", "unauthenticated")
		if got := times(); !slices.Equal(got, []int64{1, 1}) {
			t.Errorf("at once: %v", got)
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if got := times(); !slices.Equal(got, []int64{1, 1, 999}) {
			t.Errorf("a minute later: %v", got)
		}
		for range 10 {
			add("10.0.0.1", "putQueue", "unauthenticated")
		}
		stop()
		synctest.Wait()
		if got := times(); !slices.Equal(got, []int64{1, 1, 999, 10}) {
			t.Errorf("when the server stops: %v", got)
		}
	})
}

// Any number of clients is counted in bounded memory.
func TestRefusalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecords()
		stopping, stop := context.WithCancel(context.Background())
		add := api.Refusals(r, stopping)
		for i := range 10_500 {
			add(fmt.Sprint("client ", i), "putQueue", "forbidden")
		}
		if n := len(r.entries); n != 10_001 {
			t.Errorf("%d entries", n)
		}
		stop()
		synctest.Wait()
		last, _ := r.entries[len(r.entries)-1].Entry()
		if last.Times != 499 {
			t.Errorf("the others are %d", last.Times)
		}
	})
}

// The audit log page by page, from either end, is the same; an app's admin sees what is about his app, without whose
// token it was and from where, and not the chain.
func TestAuditPages(t *testing.T) {
	s := secure(t, api.Options{})
	for i := range 250 {
		name, app := "acme-mail", "acme"
		if i%2 == 1 {
			name, app = "beta-mail", "beta"
		}
		err := s.records.Record(t.Context(), queue.AuditEntry{
			Of: "queue", Name: name, What: queue.Paused, Revision: int64(i),
			Actor: queue.Actor{Name: "token:x", App: app, Token: "x", Address: "10.0.0.1"},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	walk := func(token, query string) (revisions []int, first map[string]any) {
		for after := ""; ; {
			a := s.by(token, "GET", "/v1/audit?what=paused&limit=30&"+query+"&after="+after, "")
			a.want(t, 200)
			for _, r := range a.body["records"].([]any) {
				r := r.(map[string]any)
				if first == nil {
					first = r
				}
				n, _ := r["entry"].(map[string]any)["revision"].(float64)
				revisions = append(revisions, int(n))
			}
			if a.body["more"] == false {
				return revisions, first
			}
			after = a.body["next"].(string)
		}
	}
	oldest, first := walk(s.operator, "order=oldest")
	newest, _ := walk(s.operator, "")
	slices.Reverse(newest)
	if len(oldest) != 250 || !slices.IsSorted(oldest) || !slices.Equal(oldest, newest) {
		t.Errorf("from the oldest %v, from the newest %v", oldest, newest)
	}
	text := first["text"].(string)
	if first["digest"] != string(queue.DigestOf([]byte(text))) {
		t.Errorf("the digest of %s is not %s", text, first["digest"])
	}
	acme := s.with("acme", auth.Admin)
	his, first := walk(acme, "order=oldest")
	if len(his) != 125 || his[1] != 2 || first["text"] != nil || first["digest"] != nil {
		t.Errorf("acme's admin sees %v, first %v", his, first)
	}
	s.by(s.operator, "POST", "/v1/queues/acme-mail/decide", "{}").want(t, 400) // recorded, by somebody else
	a := s.by(acme, "GET", "/v1/audit?refused=true&name=acme-mail", "")
	a.want(t, 200, "chains", nil)
	actor := a.body["records"].([]any)[0].(map[string]any)["entry"].(map[string]any)["actor"].(map[string]any)
	if actor["name"] == nil || actor["address"] != nil || actor["token"] != nil || actor["request"] != nil {
		t.Errorf("acme's admin sees of the operator %v", actor)
	}
	s.by(s.operator, "GET", "/v1/audit?after=x", "").want(t, 400, "field", "after")
	s.by(s.operator, "GET", "/v1/audit?order=up", "").want(t, 400, "field", "order")
	s.by(s.operator, "GET", "/v1/audit?limit=501", "").want(t, 400, "field", "limit")
	s.by(s.operator, "GET", "/v1/audit?refused=maybe", "").want(t, 400, "field", "refused")
	s.by(s.operator, "GET", "/v1/audit?since=now", "").want(t, 400, "field", "since")
	late := s.by(s.operator, "GET", "/v1/audit?since="+time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "")
	late.want(t, 200, "more", false, "records", "[]")
	// Whoever follows the log goes on where it ended.
	end := s.by(s.operator, "GET", "/v1/audit?order=oldest&limit=500", "")
	s.by(acme, "PUT", "/v1/apps/acme", "{}").want(t, 403)
	more := s.by(s.operator, "GET", "/v1/audit?order=oldest&after="+end.body["next"].(string), "")
	if n := len(more.body["records"].([]any)); n != 1 {
		t.Errorf("%d came since: %s", n, more.text)
	}
}

// The limits of an app, each passed by one.
func TestLimitsOfAnApp(t *testing.T) {
	s := secure(t, api.Options{})
	acme := s.with("acme", auth.Configure, auth.Produce, auth.Consume, auth.View)
	limits := func(l string) { s.put("/v1/apps/acme", `{"prefixes":["acme-*","ses.acme"],"limits":`+l+`}`) }
	const spec = `{"rate":"1/s","pull":true,"capacity":100,"max_bytes":"1MiB"}`
	limits(`{"queues":3,"rules":2}`)
	s.by(acme, "PUT", "/v1/queues/acme-a", spec).want(t, 201)
	s.by(acme, "PUT", "/v1/queues/acme-b", spec).want(t, 400, "field", "name")
	s.by(acme, "PUT", "/v1/queues/acme-a", spec).want(t, 200)
	s.by(acme, "PUT", "/v1/rules/acme-r", `{"algorithm":"meter","rate":"1/s"}`).want(t, 201)
	s.by(acme, "PUT", "/v1/rules/acme-s", `{"algorithm":"meter","rate":"1/s"}`).want(t, 400, "field", "name")
	s.by(acme, "PUT", "/v1/rules/acme-r", `{"algorithm":"meter","rate":"2/s"}`).want(t, 200)
	s.by(s.operator, "PUT", "/v1/queues/acme-c", spec).want(t, 201) // the operator's word counts
	limits(`{"bytes":"2MiB"}`)
	s.by(acme, "PUT", "/v1/queues/acme-a", `{"rate":"1/s","pull":true,"max_bytes":"2MiB"}`).
		want(t, 400, "field", "max_bytes")
	s.by(acme, "PUT", "/v1/queues/acme-a", `{"rate":"1/s","pull":true}`).want(t, 400, "field", "max_bytes")
	limits(`{"waits":1,"streams":1}`)
	waits := make(chan *answer, 2)
	for range 2 {
		go func() { waits <- s.by(acme, "POST", "/v1/queues/acme-a/leases", `{"wait":"1s"}`) }()
	}
	if a, b := <-waits, <-waits; min(a.status, b.status) != 200 || max(a.status, b.status) != 429 {
		t.Errorf("of two waits: %s and %s", a.text, b.text)
	}
	limits(`{"rate":"2/h"}`)
	await.Until(t, "the rate is known", func() bool { return s.by(acme, "GET", "/v1/whoami", "").status == 429 })
	a := s.by(acme, "GET", "/v1/queues", "")
	a.want(t, 429, "reason", "limit_reached", "rule", "app.acme")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	s.by(s.with("beta", auth.View), "GET", "/v1/queues", "").want(t, 200)
	limits(`{}`)
	await.Until(
		t,
		"there is no rate any more",
		func() bool { return s.by(acme, "GET", "/v1/queues", "").status == 200 },
	)
	s.by(s.operator, "GET", "/v1/rules/app.acme", "").want(t, 404)
}
