package cli

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/cli/doctor"
	"github.com/penstock/penstock/internal/cli/embedded"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
)

// release has a queue's departures granted and released, and as many delivered.
func release(t *testing.T, engine queue.Engine, name string, released, delivered int) {
	t.Helper()
	var ids []string
	for n := range released + delivered {
		ids = append(ids, fmt.Sprint(n))
	}
	put(t, engine, name, ids...)
	request := queue.ReserveRequest{Client: queue.Client{ID: name, Name: name}, Number: 1, Max: len(ids), Queue: name}
	res, err := engine.Reserve(t.Context(), request)
	if err != nil || len(res.Jobs) != len(ids) {
		t.Fatalf("%d of %d jobs were granted: %v", len(res.Jobs), len(ids), err)
	}
	var ends []queue.Settlement
	for n := range res.Jobs {
		verdict := queue.Deliver
		if n < released {
			verdict = queue.Release
		}
		lease := queue.Lease{Queue: name, ID: res.Jobs[n].ID, Fence: res.Jobs[n].Fence}
		ends = append(ends, queue.Settlement{Lease: lease, Verdict: verdict})
	}
	if _, err := engine.Settle(t.Context(), ends); err != nil {
		t.Fatal(err)
	}
}

// A queue with more than 1% of its departures released is shown with what that means and what to do. One with a handful
// is not.
func TestInfoShowsReleases(t *testing.T) {
	url, engine := ingressAndStore(t)
	for name, released := range map[string]int{"many": 5, "few": 4} {
		expect(t, ExitDone, "", "", "queue", "set", "-s", url, name, "rate=unlimited", "slack=30s", "pull=true")
		release(t, engine, name, released, 95)
	}
	const what = "departures since it was created (5.0%) were given back unused, usually because they were later than " +
		"the slack of 30s"
	expect(t, ExitDone, "5 of 100 "+what, "", "queue", "info", "many", "-s", url)
	expect(t, ExitDone, `"releases": {`, "", "queue", "info", "many", "-s", url, "-o", "json")
	r := expect(t, ExitDone, "4 released", "", "queue", "info", "few", "-s", url)
	if strings.Contains(r.out, "given back") {
		t.Errorf("a handful is reported:\n%s", r.out)
	}

	found := examined(t, "-s", url)
	do := finds(t, found, "queues", doctor.Warning, "many wastes departures: 5 of 100 "+what)
	if do != "penstock queue history many" { // its slack is its lease already
		t.Errorf("what to do: %s", do)
	}
	for _, f := range found {
		if strings.HasPrefix(f.What, "few ") && strings.Contains(f.What, "given back") {
			t.Errorf("a handful is reported: %+v", f)
		}
	}
	expect(t, ExitDone, "", "", "queue", "set", "-s", url, "many", "slack=8ms")
	do = finds(t, examined(t, "-s", url), "queues", doctor.Warning, "later than the slack of 8ms")
	if do != "penstock queue set many slack="+(16*time.Millisecond).String() {
		t.Errorf("what to do: %s", do)
	}
	expect(t, ExitDone, "", "", append(strings.Fields(do)[1:], "-s", url)...)
}

// What the readiness of a server says of its releases is a warning with its detail.
func TestDoctorReportsReadiness(t *testing.T) {
	for member, do := range map[string]string{
		`"pull":"late"`:          "penstock queue set NAME slack=20ms",
		`"drainers":"late"`:      "penstock queue set NAME slack=20ms",
		`"pull":"releasing"`:     "penstock queue history NAME",
		`"drainers":"releasing"`: "penstock queue history NAME",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Path == "/readyz" {
				_, _ = io.WriteString(w, `{"status":"degraded",`+member+`,"detail":"gave back 30 of the last 100"}`)
				return
			}
			_, _ = io.WriteString(w, `{}`)
		}))
		if got := finds(t, examined(t, "-s", server.URL), "store", doctor.Warning, "gave back 30 of"); got != do {
			t.Errorf("%s: what to do: %s, want %s", member, got, do)
		}
		server.Close()
	}
}

// penstock up reports the releases of its drainer. Here the target takes connections and never answers, so no job is
// ready when it departs.
func TestUpReportsReleases(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	url, end, err := embedded.Start(t.Context(), embedded.Options{
		Data: t.TempDir(), Listen: ops.Listen{Addr: "127.0.0.1:0"}, Egress: loopback(t), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	}()
	expect(t, ExitDone, "", "", "queue", "set", "-s", url, "late", "rate=500/s",
		"deliver.http.url=https://"+silent.Addr().String())
	jobs := strings.Repeat(`{"payload":1}`+"\n", 100)
	if r := penstock(t, jobs, "push", "late", "-f", "-", "-s", url); r.code != ExitDone {
		t.Fatalf("%+v", r)
	}
	await.Until(t, "it reports that its drainer is late", func() bool {
		resp, err := http.Get(url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		return err == nil && resp.StatusCode == http.StatusOK && strings.Contains(string(text), `"drainers":"late"`)
	})
}
