package drain_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/engines"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// requests counts requests, and jobs released for lack of a handler.
type requests struct {
	*releases
	n atomic.Int64
}

func (c *requests) Reserved(int, int, int, time.Duration, error) { c.n.Add(1) }

// The queues of an app with few handlers left do not request more than these together, even though none has less than
// it wants and others hang. No slot is lost by a job reserved in vain, and they do not ask more often either.
func TestQueuesOfAnAppAskForItsRemainingHandlers(t *testing.T) {
	// vain is the maximum number of jobs reserved in vain, in percent of the delivered ones.
	run := func(t *testing.T, e queue.Engine, share float64, flowing, hanging int, rate, vain int64) {
		t.Helper()
		last := 15 * time.Second
		if vain > 1 {
			last = 4 * time.Second
		}
		a := &apps{shares: map[string]float64{"acme": share}}
		fill := func(name string, rate int64) {
			put(t, e, queue.Spec{Name: name, Rate: leaky.PerSecond(rate), Lease: unit.Duration(time.Hour)})
			push(t, e, name, 0, 400)
		}
		for i := range hanging {
			fill(fmt.Sprint("acme-hangs", i), 20)
		}
		for i := range flowing {
			fill(fmt.Sprint("acme-", i), rate)
		}
		c := &requests{releases: newReleases()}
		var done atomic.Int64
		d := start(e, drain.HandlerFunc(func(ctx context.Context, job *drain.Job) error {
			if strings.Contains(job.Queue, "hangs") {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			time.Sleep(40 * time.Millisecond)
			done.Add(1)
			return nil
		}), drain.Options{PlainTimers: true, Concurrency: 16, AppOf: a.of, Observer: c, Grace: time.Millisecond})
		want := int64(flowing) * rate * int64(last/time.Second)
		if want > 400*int64(flowing) {
			t.Fatal("there are not as many jobs")
		}
		time.Sleep(last)
		delivered, inVain, asked := done.Load(), int64(c.of(drain.NoHandler)), c.n.Load()
		d.finish(t)
		if inVain > delivered*vain/100 {
			t.Errorf("%d jobs were reserved in vain, while %d were delivered", inVain, delivered)
		}
		if vain > 1 {
			return // real time passes
		}
		if delivered < want*99/100 {
			t.Errorf("%d delivered of %d", delivered, want)
		}
		if asked > delivered*3/2 {
			t.Errorf("%d requests for %d jobs", asked, delivered)
		}
	}
	for _, c := range []struct {
		share            float64
		flowing, hanging int
		rate             int64
	}{{0, 6, 0, 20}, {.25, 6, 0, 20}, {.375, 6, 0, 20}, {.5, 8, 4, 5}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := embedded(t)
				defer e.Close()
				run(t, e, c.share, c.flowing, c.hanging, c.rate, 1)
			})
		})
	}
	engines.Each(t, func(t *testing.T, e queue.Engine) { run(t, e, .5, 8, 4, 5, 20) })
}

// Idle queues of an app claim little of the app's remaining handlers, and last. Its busy queues need not ask twice, or
// there would be half as many requests again. Once the drainer knows all queues, no job is reserved in vain. The queues
// need 14 of the app's 24 handlers, so that its limit costs few departures.
func TestIdleQueuesOfAnAppLeaveItsHandlersToBusyOnes(t *testing.T) {
	synctest.Test(t, idleQueuesOfAnApp)
}

func idleQueuesOfAnApp(t *testing.T) {
	const busy, idle, rate, last = 2, 28, 60, 10 * time.Second
	e := embedded(t)
	defer e.Close()
	for i := range idle { // one job a second each, at different instants
		name := fmt.Sprint("acme-idle", i)
		put(t, e, queue.Spec{Name: name, Rate: leaky.PerSecond(1)})
		push(t, e, name, 0, 20)
		time.Sleep(time.Second / idle)
	}
	for i := range busy {
		name := fmt.Sprint("acme-busy", i)
		put(t, e, queue.Spec{Name: name, Rate: leaky.PerSecond(rate)})
		push(t, e, name, 0, 800)
	}
	a := &apps{shares: map[string]float64{"acme": .75}}
	c := &requests{releases: newReleases()}
	var done atomic.Int64
	d := start(e, drain.HandlerFunc(func(context.Context, *drain.Job) error {
		time.Sleep(40 * time.Millisecond)
		done.Add(1)
		return nil
	}), drain.Options{PlainTimers: true, Concurrency: 16, AppOf: a.of, Observer: c, Grace: time.Millisecond})
	time.Sleep(time.Second)
	met := c.of(drain.NoHandler)
	time.Sleep(last - time.Second)
	delivered, inVain, asked := done.Load(), c.of(drain.NoHandler)-met, c.n.Load()
	d.finish(t)
	if inVain > 0 {
		t.Errorf("%d jobs were reserved in vain", inVain)
	}
	if want := int64((busy*rate + idle) * (last / time.Second)); delivered < want*97/100 {
		t.Errorf("%d delivered of %d", delivered, want)
	}
	if asked > delivered*2/5 {
		t.Errorf("%d requests for %d jobs", asked, delivered)
	}
}
