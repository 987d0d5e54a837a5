package ops_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/internal/ops"
)

// The context ends exactly the given time after its parent.
func TestLinger(t *testing.T) {
	for _, d := range []time.Duration{0, 5 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			later, stop := ops.Linger(ctx, d)
			defer stop()
			time.Sleep(time.Minute)
			synctest.Wait()
			if later.Err() != nil {
				t.Fatalf("%v: it has ended before the other", d)
			}
			end()
			if d > 0 {
				time.Sleep(d - time.Nanosecond)
				synctest.Wait()
				if later.Err() != nil {
					t.Fatalf("%v: it ends too soon", d)
				}
				time.Sleep(time.Nanosecond)
			}
			synctest.Wait()
			if later.Err() == nil {
				t.Fatalf("%v: it goes on", d)
			}
		})
	}
}

func TestLingerStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		later, stop := ops.Linger(ctx, time.Hour)
		end()
		synctest.Wait()
		stop()
		synctest.Wait()
		if later.Err() == nil {
			t.Error("it goes on after it was stopped")
		}
	})
}
