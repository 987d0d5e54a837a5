package drain

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/internal/speccache"
	"github.com/penstock/penstock/queue"
)

// specEngine answers ReadSpecs with get's error.
type specEngine struct {
	queue.Outflow
	get   func(ctx context.Context) error
	reads int
}

func (e *specEngine) ReadSpecs(ctx context.Context, names []string) (found []queue.KeptSpec, err error) {
	e.reads++
	for _, name := range names {
		found = append(found, queue.KeptSpec{Revision: 1, Spec: queue.Spec{Name: name}})
	}
	return found, e.get(ctx)
}

// An unreadable spec is one failure for all that waited for it, not one after the other. Later jobs try again.
func TestSpecFailsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("away")
		begin := time.Now()
		e := &specEngine{get: func(ctx context.Context) error {
			if time.Since(begin) >= 10*time.Second {
				return nil
			}
			<-ctx.Done()
			return away
		}}
		specs := speccache.Specs(e, specTimeout, maxSpecs)
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * ms)
				_, err := specs.AtLeast(t.Context(), "q", 1)
				if took := time.Since(begin); !errors.Is(err, away) || took != specTimeout {
					t.Errorf("job %d: %v after %v", i, err, took)
				}
			})
		}
		all.Wait()
		if e.reads != 1 {
			t.Errorf("%d reads for all that waited, want 1", e.reads)
		}
		time.Sleep(10 * time.Second)
		if spec, err := specs.AtLeast(t.Context(), "q", 1); err != nil || spec.Name != "q" {
			t.Errorf("later: %v, %v", spec, err)
		}
	})
}

// A job canceled while it reads the spec for others does not fail them.
func TestSpecReaderCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &specEngine{get: func(ctx context.Context) error {
			select {
			case <-time.After(time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		specs := speccache.Specs(e, specTimeout, maxSpecs)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := specs.AtLeast(ctx, "q", 1); !errors.Is(err, context.Canceled) {
				t.Errorf("the canceled one got %v", err)
			}
		})
		synctest.Wait()
		for range 10 {
			all.Go(func() {
				if _, err := specs.AtLeast(t.Context(), "q", 1); err != nil {
					t.Errorf("another got %v", err)
				}
			})
		}
		synctest.Wait()
		cancel()
		all.Wait()
		if e.reads != 1 {
			t.Errorf("%d reads, want 1", e.reads)
		}
	})
}
