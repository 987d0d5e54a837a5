package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

func TestTopOnce(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	expect(t, ExitDone, "no queues", "", "top", "--once", "--interval", "50ms")
	for i, name := range []string{"half", "over", "paused", "empty"} {
		if _, err := store.Put(
			t.Context(), queue.Spec{Name: name, Rate: leaky.PerSecond(1), Capacity: 4}, queue.AnyRevision,
		); err != nil {
			t.Fatal(err)
		}
		for n := range []int{2, 4, 1, 0}[i] {
			if _, err := store.Append(t.Context(), []queue.Job{{Queue: name, ID: fmt.Sprint("j", n)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := store.Put(
		t.Context(), queue.Spec{Name: "over", Rate: leaky.PerSecond(1), Capacity: 3}, queue.AnyRevision,
	); err != nil {
		t.Fatal(err)
	}
	if err := store.Pause(t.Context(), "paused", queue.Pause{Reason: "too\x1b[2Jmany"}); err != nil {
		t.Fatal(err)
	}
	want := `4 queues: 7 jobs, 0 deferred; no drainer was ever seen; per second 0.0 out, 0.0 in, 0.0 refused, 0.0 ` +
		`deferred, 0.0 lost

NAME    FILL                         SIZE  DELAY  FINISH  RATE  IN/S  OUT/S  REFUSED/S  DEFERRED/S  DEFERRED  ` +
		`LOST/S  STATE
over    [####################] 133%   4/3      -       -   1/s   0.0    0.0        0.0         0.0         0     ` +
		`0.0  no drainer, full
half    [##########..........]  50%   2/4      -       -   1/s   0.0    0.0        0.0         0.0         0     ` +
		`0.0  no drainer
paused  [#####...............]  25%   1/4      -       -   1/s   0.0    0.0        0.0         0.0         0     ` +
		`0.0  paused: too\u001b[2Jmany
empty   [....................]   0%   0/4      -       -   1/s   0.0    0.0        0.0         0.0         0     ` +
		`0.0  idle
`
	r := expect(t, ExitDone, want, "", "top", "--once", "--interval", "50ms")
	if strings.ContainsRune(r.out, '\x1b') {
		t.Errorf("a pipe got control characters: %q", r.out)
	}
	expect(t, ExitDone, "\nempty ", "", "top", "--once", "--interval", "50ms", "--sort", "name", "--rows", "1")
	expect(t, ExitDone, "\nand 3 more\n", "", "top", "--once", "--interval", "50ms", "--sort", "name", "--rows", "1")

	r = expect(t, ExitDone, "", "", "top", "--once", "--interval", "50ms", "--sort", "size", "-o", "json")
	var seen struct {
		Seconds float64
		Queues  []map[string]any
	}
	if err := json.Unmarshal([]byte(r.out), &seen); err != nil || seen.Seconds < 0.05 || len(seen.Queues) != 4 ||
		seen.Queues[0]["name"] != "over" || seen.Queues[0]["in_per_s"] != 0.0 || seen.Queues[1]["fullness"] != 0.5 ||
		!strings.Contains(r.out, `"reason": "too\u001b[2Jmany"`) {
		t.Errorf("%v: %s", err, r.out)
	}

	expect(t, ExitUsage, "", "--interval", "top", "--interval", "1ms")
	expect(t, ExitUsage, "", "--rows", "top", "--rows=-1")
	expect(t, ExitUsage, "", "--sort", "top", "--sort", "colour")
	expect(t, ExitUnreachable, "", "nothing answers", "top", "--server", "http://127.0.0.1:1")
}

// top goes on after a server was unreachable, or answered nonsense.
func TestTopAfterFailures(t *testing.T) {
	url, store := ingressAndStore(t)
	if _, err := store.Put(
		t.Context(), queue.Spec{Name: "email", Rate: leaky.PerSecond(1)}, queue.AnyRevision,
	); err != nil {
		t.Fatal(err)
	}
	var looks atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		look := int64(1)
		if r.URL.Path == "/v1/queues" { // each look asks for the drainers too
			look = looks.Add(1)
		}
		switch look {
		case 2, 3: // the client itself tries again once, on another connection
			panic(http.ErrAbortHandler)
		case 4:
			http.Error(w, "a proxy's own words", http.StatusBadGateway)
		case 5:
			_, _ = w.Write([]byte("not JSON"))
		default:
			http.Redirect(w, r, url+r.URL.String(), http.StatusTemporaryRedirect)
		}
	}))
	defer proxy.Close()
	var all strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	out := &untilSeen{text: "1 queue (", times: 6, then: cancel}
	code := Run(
		ctx, []string{"top", "--server", proxy.URL, "--interval", "50ms"},
		Streams{In: strings.NewReader(""), Out: io.MultiWriter(out, &all), Err: &all},
	)
	text := all.String()
	if code != ExitDone || !strings.Contains(text, "no answer from") || !strings.Contains(text, "a proxy's own words") ||
		!strings.Contains(text, "is this an ingress?") {
		t.Errorf("exit %d\n%s", code, text)
	}
	if last := text[strings.LastIndex(text, "1 queue ("):]; strings.Contains(last, "no look") ||
		!strings.Contains(last, "email") {
		t.Errorf("the last picture:\n%s", last)
	}
}

func TestTopAsJSONLines(t *testing.T) {
	url, store := ingressAndStore(t)
	if _, err := store.Put(
		t.Context(), queue.Spec{Name: "email", Rate: leaky.PerSecond(1)}, queue.AnyRevision,
	); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	out := &untilSeen{text: "in_per_s", times: 2, then: cancel}
	code := Run(
		ctx, []string{"top", "--server", url, "--interval", "50ms", "-o", "json"},
		Streams{In: strings.NewReader(""), Out: io.MultiWriter(out, &all), Err: &all},
	)
	lines := strings.Split(strings.TrimSuffix(all.String(), "\n"), "\n")
	if code != ExitDone || len(lines) < 3 {
		t.Fatalf("exit %d\n%s", code, all.String())
	}
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Errorf("%s", line)
		}
	}
}
