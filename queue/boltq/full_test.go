package boltq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
)

func big(name string, n int) queue.Job {
	return queue.Job{Queue: name, ID: fmt.Sprintf("big-%05d", n), Payload: make([]byte, 4000)}
}

// A full store refuses appends, loses nothing, keeps draining, and accepts jobs again when there is room.
func TestFullStore(t *testing.T) {
	b := start(t, Options{MaxBytes: 1 << 20})
	ctx := context.Background()
	b.MustPut("q", "unlimited", func(s *queue.Spec) { s.Retention.Max, s.MaxBytes = 1, queue.MostMaxBytes })
	b.MustPut("slow", "1000/s")
	b.AppendTo("slow", 0, 5)
	accepted := map[string]bool{}
	n := 0
	fill := func() {
		t.Helper()
		for {
			a, err := b.Append(ctx, []queue.Job{big("q", n)})
			if err != nil {
				if !errors.Is(err, queue.ErrStoreFull) || !strings.Contains(err.Error(), b.path) ||
					a[0].Outcome != queue.Failed {
					t.Fatalf("%+v, %v", a, err)
				}
				return
			}
			accepted[a[0].ID] = true
			n++
		}
	}
	fill()
	if len(accepted) < 50 {
		t.Fatalf("full after %d", len(accepted))
	}
	if i := b.MustGet("q"); i.Waiting != int64(len(accepted)) || i.Appended != i.Waiting {
		t.Errorf("%d accepted, %+v", len(accepted), i)
	}
	if err := b.Check(ctx); err != nil {
		t.Errorf("a full store is not broken: %v", err)
	}
	for round := range 3 {
		for range 20 {
			got := b.MustReserve(3)
			for i, s := range b.MustSettle(queue.Deliver, got) {
				if s.State != queue.Delivered || s.Err != nil {
					t.Fatalf("round %d: %+v", round, s)
				}
				delete(accepted, got[i].ID)
			}
		}
		await.Until(t, "room again", func() bool {
			a, err := b.Append(ctx, []queue.Job{big("q", n)})
			if err == nil {
				accepted[a[0].ID] = true
				n++
			}
			return err == nil
		})
		fill()
	}
	b.reopen()
	for id := range accepted {
		if j, err := b.Job(ctx, "q", id); err != nil || j.State != queue.Waiting {
			t.Errorf("%s: %v, %v", id, j.State, err)
		}
	}
	if i := b.MustGet("q"); i.Waiting != int64(len(accepted)) {
		t.Errorf("%d accepted and not delivered, %d wait", len(accepted), i.Waiting)
	}
}

// With many callers and a store that is full again and again, exactly the accepted jobs are delivered.
func TestFullStoreUnderACrowd(t *testing.T) {
	b := start(t, Options{MaxBytes: 1 << 20, Now: wall})
	ctx := context.Background()
	b.MustPut("q", "unlimited", func(s *queue.Spec) { s.Retention.Max, s.MaxBytes = 1, queue.MostMaxBytes })
	var accepted, refused sync.Map
	var full atomic.Int64
	var appenders, drainers sync.WaitGroup
	for w := range 8 {
		appenders.Go(func() {
			for i := range 120 {
				j := big("q", w*1000+i)
				a, err := b.Append(ctx, []queue.Job{j})
				switch {
				case err == nil && a[0].Outcome == queue.Accepted:
					accepted.Store(j.ID, true)
				case errors.Is(err, queue.ErrStoreFull):
					refused.Store(j.ID, true)
					full.Add(1)
				default:
					t.Error(a, err)
				}
			}
		})
	}
	ctxDrain, stop := context.WithCancel(ctx)
	delivered := map[string]int{}
	drainers.Go(func() {
		rnd := rand.New(rand.NewPCG(5, 5))
		await.Until(t, "full", func() bool { return full.Load() > 0 || ctxDrain.Err() != nil })
		for n := uint64(1); ; n++ {
			// before the look: appends before the end are seen by a later look
			ended := ctxDrain.Err() != nil
			r, err := b.Reserve(ctx, queue.ReserveRequest{
				Client: queue.Client{ID: "d"}, Number: n, Max: 1 + rnd.IntN(20),
			})
			if err != nil {
				t.Error(err)
				return
			}
			for i, s := range b.MustSettle(queue.Deliver, r.Jobs) {
				if s.Err != nil {
					t.Errorf("%+v", s)
				}
				delivered[r.Jobs[i].ID]++
			}
			if len(r.Jobs) == 0 && ended {
				return
			}
		}
	})
	appenders.Wait()
	stop()
	drainers.Wait()
	n := 0
	accepted.Range(func(id, _ any) bool {
		n++
		if delivered[id.(string)] != 1 {
			t.Errorf("%v was delivered %d times", id, delivered[id.(string)])
		}
		return true
	})
	refused.Range(func(id, _ any) bool {
		if delivered[id.(string)] != 0 {
			t.Errorf("%v was refused and delivered", id)
		}
		return true
	})
	if full.Load() == 0 || n == 0 {
		t.Errorf("%d accepted, %d refused", n, full.Load())
	}
	if i := b.MustGet("q"); i.Appended != int64(n) || i.Delivered != int64(n) || i.Size() != 0 {
		t.Errorf("%d accepted: %+v", n, i)
	}
}
