package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/status"
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
	want := `4 queues: 7 jobs, 0 deferred; no drainer was ever seen; a second 0.0 out, 0.0 in, 0.0 refused, 0.0 ` +
		`deferred, 0.0 lost

NAME    FILL                         SIZE  RATE  IN/S  OUT/S  REFUSED/S  DEFERRED/S  DEFERRED  LOST/S  STATE
over    [####################] 133%   4/3   1/s   0.0    0.0        0.0         0.0         0     0.0  no drainer, full
half    [##########..........]  50%   2/4   1/s   0.0    0.0        0.0         0.0         0     0.0  no drainer
paused  [#####...............]  25%   1/4   1/s   0.0    0.0        0.0         0.0         0     0.0  paused: ` +
		`too\u001b[2Jmany
empty   [....................]   0%   0/4   1/s   0.0    0.0        0.0         0.0         0     0.0  idle
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

// queueOf is one as a server shows it.
func queueOf(name string, s wire.Stats) wire.Queue {
	return wire.Queue{
		Spec: queue.Spec{Name: name, Rate: leaky.PerSecond(10), Capacity: 100},
		Flow: &wire.Flow{Status: wire.Status{Code: status.Flowing}, Stats: s},
	}
}

func TestTopTellsWhatChanged(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	p := &picture{sort: "fullness"}
	first := wire.Stats{Waiting: 50, Counters: queue.Counters{
		Appended: 1000, Replayed: 10, Refused: 7, SetAside: 20, Lost: 100,
	}}
	p.see([]wire.Queue{queueOf("a", first), queueOf("gone", first), queueOf("remade", first)}, at)
	if p.Seconds != 0 || p.Queues[0].speeds != nil {
		t.Errorf("the first look knows %+v", p.Queues[0].speeds)
	}
	if text := p.text(0, 0); !strings.Contains(text, "     -    0.0          -           -         0       -  flowing") {
		t.Errorf("the first look:\n%s", text)
	}
	second := wire.Stats{Waiting: 80, Outflow: 9.5, Counters: queue.Counters{
		Appended: 1020, Replayed: 11, Refused: 8, SetAside: 23, Lost: 106,
	}}
	p.see(
		[]wire.Queue{queueOf("a", second), queueOf("new", second), queueOf("remade", wire.Stats{
			Counters: queue.Counters{Appended: 5},
		})},
		at.Add(2*time.Second),
	)
	if got, want := *p.Queues[0].speeds, (speeds{In: 10.5, Refused: 0.5, Deferred: 1.5, Lost: 3}); got != want ||
		p.Queues[0].Name != "a" || p.Queues[0].Out != 9.5 {
		t.Errorf("%+v, want %+v", got, want)
	}
	if p.Queues[1].Name != "new" || p.Queues[1].speeds != nil || p.Queues[2].Name != "remade" ||
		p.Queues[2].speeds != nil {
		t.Errorf("of queues that were not there before: %+v", p.Queues[1:])
	}
	// Two look like one while nothing answers between them.
	p.failed(errors.New("it is \x1b[2J gone"))
	if text := p.text(0, 0); !strings.Contains(text, "no look for ") || !strings.Contains(text, "it is \\u001b[2J gone") ||
		!strings.Contains(text, "\na ") {
		t.Errorf("after a failure:\n%s", text)
	}
	second.Appended += 100
	second.SetAside--
	p.see([]wire.Queue{queueOf("a", second)}, at.Add(12*time.Second))
	if s := p.Queues[0].speeds; p.Error != "" || s == nil || s.In != 10 || s.Deferred != 0 {
		t.Errorf("after it came back: %q, %+v", p.Error, s)
	}
}

func TestTopSorts(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for by, want := range map[string]string{
		"fullness": "d", "name": "a", "size": "e", "out": "c", "in": "b", "refused": "f", "deferred": "g", "lost": "h",
	} {
		p := &picture{sort: by}
		look := func(n int64) []wire.Queue {
			list := []wire.Queue{
				queueOf("a", wire.Stats{}), queueOf("b", wire.Stats{Counters: queue.Counters{Appended: n}}),
				queueOf("c", wire.Stats{Outflow: 5}), queueOf("d", wire.Stats{Waiting: 50}),
				queueOf("e", wire.Stats{Leased: 60}), queueOf("f", wire.Stats{Counters: queue.Counters{Refused: n}}), queueOf(
					"g", wire.Stats{Counters: queue.Counters{SetAside: n}},
				), queueOf("h", wire.Stats{Counters: queue.Counters{Lost: n}}),
			}
			list[4].Capacity = 1000
			return list
		}
		p.see(look(1), at)
		p.see(look(2), at.Add(time.Second))
		if p.Queues[0].Name != want {
			t.Errorf("by %s: %s is first, want %s", by, p.Queues[0].Name, want)
		}
	}
}

func TestTopFits(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	p := &picture{Server: "http://" + strings.Repeat("long", 60), sort: "fullness"}
	var list []wire.Queue
	for i := range 100 {
		q := queueOf(strings.Repeat("q", 1+i%64)+fmt.Sprint(".n", i), wire.Stats{
			Waiting: int64(i), Counters: queue.Counters{Appended: 1 << 40},
		})
		if i%2 == 0 {
			q.Paused, q.Status = true, wire.Status{Code: status.Paused, Reason: strings.Repeat("why ", 100)}
		}
		list = append(list, q)
	}
	p.see(list, at)
	for i := range list {
		list[i].Stats.Appended *= 2
	}
	p.see(list, at.Add(time.Second))
	for width := 20; width < 260; width++ {
		text := p.text(width, 7)
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) != 7+otherLines || lines[len(lines)-1] != "and 93 more" {
			t.Fatalf("at width %d: %d lines\n%s", width, len(lines), text)
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > width {
				t.Fatalf("at width %d: %q", width, line)
			}
		}
		if width >= 80 && !strings.Contains(text, "paused:") || width >= 40 && !strings.Contains(text, "99/100") ||
			width >= 160 && !strings.Contains(text, "REFUSED/S") {
			t.Fatalf("at width %d:\n%s", width, text)
		}
	}
}

func TestBar(t *testing.T) {
	for part, want := range map[float64]string{
		0: "[..........]   0%", 0.0001: "[#.........]   1%", 0.5: "[#####.....]  50%", 0.9999: "[#########.]  99%",
		1: "[##########] 100%", 2.5: "[##########] 250%",
	} {
		if got := barOf(part, 10); got != want {
			t.Errorf("%v: %s, want %s", part, got, want)
		}
	}
}

// An ingress that goes away and comes back, and one that answers nonsense for a while.
func TestTopGoesOn(t *testing.T) {
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
	out := &untilSeen{text: "1 queue: ", times: 6, then: cancel}
	code := Run(
		ctx, []string{"top", "--server", proxy.URL, "--interval", "50ms"},
		Streams{In: strings.NewReader(""), Out: io.MultiWriter(out, &all), Err: &all},
	)
	text := all.String()
	if code != ExitDone || !strings.Contains(text, "no answer from") || !strings.Contains(text, "a proxy's own words") ||
		!strings.Contains(text, "is this an ingress?") {
		t.Errorf("exit %d\n%s", code, text)
	}
	if last := text[strings.LastIndex(text, "1 queue: "):]; strings.Contains(last, "no look") ||
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
