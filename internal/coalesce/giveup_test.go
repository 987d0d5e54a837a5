package coalesce

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Memory of a call that was given up is not reused while it is in flight: all other callers get their own answers,
// once.
func TestManyCallersOfWhomSomeGiveUp(t *testing.T) {
	for _, senders := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			w := tower{senders: senders}
			c := w.coalescer()
			var wg sync.WaitGroup
			var gaveUp, answered atomic.Int64
			for caller := range 16 {
				wg.Go(func() {
					random := rand.New(rand.NewPCG(uint64(senders), uint64(caller)))
					for i := range 200 {
						items := series(caller*1_000_000+i*100, 1+random.IntN(3))
						patience := time.Duration(random.Int64N(int64(4 * time.Second)))
						ctx, cancel := context.WithTimeout(t.Context(), patience)
						began := time.Now()
						got, err := c.Do(ctx, items)
						cancel()
						switch {
						case err == nil && slices.Equal(got, answersOf(items)):
							answered.Add(1)
						case got != nil || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) < patience:
							t.Errorf("%v was answered %v, %v", items, got, err)
						default:
							gaveUp.Add(1)
						}
					}
				})
			}
			wg.Wait()
			c.Close()
			if gaveUp.Load() < 100 || answered.Load() < 100 {
				t.Errorf("%d gave up and %d were answered, want some of both", gaveUp.Load(), answered.Load())
			}
		})
	}
}
