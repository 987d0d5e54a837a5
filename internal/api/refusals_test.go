package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/boltq"
)

// refusedLog is an audit log that keeps what is recorded.
type refusedLog struct {
	audit.Log
	away    chan struct{} // until it is closed nothing is recorded; nil is never
	mu      sync.Mutex
	entries []audit.Entry
}

func (k *refusedLog) Record(_ context.Context, e audit.Entry) error {
	if k.away != nil {
		<-k.away
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.entries = append(k.entries, e)
	return nil
}

// times is how often each entry was refused.
func (k *refusedLog) times() (all []int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.entries {
		all = append(all, e.Times)
	}
	return all
}

// Refused changes are recorded with who asked; refused reads, and appends that found no room, are not.
func TestRefusalsAreRecorded(t *testing.T) {
	s := secure(t, api.Options{})
	acme := s.with("acme", auth.Produce, auth.Configure)
	id := "token:" + strings.Split(acme, "_")[1]
	if who := s.by(acme, "GET", "/v1/whoami", "").body["name"]; who != id {
		id = fmt.Sprint(who)
	}
	before := len(s.refused())
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
	await.Until(t, "they are recorded", func() bool { return len(s.refused()) >= before+len(want) })
	if got := s.refused()[before:]; !slices.Equal(got, want) {
		t.Errorf("recorded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	a := s.by(s.operator, "GET", "/v1/audit?refused=true&operation=pauseQueue", "")
	a.want(t, 200, "more", false)
	e := a.body["records"].([]any)[0].(map[string]any)["entry"].(map[string]any)
	actor := e["actor"].(map[string]any)
	if actor["address"] != "127.0.0.1" || actor["request"] != "r1" || actor["note"] != "ann" ||
		actor["app"] != "acme" ||
		actor["token"] == "" ||
		e["what"] != "refused" {
		t.Errorf("the entry is %v", e)
	}
}

// The same refusal is recorded at once, and then once a minute with how many there were, the last one too.
func TestRefusalsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &refusedLog{}
		add, stop := api.Refusals(r)
		for range 1000 {
			add("10.0.0.1", "putQueue", "unauthenticated")
		}
		add("10.0.0.2", "putQueue", "unauthenticated")
		synctest.Wait()
		if got := r.times(); !slices.Equal(got, []int64{1, 1}) {
			t.Errorf("at once: %v", got)
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if got := r.times(); !slices.Equal(got, []int64{1, 1, 999}) {
			t.Errorf("a minute later: %v", got)
		}
		for range 10 {
			add("10.0.0.1", "putQueue", "unauthenticated")
		}
		stop()
		if got := r.times(); !slices.Equal(got, []int64{1, 1, 999, 10}) {
			t.Errorf("when the server stops: %v", got)
		}
	})
}

// No refusal is recorded twice within a minute, though others are at other times.
func TestRefusalsAreAMinuteApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &refusedLog{}
		add, stop := api.Refusals(r)
		defer stop()
		add("10.0.0.1", "putQueue", "forbidden")
		add("10.0.0.1", "putQueue", "forbidden") // it is recorded in a minute
		time.Sleep(50 * time.Second)
		add("10.0.0.2", "putQueue", "forbidden")
		add("10.0.0.2", "putQueue", "forbidden")
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if got := len(r.times()); got != 3 {
			t.Errorf("%d entries, want 3", got)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if got := len(r.times()); got != 4 {
			t.Errorf("%d entries, want 4", got)
		}
	})
}

// Any number of clients is counted in bounded memory.
func TestRefusalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &refusedLog{}
		add, stop := api.Refusals(r)
		for i := range 10_500 {
			add(fmt.Sprint("client ", i), "putQueue", "forbidden")
		}
		synctest.Wait()
		if n := len(r.times()); n != 10_001 {
			t.Errorf("%d entries", n)
		}
		stop()
		if all := r.times(); all[len(all)-1] != 499 {
			t.Errorf("the others are %d", all[len(all)-1])
		}
	})
}

// While the store does not answer a bounded number waits for it, and the others are one entry; none is lost.
func TestRefusalsWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &refusedLog{away: make(chan struct{})}
		add, stop := api.Refusals(r)
		for range 3 {
			for i := range 9000 {
				add(fmt.Sprint("client ", i), "putQueue", "forbidden")
			}
			time.Sleep(61 * time.Second)
		}
		close(r.away)
		stop()
		var sum int64
		for _, n := range r.times() {
			sum += n
		}
		if n := len(r.times()); n > 10_102 || sum != 27_000 {
			t.Errorf("%d entries stand for %d refusals", n, sum)
		}
	})
}

// guardedEntries are what the audit log of a store has of requests that were refused before anybody was asked.
func guardedEntries(t *testing.T, e queue.Engine) (all []audit.Entry) {
	t.Helper()
	page, err := e.Audit(t.Context(), audit.Request{Limit: audit.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	for i := range page.Records {
		entry, err := page.Records[i].Entry()
		if err != nil {
			t.Fatal(err)
		}
		if entry.Of == "request" {
			all = append(all, entry)
		}
	}
	return all
}

// What a web page tried to change is in the audit log, and what it only tried to read is not.
func TestWhatTheGuardRefusesIsRecorded(t *testing.T) {
	for _, tt := range []struct {
		header []string
		want   string
	}{
		{
			[]string{"Host: attacker.example"},
			`misdirected "POST /v1/queues/victim/purge" "attacker.example" from 127.0.0.1`,
		},
		{
			[]string{"Origin: http://attacker.example", "Sec-Fetch-Site: cross-site"},
			`cross_site "POST /v1/queues/victim/purge" "http://attacker.example" from 127.0.0.1`,
		},
	} {
		x := attacked(t)
		for _, raw := range []string{
			get("/v1/queues", tt.header...), postTo("/v1/queues/victim/purge", "", tt.header...),
		} {
			if status, _, text := x.send(raw); status/100 != 4 {
				t.Fatalf("%d %s", status, text)
			}
		}
		await.Until(t, "it is recorded", func() bool { return len(guardedEntries(t, x.engine)) == 1 })
		e := guardedEntries(t, x.engine)[0]
		if got := fmt.Sprintf("%s %s %s from %s", e.Refused, e.Name, e.Detail, e.Actor.Address); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}

// However many strangers send however much, the log is not full of it.
func TestStrangersDoNotFillTheAuditLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		a := api.New(e, api.Options{})
		for i := range 5000 {
			r := httptest.NewRequest(http.MethodPost, fmt.Sprint("http://127.0.0.1/v1/queues/", i), nil)
			r.RemoteAddr = fmt.Sprintf("[2001:db8::%x]:1", i)
			r.Header.Set("Origin", fmt.Sprint("http://attacker", i, ".example"))
			r.Header.Set("Penstock-By", "the boss")
			a.NoteGuarded(r, &httpio.Problem{Reason: httpio.ReasonCrossSite})
		}
		a.Close()
		all := guardedEntries(t, e)
		if len(all) != 2 || all[0].Times != 1 || all[1].Times != 4999 || all[0].Actor.Note != "" {
			t.Errorf("%+v", all)
		}
	})
}
