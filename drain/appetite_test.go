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
	a := strictAppetite()
	for i, c := range []struct {
		after   time.Duration // since the step before
		waiting int
		late    bool
		times   int
		claims  int
		pause   time.Duration
	}{
		{0, 300, false, 99, 500, 0},
		{0, 300, true, 1, 0, fullPause}, // 150 may wait
		{0, 100, false, 0, 50, 0},
		{queue.Horizon - 1, 100, true, 9, 50, 0}, // they were granted together
		{1, 100, true, 1, 0, fullPause},          // 50 may
		{time.Second, 0, false, 49, 50, 0},
		{0, 0, false, 1, 51, 0},
		{0, 0, false, 51, 52, 0},
		{time.Second, 4, true, 1, 48, 0},        // one is spared, since 101 started in time
		{time.Second, 4, true, 1, 0, fullPause}, // 2 may
		{time.Second, 2, true, 1, 0, fullPause}, // 1 may
		{time.Second, 0, true, 1, 0, 10 * ms},
		{10 * ms, 0, false, 0, 1, 0},
		{time.Second, 0, true, 1, 0, 20 * ms}, // none has started in time
		{15 * ms, 0, false, 0, 0, 5 * ms},
		{5 * ms, 1, false, 0, 0, fullPause},
		{0, 0, false, 1, 2, 0},
		{0, 0, false, 200_000, 500, 0},
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
		claims, pause := a.claim(queue.MaxReserve, now)
		a.unclaim(claims)
		if claims != c.claims || pause != c.pause {
			t.Errorf("step %d: claims %d, pauses %v; want %d, %v", i, claims, pause, c.claims, c.pause)
		}
	}
}

// strictAppetite spares no late job until others have started in time.
func strictAppetite() *appetite {
	a := newAppetite()
	a.credit.Store(0)
	return a
}

// One late job in a hundred changes nothing, and at most ten together.
func TestLateJobsAreSpared(t *testing.T) {
	now := time.Now()
	a := newAppetite()
	late := func(n int) {
		for range n {
			now = now.Add(queue.Horizon)
			a.late(now)
		}
	}
	for range 5 {
		late(10)
		for range 1000 {
			a.started()
		}
	}
	for range 10_000 { // however many more start in time
		a.started()
	}
	late(10)
	if !a.whole.Load() {
		t.Error("a late job in a hundred lowered the maximum")
	}
	late(1)
	if a.whole.Load() {
		t.Error("eleven late jobs together did not lower the maximum")
	}
}

// One partition's claim is not available to another.
func TestClaims(t *testing.T) {
	now := time.Now()
	a := strictAppetite()
	jobs := a.batch(100, now)
	a.late(now) // 50 may wait
	for range 90 {
		jobs.over()
	}
	for i, want := range []int{30, 10, 0} {
		if got, _ := a.claim(30, now); got != want {
			t.Errorf("claim %d is for %d jobs, want %d", i, got, want)
		}
	}
	a.unclaim(40)
	if got, _ := a.claim(queue.MaxReserve, now); got != 40 {
		t.Errorf("then a claim is for %d jobs, want 40", got)
	}
}

// Jobs that wait for their receiver do not prevent requests for others.
func TestJobsThatWaitForTheirReceiver(t *testing.T) {
	now := time.Now()
	a := strictAppetite()
	hang, others := a.batch(60, now), a.batch(40, now)
	a.late(now) // 50 may wait
	for range 40 {
		others.over()
	}
	if got, _ := a.claim(1, now.Add(time.Second)); got != 0 {
		t.Errorf("claims %d while 60 wait", got)
	}
	later := now.Add(queue.Horizon + waitsFor + 1)
	if got, _ := a.claim(queue.MaxReserve, later); got != 50 {
		t.Errorf("claims %d, want 50", got)
	}
	for range 60 {
		hang.over()
	}
	if got := a.waiting.Load(); got != 50 || len(a.batches) != 0 {
		t.Errorf("%d wait in %d batches, want the 50 that are claimed", got, len(a.batches))
	}
}

// While everything granted comes too late, less and less is requested.
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
