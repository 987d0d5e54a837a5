package drain_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// A receiver that says "too many" and never until when is asked after 1, 2, 4 ... 60 s, by all drainers together, and at
// the queue's rate again once it takes a job.
func TestAReceiverThatDoesNotSayUntilWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := embedded(t)
		defer e.Close()
		put(t, e, queue.Spec{Name: "q", Rate: leaky.PerSecond(5)})
		push(t, e, "q", 0, 2000)
		begin := time.Now()
		const opens = 5 * time.Minute
		var mu sync.Mutex
		var asked []time.Duration // before it opens
		taken := 0
		h := drain.HandlerFunc(func(context.Context, *drain.Job) error {
			mu.Lock()
			defer mu.Unlock()
			at := time.Since(begin)
			if at > opens {
				taken++
				return nil
			}
			asked = append(asked, at)
			return drain.Throttled(time.Time{})
		})
		one := start(e, h, drain.Options{PlainTimers: true})
		two := start(e, h, drain.Options{PlainTimers: true})
		time.Sleep(opens)
		mu.Lock()
		for i, wait := 1, time.Second; i < len(asked); i, wait = i+1, min(2*wait, time.Minute) {
			if gap := asked[i] - asked[i-1]; gap < wait || gap > wait+wait/4+time.Second/2 {
				t.Errorf("request %d came %v after the one before, want %v and up to a quarter more", i, gap, wait)
			}
		}
		if n := len(asked); n < 9 || n > 11 {
			t.Errorf("%d requests in %v: %v", n, opens, asked)
		}
		mu.Unlock()
		time.Sleep(time.Minute + time.Minute/4 + 20*time.Second)
		mu.Lock()
		if taken < 95 {
			t.Errorf("%d jobs left in the 20 s at least since it takes them, want 5 a second", taken)
		}
		mu.Unlock()
		one.finish(t)
		two.finish(t)
	})
}
