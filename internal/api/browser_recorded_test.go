package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/boltq"
)

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
			a.NoteGuarded(r, &api.Problem{Reason: api.ReasonCrossSite})
		}
		a.Close()
		all := guardedEntries(t, e)
		if len(all) != 2 || all[0].Times != 1 || all[1].Times != 4999 || all[0].Actor.Note != "" {
			t.Errorf("%+v", all)
		}
	})
}
