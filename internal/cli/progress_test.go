package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/cli/push"
)

// Without a terminal a push says once in ten seconds how far it is, at which pace it goes now, and why it waits.
func TestProgressWithoutATerminal(t *testing.T) {
	var out strings.Builder
	now := time.Now()
	asked := 0
	p := &progress{
		w: &out, what: "pushing", unit: "jobs", total: 5000, now: func() time.Time { return now },
		state: func() string { asked++; return "paused by ann, at 14/s" },
	}
	p.begin()
	// 1,000 find room at once; then 14 a second do.
	for s := range 61 {
		n := push.Count{
			Read: 1500 + 14*s, Undecided: 500, Refusals: 500, Waits: "the queue is full",
			Until: now.Add(1500 * time.Millisecond),
		}
		p.show(n)
		now = now.Add(time.Second)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 6 {
		t.Fatalf("%d lines in a minute:\n%s", len(lines), out.String())
	}
	if want := "1840 of 5000 jobs, 14/s, about 3m45s left; 500 wait, the next for 1.5s: the queue is full; the queue: " +
		"paused by ann, at 14/s"; lines[5] != want {
		t.Errorf("it says %s\nwant    %s", lines[5], want)
	}
	if asked != 6 {
		t.Errorf("the queue was asked %d times", asked)
	}

	out.Reset()
	for range 41 { // nothing goes on
		p.show(push.Count{Read: 2340, Undecided: 500, Refusals: 900})
		now = now.Add(time.Second)
	}
	if !strings.Contains(out.String(), "1840 of 5000 jobs, 0/s, none lately; 500 wait for room") {
		t.Errorf("it says %s", out.String())
	}
}
