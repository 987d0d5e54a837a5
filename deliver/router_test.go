package deliver

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
)

// A queue without a usable target is down and says what to set, and the log says so
// once a revision; the target that is set then is used.
func TestWithoutTarget(t *testing.T) {
	hits := 0
	s := server(t, func(http.ResponseWriter, *http.Request) { hits++ })
	var log bytes.Buffer
	r := router(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	job := jobFor(s.URL)
	good := job.Spec.Deliver
	for i, c := range []struct {
		revision int64
		raw      string
		says     string
		logged   int // in all
	}{
		{1, `{"fax": {}}`, "deliver.fax: is not a kind of target", 1},
		{1, `{"fax": {}}`, "deliver.fax: is not a kind of target", 1},
		{2, `{"fax": {}}`, "deliver.fax: is not a kind of target", 2},
		{3, "", "has no target", 2},
		{4, string(good), "", 2},
		{5, string(good), "", 2},
		{6, `{"http": {"url": "x"}}`, "deliver.http.url", 3},
		{7, string(good), "", 3},
	} {
		job.Revision, job.Spec.Deliver = c.revision, []byte(c.raw)
		g := new(gate)
		err := r.Handle(t.Context(), job, g)
		if c.says == "" {
			if err != nil {
				t.Errorf("%d: %v", i, err)
			}
		} else {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%d: %v, want %q", i, err, c.says)
			}
			want := drain.Said{Verdict: queue.Down}
			said := drain.What(err)
			if c.raw == "" { // no receiver is at fault, so no circuit may open
				want = drain.Said{Verdict: queue.Throttle, NoTarget: true, Until: said.Until}
			}
			if said != want || g.calls != 0 {
				t.Errorf("%d: says %+v, at the gate %d times", i, said, g.calls)
			}
		}
		if n := strings.Count(log.String(), "level=ERROR"); n != c.logged {
			t.Errorf("%d: logged %d times, want %d", i, n, c.logged)
		}
	}
	if hits != 3 {
		t.Errorf("%d deliveries, want 3", hits)
	}
}

// Neither the log nor what becomes of the job tells the secrets of a target that cannot be used.
func TestSecretsOfABadTarget(t *testing.T) {
	var log bytes.Buffer
	r := router(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	job := jobFor("")
	for i, raw := range []string{
		`{"http": {"url": "gopher://a/?t=hunter2"}}`, `{"http": {"url": "http://u:hunter2@a/"}}`,
		`{"http": {"url": "http://a:0/?hunter2#hunter2"}}`,
		`{"http": {"url": "http://a/", "headers": {"X-Key": "hunter2\n"}}}`,
		`{"http": {"url": "http://a/", "password": "hunter2"}}`,
	} {
		job.Revision, job.Spec.Deliver = int64(i+1), []byte(raw)
		err := r.Handle(t.Context(), job, new(gate))
		if err == nil || !strings.Contains(err.Error(), "deliver.http") {
			t.Error(err)
		}
		if strings.Contains(err.Error(), "hunter2") || strings.Contains(log.String(), "hunter2") {
			t.Errorf("%v\n%s", err, log.String())
		}
	}
}

func TestClosed(t *testing.T) {
	s := server(t, func(http.ResponseWriter, *http.Request) {})
	r := router(t, Options{})
	if err := r.Handle(t.Context(), jobFor(s.URL), new(gate)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := r.Handle(t.Context(), jobFor(s.URL), new(gate)); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("delivered by a router that is closed: %v", err)
	}
}

// What an operator has to mend is logged once, with the setting that mends it, until it is mended.
func TestUnusableIsToldOnce(t *testing.T) {
	s := server(t, func(http.ResponseWriter, *http.Request) {})
	dir := t.TempDir()
	var log bytes.Buffer
	r := router(t, Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)), Secrets: secrets.Source{Dir: dir, Allow: allow(t, "TOKEN="+s.URL)},
	})
	inside, missing := jobFor("http://10.0.0.1/"), jobFor(s.URL)
	missing.Queue = "other"
	missing.Spec.Deliver = []byte(
		`{"http": {"url": "` + s.URL + `", "headers": {"Authorization": "Bearer ${secret:TOKEN}"}}}`,
	)
	for range 3 {
		for job, says := range map[*drain.Job]string{
			inside: "--egress-allow 10.0.0.0/8", missing: "there is no secret TOKEN",
		} {
			err := r.Handle(t.Context(), job, new(gate))
			if said := drain.What(err); said.Verdict != queue.Down || !strings.Contains(err.Error(), says) ||
				strings.Count(log.String(), says) != 1 {
				t.Fatalf("%v says %+v; logged:\n%s", err, said, log.String())
			}
		}
	}
	secret := filepath.Join(dir, "TOKEN")
	for told := 1; told <= 2; told++ { // given, and taken away again
		if err := os.WriteFile(secret, []byte("t0ken\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.Handle(t.Context(), missing, new(gate)); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), "there is no secret"); n != told {
			t.Errorf("told %d times, want %d", n, told)
		}
		if err := os.Remove(secret); err != nil {
			t.Fatal(err)
		}
		_ = r.Handle(t.Context(), missing, new(gate))
	}
}
