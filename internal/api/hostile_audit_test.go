package api_test

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/redisq"
)

// onEngines runs a test over both engines. Redis has small budgets for the audit log.
func onEngines(t *testing.T, test func(t *testing.T, e queue.Engine)) {
	t.Run("embedded", func(t *testing.T) {
		e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		test(t, e)
	})
	t.Run("redis", func(t *testing.T) {
		client := redistest.New(t, redistest.Options{}).Client()
		e, err := redisq.OpenClient(t.Context(), client, redisq.Options{
			Init: true, Partitions: 1, Patience: redistest.Patience,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		// A partition among so many has a budget of 64 KiB for an app.
		if err := client.HSet(t.Context(), "ps{0}", "partitions", audit.AppBytes>>16).Err(); err != nil {
			t.Fatal(err)
		}
		test(t, e)
	})
}

// auditKept returns how many entries of each budget are kept, and how many went before their time.
func (s *secured) auditKept() (kept, dropped map[audit.Budget]int64) {
	s.t.Helper()
	kept, dropped = map[audit.Budget]int64{}, map[audit.Budget]int64{}
	for _, e := range s.entries() {
		kept[e.Budget]++
	}
	page, err := s.store.Audit(s.t.Context(), audit.Request{Limit: 1})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range page.Chains {
		dropped[c.Budget] = c.Dropped
	}
	return kept, dropped
}

// Of 20 apps one writes as much as it can into the audit log: no entry of an operator or of another app is lost.
func TestHostileAuditFlood(t *testing.T) {
	onEngines(t, func(t *testing.T, e queue.Engine) {
		s := secureOver(t, e, api.Options{})
		const apps = 20
		tokens := make([]string, apps)
		for i := range apps {
			app := fmt.Sprint("app", i)
			s.put("/v1/apps/"+app, fmt.Sprintf(`{"prefixes":["%s-*"],"hosts":["a.example"]}`, app))
			tokens[i] = s.with(app, auth.Configure)
			s.by(tokens[i], "PUT", "/v1/queues/"+app+"-mail", `{"rate":"1/s","pull":true}`).want(t, 201)
		}
		before, _ := s.auditKept()
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				for i := range 40 {
					filler := strings.Repeat("x", 7000) + fmt.Sprint(w, i)
					a := s.by(tokens[0], "PUT", fmt.Sprint("/v1/queues/app0-", w),
						fmt.Sprintf(`{"rate":"1/s","deliver":{"http":{"url":"http://a.example/","headers":{"X":%q}}}}`, filler))
					if a.status/100 != 2 {
						t.Errorf("%d %s", a.status, a.text)
						return
					}
				}
			})
		}
		wg.Wait()
		kept, dropped := s.auditKept()
		hostile := audit.OfApp("app0")
		for budget, n := range before {
			if budget != hostile && (kept[budget] != n || dropped[budget] != 0) {
				t.Errorf("%s has %d entries of %d, and %d were dropped", budget, kept[budget], n, dropped[budget])
			}
		}
		if sum := kept[hostile] + dropped[hostile]; sum != before[hostile]+320 {
			t.Errorf("the hostile app has %d entries, and %d were dropped", kept[hostile], dropped[hostile])
		}
		if _, ok := e.(*redisq.Engine); ok && dropped[hostile] == 0 {
			t.Error("nothing of it was dropped")
		}
	})
}

// Any number of unauthenticated requests, from any number of addresses, is one entry a minute.
func TestHostileAnonymousFlood(t *testing.T) {
	onEngines(t, func(t *testing.T, e queue.Engine) {
		s := secureOver(t, e, api.Options{})
		before, _ := s.auditKept()
		var wg sync.WaitGroup
		for from := range 60 {
			wg.Go(func() {
				dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(from+1))}}
				client := http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
				defer client.CloseIdleConnections()
				for i, c := range [][2]string{
					{"PUT", "/v1/queues/acme-mail"},
					{"DELETE", "/v1/queues/acme-mail"},
					{"POST", "/v1/queues/acme-mail/purge"},
					{"PUT", "/v1/rules/acme-rule"},
					{"PUT", fmt.Sprint("/v1/apps/", from)},
					{"POST", "/v1/tokens"},
				} {
					req, err := http.NewRequestWithContext(t.Context(), c[0], s.url+c[1], strings.NewReader("{}"))
					if err != nil {
						t.Error(err)
						return
					}
					if i%2 == 0 {
						req.Header.Set("Authorization", fmt.Sprint("Bearer penstock_", from, "_", i))
					}
					resp, err := client.Do(req)
					if err != nil {
						t.Error(err)
						return
					}
					_ = resp.Body.Close()
					if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusTooManyRequests {
						t.Errorf("%s %s: %d", c[0], c[1], resp.StatusCode)
					}
				}
			})
		}
		wg.Wait()
		await.Until(t, "it is recorded", func() bool {
			kept, _ := s.auditKept()
			return kept[audit.Anonymous] > 0
		})
		kept, _ := s.auditKept()
		if kept[audit.Anonymous] != 1 {
			t.Errorf("%d entries of unauthenticated requests, want one", kept[audit.Anonymous])
		}
		for budget, n := range before {
			if kept[budget] != n {
				t.Errorf("%s has %d entries, want %d", budget, kept[budget], n)
			}
		}
	})
}

// An admin of a part of an app sees in the audit log none of the tokens that reach beyond that part, by whoever they
// were made, and neither what others of the app tried with foreign names.
func TestHostileAdminOfAPart(t *testing.T) {
	onEngines(t, func(t *testing.T, e queue.Engine) {
		s := secureOver(t, e, api.Options{})
		whole := s.with("acme", auth.Admin)
		part := s.token("acme", auth.Grant{Role: auth.Admin, Prefix: "acme-*"})
		made := func(by, app, grant string) string {
			t.Helper()
			a := s.by(by, "POST", "/v1/tokens", fmt.Sprintf(`{"app":%q,"grants":[%s]}`, app, grant))
			a.want(t, 201)
			return strings.TrimPrefix(a.header.Get("Location"), "/v1/tokens/")
		}
		beyond := []string{
			made(whole, "acme", `{"role":"view"}`), made(s.operator, "acme", `{"role":"admin"}`),
			made(whole, "acme", `{"role":"produce","prefix":"acme-mail"},{"role":"view","prefix":"ses.acme"}`),
		}
		within := []string{
			made(whole, "acme", `{"role":"view","prefix":"acme-*"}`), made(part, "acme", `{"role":"view","prefix":"acme-mail"}`),
		}
		s.by(whole, "DELETE", "/v1/tokens/"+beyond[0], "").want(t, 204)
		s.put("/v1/subjects/unix:1001", `{"app":"acme","grants":[{"role":"view"}]}`)
		s.by(whole, "DELETE", "/v1/queues/beta-mail", "").want(t, 404)
		await.Until(t, "it is recorded", func() bool { return len(s.refused()) > 0 })
		for _, query := range []string{
			"", "&of=token", "&of=subject", "&order=oldest", "&token=" + strings.Split(whole, "_")[1],
		} {
			a := s.by(part, "GET", "/v1/audit?limit=500"+query, "")
			a.want(t, 200)
			for _, hidden := range append(beyond, "unix:1001", "beta-mail") {
				if strings.Contains(a.text, hidden) {
					t.Errorf("%q: an admin of a part is shown %s", query, hidden)
				}
			}
			if query != "" && query != "&of=token" {
				continue
			}
			for _, shown := range within {
				if !strings.Contains(a.text, shown) {
					t.Errorf("%q: an admin of a part is not shown %s", query, shown)
				}
			}
		}
		all := s.by(whole, "GET", "/v1/audit?limit=500", "")
		for _, shown := range append(append(beyond, within...), "unix:1001", "beta-mail") {
			if !strings.Contains(all.text, shown) {
				t.Errorf("the admin of the whole app is not shown %s", shown)
			}
		}
	})
}

// The audit log can be searched by the id of a token, and by nothing that is secret.
func TestHostileTokenOfAudit(t *testing.T) {
	s := secure(t, api.Options{})
	acme := s.with("acme", auth.Configure)
	s.by(acme, "PUT", "/v1/queues/acme-new", `{"rate":"1/s","pull":true}`).want(t, 201)
	a := s.by(s.operator, "GET", "/v1/audit?token="+strings.Split(acme, "_")[1], "")
	if a.want(t, 200); len(a.body["records"].([]any)) != 1 || !strings.Contains(a.text, "acme-new") {
		t.Error(a.text)
	}
	for _, query := range []string{"token=" + acme, "token=x", "access_token=x", "token="} {
		s.by(s.operator, "GET", "/v1/audit?"+query, "").want(t, 400, "reason", "token_in_url")
	}
}

// What an app is told of its own says nothing of how much others do: neither revisions nor the ids of requests count.
func TestHostileCounting(t *testing.T) {
	onEngines(t, func(t *testing.T, e queue.Engine) {
		s := secureOver(t, e, api.Options{})
		acme := s.with("acme", auth.Admin)
		put := func(rate int) (revision float64, request string) {
			a := s.by(acme, "PUT", "/v1/queues/acme-mail", fmt.Sprintf(`{"rate":"%d/s","pull":true}`, rate))
			a.want(t, 200)
			return a.body["revision"].(float64), a.header.Get("X-Request-Id")
		}
		first, before := put(1)
		second, after := put(2)
		if second <= first {
			t.Errorf("revision %.0f follows %.0f", second, first)
		}
		if made := time.UnixMilli(int64(second) + int64(queue.FirstRevision)/1000); time.Since(made).Abs() > time.Minute {
			t.Errorf("revision %.0f is of %v", second, made)
		}
		if len(before) < 12 || len(after) < 12 {
			t.Errorf("requests are called %s and %s", before, after)
		}
		number := func(id string) int64 {
			n, err := strconv.ParseInt(id[strings.LastIndexByte(id, '-')+1:], 36, 64)
			if err != nil {
				return 0 // it is larger
			}
			return n
		}
		if d := number(after) - number(before); d >= 0 && d < 1000 && number(before) > 0 {
			t.Errorf("the ids of requests are near each other: %s and %s", before, after)
		}
	})
}
