package drain_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/engines"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// apps maps queues to apps by prefix, and has the apps' shares, which may change.
type apps struct {
	mu     sync.Mutex
	shares map[string]float64
}

func (a *apps) of(name string) (app string, share float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	app, _, _ = strings.Cut(name, "-")
	if share = a.shares[app]; share == 0 {
		return "", 0
	}
	return app, share
}

func (a *apps) set(app string, share float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shares[app] = share
}

// held is a handler whose jobs of one app stay until released. It knows how many jobs each app has at a time.
type held struct {
	hangs     string
	free      chan struct{}
	mu        sync.Mutex
	now, most map[string]int
	done      map[string]int // by queue
}

func newHeld(hangs string) *held {
	return &held{
		hangs: hangs, free: make(chan struct{}), now: map[string]int{}, most: map[string]int{}, done: map[string]int{},
	}
}

func (h *held) handle(ctx context.Context, job *drain.Job) error {
	app, _, _ := strings.Cut(job.Queue, "-")
	h.count(app, 1)
	defer h.count(app, -1)
	if app == h.hangs {
		select {
		case <-h.free:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done[job.Queue]++
	return nil
}

func (h *held) count(app string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now[app] += n
	h.most[app] = max(h.most[app], h.now[app])
}

func (h *held) counts() (most, done map[string]int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.most), maps.Clone(h.done)
}

// byApp returns the number of handlers that the queues of an app have together.
func byApp(u *drain.Usage, app string) (n int) {
	for _, q := range u.Queues() {
		if q.App == app {
			n += q.Handlers
		}
	}
	return n
}

// However many queues of an app hang, on any partition, they have no more handlers than the app's share, and the other
// app's jobs leave. Jobs that could not start meanwhile are delivered in the end.
func TestAHangingAppLeavesTheOthersTheirHandlers(t *testing.T) {
	engines.Each(t, func(t *testing.T, e queue.Engine) {
		const hanging, each, others, concurrency = 24, 4, 200, 16
		a := &apps{shares: map[string]float64{"acme": .25}} // 8 of 32
		for i := range hanging {
			name := fmt.Sprint("acme-", i)
			put(t, e, queue.Spec{Name: name, Rate: leaky.Unlimited})
			push(t, e, name, 0, each)
		}
		h := newHeld("acme")
		var u drain.Usage
		d := start(e, drain.HandlerFunc(h.handle), drain.Options{Concurrency: concurrency, AppOf: a.of, Usage: &u})
		await.Until(t, "the app has its share", func() bool { return byApp(&u, "acme") == 8 })
		put(t, e, queue.Spec{Name: "beta-1", Rate: leaky.PerSecond(400)})
		push(t, e, "beta-1", 0, others)
		await.Until(t, "the other app continues", func() bool { _, done := h.counts(); return done["beta-1"] == others })
		if n := byApp(&u, "acme"); n != 8 {
			t.Errorf("it has %d handlers, want 8", n)
		}
		close(h.free)
		await.Until(t, "all is delivered", func() bool {
			_, done := h.counts()
			for i := range hanging {
				if done[fmt.Sprint("acme-", i)] != each {
					return false
				}
			}
			return true
		})
		if most, _ := h.counts(); most["acme"] > 8 {
			t.Errorf("it had %d at a time, want 8 at most", most["acme"])
		}
		d.finish(t)
	})
}

// The share is a pool of its own for the app's queues: a lone queue has half of it, and leaves as many to another as it
// has.
func TestQueuesOfAnApp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := embedded(t)
		defer e.Close()
		a := &apps{shares: map[string]float64{"acme": .25}} // 32 of 128
		h, r := newHeld("acme"), newReleases()
		var u drain.Usage
		d := start(e, drain.HandlerFunc(h.handle), drain.Options{
			PlainTimers: true, Concurrency: 64, AppOf: a.of, Usage: &u, Observer: r, Grace: time.Millisecond,
		})
		check := func(want map[string]int) {
			t.Helper()
			time.Sleep(3 * time.Second)
			for name, n := range want {
				if q := usage(&u, name); q.Handlers != n {
					t.Errorf("%s has %d handlers, want %d: %+v", name, q.Handlers, n, u.Queues())
				}
			}
		}
		add := func(name string) {
			put(t, e, queue.Spec{
				Name: name, Rate: leaky.PerSecond(1000), Lease: unit.Duration(time.Hour), Circuit: queue.Circuit{Off: true},
			})
			push(t, e, name, 0, 200)
		}
		add("acme-a")
		check(map[string]int{"acme-a": 16})
		add("acme-b")
		check(map[string]int{"acme-a": 16, "acme-b": 8})
		before := r.of(drain.NoHandler)
		check(map[string]int{"acme-a": 16, "acme-b": 8})
		if now := r.of(drain.NoHandler); now != before || before > 128 {
			t.Errorf("%d and then %d jobs were reserved in vain", before, now)
		}
		a.set("acme", .5) // a change applies without any other event
		check(nil)
		if all, b := byApp(&u, "acme"), usage(&u, "acme-b").Handlers; all <= 40 || all > 64 || b <= 16 {
			t.Errorf("with half of all: %+v", u.Queues())
		}
		a.set("acme", .1)
		a.set("acme", 0)
		add("other-1")
		check(map[string]int{"other-1": 0})
		if _, done := h.counts(); done["other-1"] != 200 {
			t.Errorf("%d of the other were delivered", done["other-1"])
		}
		if q := usage(&u, "acme-a"); q.App != "" || q.Handlers <= 32 {
			t.Errorf("without a bound: %+v", q)
		}
		d.finish(t)
	})
}

// releases counts releases by reason.
type releases struct {
	drain.NoObserver
	mu  sync.Mutex
	why map[drain.Reason]int
}

func newReleases() *releases { return &releases{why: map[drain.Reason]int{}} }

func (r *releases) Released(_ string, why drain.Reason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.why[why]++
}

func (r *releases) of(why drain.Reason) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why[why]
}
