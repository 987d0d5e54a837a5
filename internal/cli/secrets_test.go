package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/cli/applycmd"
	"github.com/penstock/penstock/queue"
)

// stored is a target as the store must have it.
func stored(t *testing.T, store queue.Engine, key, token string) {
	t.Helper()
	info, err := store.Get(t.Context(), "email")
	if err != nil {
		t.Fatal(err)
	}
	want := `{"http":{"headers":{"X-Key":"` + key + `"},"url":"https://a.example/b?token=` + token + `"}}`
	if string(info.Spec.Deliver) != want {
		t.Errorf("stored is %s, want %s", info.Spec.Deliver, want)
	}
}

var aRevision = regexp.MustCompile(`revision \d+`)

// says checks the output of a command, except for revisions.
func says(t *testing.T, r *result, want string) {
	t.Helper()
	if out := aRevision.ReplaceAllString(r.out, "revision N"); !strings.Contains(out, want) {
		t.Errorf("printed %s, want %s", out, want)
	}
}

// Reading a queue, changing it and putting it back keeps the secrets that were not
// shown.
func TestSetKeepsSecrets(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	set := func(out string, settings ...string) {
		t.Helper()
		r := expect(t, ExitDone, "", "", append([]string{"queue", "set", "email"}, settings...)...)
		says(t, &r, out)
		if strings.Contains(r.out+r.err, "hunter") {
			t.Errorf("a secret was printed: %s%s", r.out, r.err)
		}
	}
	set("created", "rate=1/s", "deliver.http.headers.X-Key=hunter2", "deliver.http.url=https://a.example/b?token=hunter3")
	for _, command := range [][]string{
		{"queue", "info", "email"}, {"queue", "info", "email", "-o", "json"}, {"queue", "ls", "-o", "json"},
	} {
		if r := expect(t, ExitDone, "***", "", command...); strings.Contains(r.out, "hunter") {
			t.Error(r.out)
		}
	}
	set("changed, revision N\n  rate: 1/s -> 2/s\n", "rate=2/s")
	stored(t, store, "hunter2", "hunter3")
	set("unchanged, revision N", "rate=2/s")
	set("unchanged, revision N", "deliver.http.headers.X-Key=hunter2")
	set("changed, revision N\n  deliver: *** -> ***\n", "deliver.http.headers.X-Key=hunter4")
	stored(t, store, "hunter4", "hunter3")
	expect(
		t, ExitRefused, "", "deliver.http.headers.X-Other-Key: is ***", "queue", "set", "email",
		"deliver.http.headers.X-Other-Key=***",
	)
	stored(t, store, "hunter4", "hunter3")
}

// A file has the secrets and the server does not show them: applying it tells whether
// they differ, a dry run says that it cannot.
func TestApplyWithSecrets(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	path := filepath.Join(t.TempDir(), "queues.yaml")
	apply := func(key, rate, out string, flags ...string) result {
		t.Helper()
		text := "queues:\n  - name: email\n    rate: " + rate +
			"\n    deliver:\n      http: {url: \"https://a.example/b?token=hunter3\", headers: {X-Key: \"" + key + "\"}}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := expect(t, ExitDone, "", "", append([]string{"queue", "apply", "-f", path}, flags...)...)
		says(t, &r, out)
		if strings.Contains(r.out+r.err, "hunter") {
			t.Errorf("a secret was printed: %s%s", r.out, r.err)
		}
		return r
	}
	apply("hunter2", "1/s", "created")
	stored(t, store, "hunter2", "hunter3")
	apply("hunter2", "1/s", "email unchanged, revision N\n")
	apply("hunter4", "1/s", "email unchanged, revision N; secrets were not compared\n", "--dry-run")
	stored(t, store, "hunter2", "hunter3")
	apply("hunter4", "1/s", "email changed, revision N\n  deliver: *** -> ***\n")
	stored(t, store, "hunter4", "hunter3")
	apply("***", "2/s", "email changed, revision N\n  rate: 1/s -> 2/s\n") // the secret stays
	stored(t, store, "hunter4", "hunter3")
	r := apply("hunter5", "2/s", "", "--dry-run", "-o", "json")
	var done []applycmd.Result
	if err := json.Unmarshal([]byte(r.out), &done); err != nil || len(done) != 1 || done[0].Action != "unchanged" ||
		!done[0].Uncompared {
		t.Errorf("%v: %s", err, r.out)
	}
}
