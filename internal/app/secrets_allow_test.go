package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue"
)

// Who may put a queue gets no secret sent to himself: it is refused when the queue is put, and one that is in the store
// all the same is kept when its jobs are due. What is allowed goes where it may.
func TestSecretsGoOnlyWhereTheyMay(t *testing.T) {
	redis := redistest.New(t, redistest.Options{})
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("TOKEN", "hunter2-token\n")
	var stolen, arrived atomic.Int64
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if strings.Contains(fmt.Sprint(r.Header), "hunter2") {
			stolen.Add(1)
		}
	}))
	defer thief.Close()
	owner := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer hunter2-token" {
			arrived.Add(1)
		}
	}))
	defer owner.Close()
	t.Setenv("PENSTOCK_SECRET_VARIABLE", "hunter2-variable")

	flags := []string{
		"--redis", redis.URL(), "--init", "--egress-allow", "127.0.0.1", "--secrets-dir", dir,
		"--secret-allow", "VARIABLE=" + strings.TrimPrefix(owner.URL, "http://") + ";billing",
	}
	in, _ := program(t, app.RunIngress, flags...)
	_, log := program(t, app.RunDrainer(nil), flags...)
	put := func(name, url, header string, want int) string {
		t.Helper()
		status, text := call(t, "PUT", in+"/v1/queues/"+name, queueTo(url, header), "application/json")
		if status != want {
			t.Errorf("%s to %s with %s: %d %s", name, url, header, status, text)
		}
		return text
	}
	if text := put("own", owner.URL, "Bearer ${secret:TOKEN}", 400); !strings.Contains(text, "TOKEN.allow") ||
		!strings.Contains(text, "deliver.http.headers.Authorization") {
		t.Error(text)
	}
	write(
		"TOKEN.allow",
		"# where the tokens of the owner are good for something\n"+strings.TrimPrefix(owner.URL, "http://")+"\nqueue: own*\n",
	)
	put("own", owner.URL, "Bearer ${secret:TOKEN}", 201)
	put("theirs", thief.URL, "Bearer ${secret:TOKEN}", 400)
	put("other", owner.URL, "Bearer ${secret:TOKEN}", 400)
	put("own", thief.URL, "Bearer ${secret:TOKEN}", 400)
	put("billing", owner.URL, "${secret:VARIABLE}", 201)
	put("billing.eu", owner.URL, "${secret:VARIABLE}", 201)
	put("billings", owner.URL, "${secret:VARIABLE}", 400)

	// A store may have what no ingress has seen: an archive was imported, a file of rules is younger than a queue.
	engine, err := store.Open(t.Context(), store.Options{RedisURL: redis.URL(), Patience: redistest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	spec, err := queue.ParseSpec([]byte(`{"name":"planted",` + queueTo(thief.URL, "Bearer ${secret:TOKEN}")[1:]))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Put(t.Context(), spec, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"own", "planted"} {
		if status, text := call(
			t, "POST", in+"/v1/queues/"+name+"/jobs", `{"id":"1","payload":1}`, "application/json",
		); status != 202 {
			t.Fatalf("%d %s", status, text)
		}
	}
	for name, want := range map[string]string{"own": `"state":"delivered"`, "planted": "TOKEN.allow"} {
		await.Until(t, name+" says "+want, func() bool {
			_, text := call(t, "GET", in+"/v1/queues/"+name+"/jobs/1", "", "")
			return strings.Contains(text, want)
		})
	}
	if stolen.Load() > 0 || arrived.Load() != 1 {
		t.Errorf("%d were stolen, %d arrived", stolen.Load(), arrived.Load())
	}
	if strings.Contains(log.String(), "hunter2") || !strings.Contains(log.String(), "TOKEN.allow") {
		t.Error(log.String())
	}

	// What may go where is read anew each time, like the secrets themselves.
	write("TOKEN.allow", "what is this?\n")
	if text := put("own", owner.URL, "Bearer ${secret:TOKEN}", 400); !strings.Contains(text, "TOKEN.allow:1: ") {
		t.Error(text)
	}
}

func queueTo(url, header string) string {
	return fmt.Sprintf(
		`{"rate":"100/s","slack":"10s","deliver":{"http":{"url":%q,"headers":{"Authorization":%q}}}}`, url, header,
	)
}
