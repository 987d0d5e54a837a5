package drain_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/unit"
)

// receivers answer after a time that depends on the queue, and count their requests.
type receivers struct {
	mu    sync.Mutex
	takes map[string]time.Duration // at once, for other queues
	came  map[string]int
}

func (r *receivers) handle(ctx context.Context, job *drain.Job) error {
	r.mu.Lock()
	r.came[job.Queue]++
	takes := r.takes[job.Queue]
	r.mu.Unlock()
	select {
	case <-time.After(takes + 2*time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// recover has all requests answered at once from now on.
func (r *receivers) recover() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takes = nil
}

// counts returns the requests so far.
func (r *receivers) counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := make(map[string]int, len(r.came))
	for name, n := range r.came {
		now[name] = n
	}
	return now
}

func embedded(t *testing.T) *boltq.Engine {
	t.Helper()
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// usage returns one queue's part of a drainer's handlers.
func usage(u *drain.Usage, name string) drain.QueueUse {
	for _, q := range u.Queues() {
		if q.Queue == name {
			return q
		}
	}
	return drain.QueueUse{}
}

// However long the receiver of one queue hangs, the 99 others have 99% of their pace and more. Virtual time leaves only
// the rule to decide it.
func TestAHangingReceiverStopsNoOther(t *testing.T) {
	const others, perSecond, span = 99, 10, 10 * time.Second
	for _, tt := range []struct {
		name  string
		hangs time.Duration
		first bool // it takes all handlers that it may before the others have jobs
	}{
		{"10 s, the others come later", 10 * time.Second, true},
		{"10 s, all at once", 10 * time.Second, false},
		{"an hour, the others come later", time.Hour, true},
		{"an hour, all at once", time.Hour, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := embedded(t)
				defer e.Close()
				put(t, e, queue.Spec{Name: "hangs", Rate: leaky.PerSecond(1000), Lease: unit.Duration(2 * time.Hour)})
				push(t, e, "hangs", 0, 5000)
				r := &receivers{takes: map[string]time.Duration{"hangs": tt.hangs}, came: map[string]int{}}
				var u drain.Usage
				d := start(e, drain.HandlerFunc(r.handle), drain.Options{PlainTimers: true, Usage: &u, Grace: time.Millisecond})
				if tt.first {
					time.Sleep(3 * time.Second)
				}
				if q := usage(&u, "hangs"); tt.first && (q.Handlers != drain.DefaultConcurrency || !q.Short) {
					t.Errorf("alone it has %d handlers (short %v), want all %d", q.Handlers, q.Short, drain.DefaultConcurrency)
				}
				for i := range others {
					name := fmt.Sprint("other", i)
					put(t, e, queue.Spec{Name: name, Rate: leaky.PerSecond(perSecond)})
					push(t, e, name, 0, 2*perSecond*int(span/time.Second))
				}
				time.Sleep(time.Second) // until the last of them has started
				before := r.counts()
				time.Sleep(span)
				after := r.counts()
				want := perSecond * int(span/time.Second)
				for i := range others {
					name := fmt.Sprint("other", i)
					if n := after[name] - before[name]; n*100 < want*99 || n > want+1 {
						t.Errorf("%s had %d departures in %v, want %d", name, n, span, want)
					}
				}
				if n := after["hangs"]; n < drain.DefaultConcurrency/2 {
					t.Errorf("%d of the hanging queue left, want its share at least", n)
				}
				d.finish(t)
			})
		})
	}
}

// If one drainer has no handler for a job, another has, and no slot waits for a free handler.
func TestASlowQueueHasTheHandlersOfAllDrainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := embedded(t)
		defer e.Close()
		// 20/s x 10 s: 200 handlers.
		put(t, e, queue.Spec{Name: "slow", Rate: leaky.PerSecond(20), Lease: unit.Duration(time.Minute)})
		push(t, e, "slow", 0, 5000)
		r := &receivers{takes: map[string]time.Duration{"slow": 10 * time.Second}, came: map[string]int{}}
		var u, v drain.Usage
		one := start(e, drain.HandlerFunc(r.handle), drain.Options{PlainTimers: true, Usage: &u, Grace: time.Millisecond})
		two := start(e, drain.HandlerFunc(r.handle), drain.Options{PlainTimers: true, Usage: &v, Grace: time.Millisecond})
		time.Sleep(60 * time.Second)
		if n, want := r.counts()["slow"], 60*20; n < want*99/100 {
			t.Errorf("%d departures, want %d", n, want)
		}
		if a, b := usage(&u, "slow"), usage(&v, "slow"); a.Handlers+b.Handlers < 198 || a.Handlers > 128 || b.Handlers > 128 {
			t.Errorf("%d and %d handlers, want 200 together", a.Handlers, b.Handlers)
		}
		one.finish(t)
		two.finish(t)
	})
}

// A queue with all handlers that it may have, and without an answer, hangs; a slow one does not.
func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := embedded(t)
		defer e.Close()
		for _, name := range []string{"hangs", "slow"} {
			put(t, e, queue.Spec{ // whose circuit would open when it hangs
				Name: name, Rate: leaky.PerSecond(100), Lease: unit.Duration(2 * time.Hour), Circuit: queue.Circuit{Off: true},
			})
			push(t, e, name, 0, 5000)
		}
		r := &receivers{
			takes: map[string]time.Duration{"hangs": time.Minute, "slow": 9 * time.Second}, came: map[string]int{},
		}
		var u drain.Usage
		var text bytes.Buffer
		d := start(e, drain.HandlerFunc(r.handle), drain.Options{
			PlainTimers: true, Usage: &u, Grace: time.Millisecond, Logger: slog.New(slog.NewTextHandler(&text, nil)),
		})
		for at := time.Duration(0); at < 50*time.Second; at += time.Second {
			if q := usage(&u, "slow"); q.Hanging {
				t.Fatalf("a queue whose receiver answers after 9 s is reported as hanging, at %v", at)
			}
			if q := usage(&u, "hangs"); q.Hanging != (at > 11*time.Second) && at != 11*time.Second {
				t.Fatalf("after %v: %+v", at, q)
			}
			time.Sleep(time.Second)
		}
		q := usage(&u, "hangs")
		if q.Handlers < 80 || q.Longest < 49*time.Second || q.Longest > 51*time.Second {
			t.Errorf("%+v", q)
		}
		time.Sleep(15 * time.Second)
		if q := usage(&u, "hangs"); q.Hanging {
			t.Error("it hangs though its receiver answered")
		}
		d.finish(t)
		if n, m := strings.Count(text.String(), "queue hangs"), strings.Count(text.String(), "no longer hangs"); n != 1 ||
			m != 1 {
			t.Errorf("logged %d and %d times, want once each:\n%s", n, m, text.String())
		}
		if u.Queues() != nil {
			t.Error("a drainer that stopped has handlers")
		}
	})
}
