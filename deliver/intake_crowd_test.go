package deliver

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/queue"
)

// In a crowd one caller reads; the others wait only if the known spec is too old.
func TestIntakeCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const crowd, slow = 100, 300 * time.Millisecond
		o := &office{specs: map[string]string{"sms": `{"picky": 3}`}, slow: slow}
		i := intakeOf(o)
		come := func(name string, want int64) (waited time.Duration) {
			start := time.Now()
			var all sync.WaitGroup
			for range crowd {
				all.Go(func() {
					jobs := []queue.Job{{Queue: name, ID: "a", Payload: []byte("{}")}}
					if target := i.targets.get(t.Context(), name).target; (target != nil) != (want > 0) {
						t.Error("target", target)
					} else if target != nil && (target.Accept(&jobs[0]) != nil || jobs[0].Cost != want) {
						t.Error("cost", jobs[0].Cost)
					}
				})
			}
			all.Wait()
			if n := o.takeReads(); n != 1 {
				t.Errorf("%d reads", n)
			}
			return time.Since(start)
		}
		if waited := come("gone", 0); waited != slow {
			t.Errorf("a queue that is not there: waited %v", waited)
		}
		if waited := come("sms", 3); waited != slow {
			t.Errorf("first: waited %v", waited)
		}
		o.set("sms", `{"picky": 5}`)
		time.Sleep(specAge)
		go func() { _ = i.targets.get(t.Context(), "sms") }()
		synctest.Wait()
		start := time.Now()
		if got := cost(t, i, o, "sms"); got != 3 || time.Since(start) != 0 {
			t.Errorf("beside a look: cost %d after %v", got, time.Since(start))
		}
		time.Sleep(slow)
		synctest.Wait()
		if got := cost(t, i, o, "sms"); got != 5 {
			t.Errorf("after the look: cost %d", got)
		}
	})
}

// A caller who gives up does not affect others waiting for the same read.
func TestIntakeGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &office{specs: map[string]string{"sms": `{"picky": 3}`}, slow: 300 * time.Millisecond}
		i := intakeOf(o)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = i.targets.get(ctx, "sms") }()
		synctest.Wait()
		go func() { time.Sleep(100 * time.Millisecond); cancel() }()
		if got := cost(t, i, o, "sms"); got != 3 {
			t.Errorf("cost %d", got)
		}
	})
}

func TestIntakeIsBounded(t *testing.T) {
	o := &office{specs: map[string]string{}}
	i := intakeOf(o)
	for n := range maxTargets + 100 {
		_ = i.targets.get(t.Context(), fmt.Sprintf("unknown-%d", n))
	}
	if n := i.targets.Len(); n != 0 {
		t.Errorf("%d queues known that are not there", n)
	}
	for n := range maxTargets + 100 {
		name := fmt.Sprintf("q-%d", n)
		o.set(name, `{"picky": 3}`)
		_ = i.targets.get(t.Context(), name)
	}
	if n := i.targets.Len(); n != maxTargets {
		t.Errorf("%d queues known, the limit is %d", n, maxTargets)
	}
}

func BenchmarkIntake(b *testing.B) {
	o := &office{specs: map[string]string{"web": `{"http": {"url": "http://example.com"}}`}}
	jobs := []queue.Job{{Queue: "web", ID: "a", Payload: []byte("{}")}}
	direct := nothing{}
	for name, a := range map[string]queue.Appender{"with": NewIntake(direct, o), "without": direct} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					_, _ = a.Append(b.Context(), jobs)
				}
			})
		})
	}
}

type nothing struct{}

func (nothing) Append(context.Context, []queue.Job) ([]queue.Appended, error) { return nil, nil }
