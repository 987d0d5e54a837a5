package pushcmd

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/internal/cli/push"
)

// Without a terminal a push prints every ten seconds how far it is, its present rate, and why it waits.
func TestProgressWithoutATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		asked := 0
		p := newProgress(&out, 5000, func() string { asked++; return "paused by ann, at 14/s" })
		// 1,000 find room at once; then 14 a second do.
		for s := range 61 {
			p.show(push.Count{
				Read: 1500 + 14*s, Undecided: 500, Refusals: 500, Waits: "the queue is full",
				Until: time.Now().Add(1500 * time.Millisecond),
			})
			time.Sleep(time.Second)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 6 {
			t.Fatalf("%d lines in a minute:\n%s", len(lines), out.String())
		}
		if want := "pushing 1840 of 5000 jobs, 14/s, about 3m45s left; 500 wait, the next for 1.5s: the queue is full; " +
			"the queue: paused by ann, at 14/s"; lines[5] != want {
			t.Errorf("it prints %s\nwant      %s", lines[5], want)
		}
		if asked != 6 {
			t.Errorf("the queue was asked %d times", asked)
		}

		out.Reset()
		for range 41 { // nothing moves
			p.show(push.Count{Read: 2340, Undecided: 500, Refusals: 900})
			time.Sleep(time.Second)
		}
		if !strings.Contains(out.String(), "pushing 1840 of 5000 jobs, 0/s, none lately; 500 wait for room") {
			t.Errorf("it prints %s", out.String())
		}
	})
}
