package drain_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// A receiver that says "too many" without a time is asked after 1, 2, 4 ... 60 s, by all drainers together, and at the
// queue's rate again once it accepts a job.
func TestAThrottlingReceiverWithoutATime(t *testing.T) {
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
			t.Errorf("%d jobs left in the 20 s at least since it accepts them, want 5 a second", taken)
		}
		mu.Unlock()
		one.finish(t)
		two.finish(t)
	})
}

// An attempt that never left gives back what it used. A target that refuses connections uses up no quota, and once it
// returns the whole quota is delivered.
func TestATargetThatRefusesUsesUpNoQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := embedded(t)
		defer e.Close()
		put(t, e, queue.Spec{
			Name: "q", Rate: leaky.PerSecond(5), Limits: []queue.Limit{{Quota: queue.Quota{Max: 20, Per: "h"}}},
		})
		time.Sleep(time.Second)
		push(t, e, "q", 0, 100)
		var opens atomic.Bool
		var delivered atomic.Int64
		d := start(e, preparing(func() error {
			if opens.Load() {
				return nil
			}
			return drain.Down(errors.New("connection refused"))
		}, func() { delivered.Add(1) }), drain.Options{PlainTimers: true})
		time.Sleep(20 * time.Minute)
		if i := info(t, e, "q"); i.Limits[0].Window.Used != 0 || i.Down < 10 || i.Down > 40 {
			t.Errorf("%d of the quota are used after %d probes", i.Limits[0].Window.Used, i.Down)
		}
		opens.Store(true)
		time.Sleep(5 * time.Minute)
		if n := delivered.Load(); n != 20 {
			t.Errorf("%d were delivered, want the whole quota of 20", n)
		}
		d.finish(t)
	})
}

// preparing returns a handler that prepares before its gate, and works after it.
func preparing(prepare func() error, work func()) drain.Handler { return prepared{prepare, work} }

type prepared struct {
	prepare func() error
	work    func()
}

func (p prepared) Handle(ctx context.Context, _ *drain.Job, gate drain.Gate) error {
	if err := p.prepare(); err != nil {
		return err
	}
	if err := gate.Wait(ctx); err != nil {
		return err
	}
	p.work()
	return nil
}
