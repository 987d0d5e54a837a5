package api_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/redisq"
)

// The audit log page by page, from either end, is the same; an app's admin sees what is about his app, without whose
// token it was and from where, and not the chain.
func TestAuditPages(t *testing.T) {
	s := secure(t, api.Options{})
	for i := range 250 {
		name, app := "acme-mail", "acme"
		if i%2 == 1 {
			name, app = "beta-mail", "beta"
		}
		err := s.store.Record(t.Context(), audit.Entry{
			Of: "queue", Name: name, What: changekind.Paused, Detail: fmt.Sprint(i),
			Actor: audit.Actor{Name: "token:x", App: app, Token: "x", Address: "10.0.0.1"},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	walk := func(token, query string) (details []int, first map[string]any) {
		for after := ""; ; {
			a := s.by(token, "GET", "/v1/audit?what=paused&limit=30&"+query+"&after="+after, "")
			a.want(t, 200)
			for _, r := range a.body["records"].([]any) {
				r := r.(map[string]any)
				if first == nil {
					first = r
				}
				n, _ := strconv.Atoi(fmt.Sprint(r["entry"].(map[string]any)["detail"]))
				details = append(details, n)
			}
			if a.body["more"] == false {
				return details, first
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
	if first["digest"] != string(audit.DigestOf([]byte(text))) {
		t.Errorf("the digest of %s is not %s", text, first["digest"])
	}
	acme := s.with("acme", auth.Admin)
	his, first := walk(acme, "order=oldest")
	if len(his) != 125 || his[1] != 2 || first["text"] != nil || first["digest"] != nil {
		t.Errorf("acme's admin sees %v, first %v", his, first)
	}
	s.by(s.operator, "POST", "/v1/queues/acme-mail/decide", "{}").want(t, 400) // recorded, by somebody else
	var a *answer
	await.Until(t, "it is recorded", func() bool {
		a = s.by(acme, "GET", "/v1/audit?refused=true&name=acme-mail", "")
		return a.status == 200 && len(a.body["records"].([]any)) == 1
	})
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
	await.Until(t, "one came since", func() bool {
		more := s.by(s.operator, "GET", "/v1/audit?order=oldest&after="+end.body["next"].(string), "")
		return len(more.body["records"].([]any)) == 1
	})
}

// An app that is made again, or is given a prefix later, sees of its names what it and the operator did since it was
// made, and nothing of those that had its name or its prefix before.
func TestAuditOfPredecessors(t *testing.T) {
	s := secure(t, api.Options{})
	details := func(app string) (all []string) {
		a := s.by(s.with(app, auth.Admin), "GET", "/v1/audit?order=oldest&limit=500", "")
		a.want(t, 200)
		for _, r := range a.body["records"].([]any) {
			entry := r.(map[string]any)["entry"].(map[string]any)
			all = append(all, strings.TrimSpace(fmt.Sprint(entry["of"], " ", entry["what"], " ", cmp.Or(entry["detail"], ""))))
		}
		return all
	}
	record := func(app, of, name, detail string) {
		err := s.store.Record(t.Context(), audit.Entry{
			Of: of, Name: name, What: changekind.Paused, Detail: detail, Actor: audit.Actor{Name: "x", App: app},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.with("acme", auth.View) // a token of the first acme
	record("acme", "queue", "acme-mail", "the first acme")
	record("", "queue", "acme-mail", "the operator, for the first acme")
	record("acme", "token", "abc", "the first acme, of a token")
	s.by(s.operator, "DELETE", "/v1/apps/acme", "").want(t, 204)
	s.put("/v1/apps/acme?adopt=true", `{"prefixes":["acme-*","ses.acme"]}`)
	record("acme", "queue", "acme-mail", "acme")
	record("", "queue", "acme-mail", "the operator")
	record("beta", "queue", "acme-mail", "beta, that is refused")
	record("beta", "queue", "beta-mail", "beta")
	record("beta", "rule", "gamma-rule", "beta, of a prefix that was its own")
	record("", "rule", "gamma-rule", "the operator, before the prefix was acme's")
	s.put("/v1/apps/acme", `{"prefixes":["acme-*","ses.acme","gamma-*"]}`)
	record("", "rule", "gamma-rule", "the operator, later")
	want := "[app created queue paused acme queue paused the operator app changed rule paused the operator, later " +
		"token created]"
	if got := fmt.Sprint(details("acme")); got != want {
		t.Errorf("acme's admin sees %s, want %s", got, want)
	}
}

// What an app's admin is told has no counts or digests of what others do, and where a page ends is the same however
// much they did. He reads the same from either end, page by page.
func TestAuditTellsNoForeignCounts(t *testing.T) {
	e, err := redisq.OpenClient(t.Context(), redistest.New(t, redistest.Options{}).Client(), redisq.Options{
		Init: true, Partitions: 4, Patience: redistest.Patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	s := secureOver(t, e, api.Options{})
	for i := range 40 {
		app := []string{"acme", "beta", "beta", "acme"}[i%4]
		s.put(fmt.Sprint("/v1/queues/", app, "-", i), `{"rate":"1/s"}`)
	}
	acme := s.with("acme", auth.Admin)
	walk := func(order string) (names []string) {
		for after := ""; ; {
			a := s.by(acme, "GET", "/v1/audit?of=queue&limit=3&order="+order+"&after="+after, "")
			a.want(t, 200)
			for _, r := range a.body["records"].([]any) {
				r := r.(map[string]any)
				entry := r["entry"].(map[string]any)
				names = append(names, fmt.Sprint(entry["name"]))
				if at, ok := entry["partition"].(float64); ok && at != 0 {
					t.Errorf("acme's admin is told the partition of %v", r)
				}
				if r["partition"] != 0. || entry["number"] != 0. || entry["previous"] != "" || entry["before"] != nil ||
					entry["after"] != nil {
					t.Errorf("acme's admin is told %v", r)
				}
				if b, _ := base64.RawURLEncoding.DecodeString(fmt.Sprint(a.body["next"])); len(b) > 0 {
					if at, n := binary.Varint(b); at < 1e15 || len(b) != n+1 {
						t.Errorf("the cursor is %x", b)
					}
				}
			}
			if a.body["more"] == false {
				return names
			}
			after = a.body["next"].(string)
		}
	}
	oldest, newest := walk("oldest"), walk("newest")
	slices.Reverse(newest)
	if len(oldest) != 22 || !slices.Equal(oldest, newest) { // with acme-mail and ses.acme
		t.Errorf("from the oldest %v, from the newest %v", oldest, newest)
	}
	end := s.by(acme, "GET", "/v1/audit?order=oldest&limit=500", "")
	s.put("/v1/queues/beta-more", `{"rate":"1/s"}`)
	s.put("/v1/queues/acme-more", `{"rate":"1/s"}`)
	more := s.by(acme, "GET", "/v1/audit?order=oldest&after="+end.body["next"].(string), "").body["records"].([]any)
	if len(more) != 1 || more[0].(map[string]any)["entry"].(map[string]any)["name"] != "acme-more" {
		t.Errorf("since came %v", more)
	}
	s.by(acme, "GET", "/v1/audit?after=x", "").want(t, 400, "field", "after")
}

// The entries of several partitions are one log, in which each stands after what came before it.
func TestAuditOfPartitions(t *testing.T) {
	e, err := redisq.OpenClient(t.Context(), redistest.New(t, redistest.Options{}).Client(), redisq.Options{
		Init: true, Partitions: 4, Patience: redistest.Patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	s := secureOver(t, e, api.Options{})
	for i := range 30 {
		s.put(fmt.Sprint("/v1/queues/acme-", i%10), fmt.Sprintf(`{"rate":"%d/s","pull":true}`, i+1))
	}
	for _, order := range []string{"oldest", "newest"} {
		var at []float64
		last, seen := map[string]map[string]any{}, map[float64]bool{}
		for after := ""; ; {
			a := s.by(s.operator, "GET", "/v1/audit?limit=7&order="+order+"&after="+after, "")
			a.want(t, 200)
			for _, r := range a.body["records"].([]any) {
				r := r.(map[string]any)
				entry := r["entry"].(map[string]any)
				at = append(at, entry["at"].(float64))
				partition := r["partition"].(float64)
				chain := fmt.Sprint(partition, entry["budget"])
				if before := last[chain]; order == "oldest" && before != nil && entry["previous"] != before["digest"] {
					t.Errorf("entry %v of partition %v does not follow the one before", entry["number"], partition)
				}
				last[chain], seen[partition] = r, true
			}
			if a.body["more"] == false {
				if chains := a.body["chains"].([]any); len(chains) != len(last) {
					t.Errorf("%d chains, want %d", len(chains), len(last))
				}
				break
			}
			after = a.body["next"].(string)
		}
		if order == "newest" {
			slices.Reverse(at)
		}
		if len(at) != len(s.entries()) || !slices.IsSorted(at) || len(seen) < 2 {
			t.Errorf("%s: %d entries of %d, sorted: %v", order, len(at), len(s.entries()), slices.IsSorted(at))
		}
	}
}

// The audit log is read only as far as there is memory for it, and not at all if there is none.
func TestAuditIsChargedAhead(t *testing.T) {
	memory := ops.NewBudget(1 << 20)
	s := secure(t, api.Options{Memory: memory})
	s.by(s.operator, "GET", "/v1/audit", "").want(t, 200)
	all := memory.Nobody()
	held := int64(0)
	for all.Take(64<<10) == nil {
		held += 64 << 10
	}
	s.by(s.operator, "GET", "/v1/audit", "").want(t, 503, "records", nil)
	all.Free(held)
	s.by(s.operator, "GET", "/v1/audit", "").want(t, 200)
	if n := memory.Used(); n != 0 {
		t.Errorf("%d are charged at the end", n)
	}
}

// unreadable is a store whose audit log cannot be read, once it is broken.
type unreadable struct {
	queue.Engine
	broken atomic.Bool
}

func (u *unreadable) Audit(ctx context.Context, r audit.Request) (audit.Page, error) {
	page, err := u.Engine.Audit(ctx, r)
	for i := range page.Records {
		if u.broken.Load() {
			page.Records[i].Text = []byte("{")
		}
	}
	return page, err
}

// An entry that is not what Penstock wrote is told as such, when it is listed and when a place is looked for.
func TestAuditThatCannotBeRead(t *testing.T) {
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	u := &unreadable{Engine: e}
	s := secureOver(t, u, api.Options{})
	acme := s.with("acme", auth.Admin)
	for i := range 3 {
		s.put("/v1/queues/acme-mail", fmt.Sprintf(`{"rate":"%d/s"}`, i+1))
	}
	place := s.by(acme, "GET", "/v1/audit?limit=1", "").body["next"].(string)
	u.broken.Store(true)
	for _, a := range []*answer{
		s.by(s.operator, "GET", "/v1/audit", ""),
		s.by(acme, "GET", "/v1/audit?limit=1&after="+place, ""),
	} {
		a.want(t, 500, "reason", "internal")
		if detail := a.body["detail"].(string); !strings.Contains(detail, "foreign or corrupt") {
			t.Error(detail)
		}
	}
}

// An import of many queues is one entry, which is found by the name of each. An app's admin sees only the app's queues
// in it.
func TestAuditOfImportedQueues(t *testing.T) {
	s := secure(t, api.Options{})
	acme, beta := s.with("acme", auth.Admin), s.with("beta", auth.Admin)
	var queues []move.Queue
	for _, name := range []string{"acme-x", "acme-y", "beta-x", "other"} {
		queues = append(queues, move.Queue{Spec: queue.Spec{Name: name, Rate: leaky.PerSecond(1), Capacity: 1}, MaxCost: 1})
	}
	operator := audit.WithActor(t.Context(), audit.Actor{Name: "unix:0", Address: "local"})
	if _, err := any(s.store).(move.Mover).ImportQueues(operator, queues, "the-import"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		token, query string
		want         []string
	}{
		{s.operator, "", []string{"acme-x", "acme-y", "beta-x", "other"}},
		{s.operator, "&of=queue&name=beta-x", []string{"acme-x", "acme-y", "beta-x", "other"}},
		{s.operator, "&name=beta-y", nil},
		{s.operator, "&of=rule", nil},
		{acme, "", []string{"acme-x", "acme-y"}},
		{acme, "&name=acme-y", []string{"acme-x", "acme-y"}},
		{acme, "&name=beta-x", nil},
		{beta, "", []string{"beta-x"}},
		{beta, "&name=other", nil},
	} {
		a := s.by(tt.token, "GET", "/v1/audit?what=imported"+tt.query, "")
		a.want(t, 200)
		var got []string
		for _, r := range a.body["records"].([]any) {
			r := r.(map[string]any)
			for _, q := range r["after"].([]any) {
				got = append(got, q.(map[string]any)["name"].(string))
			}
			entry := r["entry"].(map[string]any)
			if tt.token != s.operator && (entry["after"] != nil || r["digest"] != nil || r["text"] != nil) {
				t.Errorf("%q shows an app %v", tt.query, r)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%q: got %v, want %v", tt.query, got, tt.want)
		}
	}
}
