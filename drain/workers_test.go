package drain

import (
	"context"
	"testing"
	"testing/synctest"
)

// An idle goroutine is reused, a limited number is kept, and none is left.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, end := context.WithCancel(t.Context())
		defer end()
		work := make(chan struct{})
		w := newWorkers(func(*delivery) { <-work })
		wantIdle := func(want int64) {
			t.Helper()
			synctest.Wait()
			if n := w.idle.Load(); n != want {
				t.Fatalf("%d are idle, want %d", n, want)
			}
		}
		for range 3 {
			w.start(stop, &delivery{})
			wantIdle(0)
			work <- struct{}{}
			wantIdle(1)
		}
		for range maxIdle + 10 {
			w.start(stop, &delivery{})
		}
		wantIdle(0)
		close(work)
		wantIdle(maxIdle)
		end()
		w.running.Wait()
		wantIdle(0)
	})
}
