package drain_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// A queue whose deliveries take too long for its rate is named once, however slow it is, and when it has recovered.
// With enough handlers, in one drainer or in two, nothing is said.
func TestSlowQueuesAreNamed(t *testing.T) {
	for _, c := range []struct {
		rate     int64
		takes    time.Duration
		drainers int
		slow     bool
	}{
		{40, 4 * time.Second, 1, true},  // 160 handlers
		{14, 10 * time.Second, 1, true}, // 140 handlers; the next departure is never due yet
		{14, 9 * time.Second, 1, false},
		{14, 10 * time.Second, 2, false},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := embedded(t)
				defer e.Close()
				put(t, e, queue.Spec{
					Name: "slow", Rate: leaky.PerSecond(c.rate), Lease: unit.Duration(time.Minute), Capacity: 20_000,
				})
				push(t, e, "slow", 0, 300*int(c.rate))
				r := &receivers{takes: map[string]time.Duration{"slow": c.takes}, came: map[string]int{}}
				var text bytes.Buffer
				log := slog.New(slog.NewTextHandler(&text, nil))
				var all []*running
				for range c.drainers {
					all = append(all, start(e, drain.HandlerFunc(r.handle), drain.Options{
						PlainTimers: true, Grace: time.Millisecond, Logger: log,
					}))
				}
				time.Sleep(130 * time.Second)
				r.recover()
				time.Sleep(150 * time.Second)
				for _, d := range all {
					d.finish(t)
				}
				want := 0
				if c.slow {
					want = 1
				}
				for _, line := range []string{
					`level=WARN msg="queue loses departures: .* queue=slow lost_slots=[1-9]`,
					"queue no longer lacks handlers.* queue=slow",
				} {
					if n := len(regexp.MustCompile(line).FindAllString(text.String(), -1)); n != want {
						t.Errorf("%q was logged %d times, want %d:\n%s", line, n, want, text.String())
					}
				}
			})
		})
	}
}
