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
