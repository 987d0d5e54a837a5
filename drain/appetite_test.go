package drain

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

func TestAppetite(t *testing.T) {
	now := time.Now()
	a := newAppetite()
	for i, c := range []struct {
		after   time.Duration // since the step before
		waiting int
		late    bool
		times   int
		asks    int
		pause   time.Duration
	}{
		{0, 300, false, 100, 500, 0},
		{0, 300, true, 1, 0, fullPause}, // 150 may wait
		{0, 100, false, 0, 50, 0},
		{queue.Horizon - 1, 100, true, 9, 50, 0}, // they were granted together
		{1, 100, true, 1, 0, fullPause},          // 50 may
		{time.Second, 0, false, 49, 50, 0},
		{0, 0, false, 1, 51, 0},
		{0, 0, false, 51, 52, 0},
		{time.Second, 4, true, 1, 0, fullPause}, // 2 may
		{time.Second, 2, true, 1, 0, fullPause}, // 1 may
		{time.Second, 0, true, 1, 1, 10 * ms},
		{time.Second, 0, true, 1, 1, 20 * ms},
		{time.Second, 1, true, 1, 0, 40 * ms},
		{time.Second, 0, false, 1, 2, 0},
		{time.Second, 0, false, 200_000, 500, 0},
	} {
		now = now.Add(c.after)
		a.waiting.Store(int64(c.waiting))
		for range c.times {
			if c.late {
				a.late(now)
			} else {
				a.started()
			}
		}
		if asks, pause := a.asks(); asks != c.asks || pause != c.pause {
			t.Errorf("step %d: asks for %d, pauses %v; want %d, %v", i, asks, pause, c.asks, c.pause)
		}
	}
}

// While everything that is granted comes too late, less and less is asked for.
func TestAlwaysLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.PerSecond(100), nil)
		for call := range 2000 {
			var jobs []queue.Reservation
			for i := range 20 {
				jobs = append(jobs, job("q", fmt.Sprint(call, "-", i), -time.Second))
			}
			f.answers(answer{jobs: jobs, more: queue.Reserved{Next: ms}})
		}
		w := newWatch()
		run := drainWith(t, f, idle, Options{Observer: w})
		time.Sleep(2 * time.Minute)
		asked := f.asked()
		run.finish()
		if n := len(asked); n > 700 {
			t.Errorf("%d requests in two minutes, want one a second once they are for one job", n)
		}
		if last := asked[len(asked)-1]; last.Max != 1 {
			t.Errorf("asks for %d jobs, want 1", last.Max)
		}
	})
}
