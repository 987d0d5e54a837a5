package httpio

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// While one request of an app puts, another app's does not wait for it, and its own waits only as long as it is wanted.
func TestAppLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l NameLocks
		unlock, err := l.Lock(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		other, err := l.Lock(ctx, "beta")
		if err != nil {
			t.Fatal("another app: ", err)
		}
		other()
		if _, err := l.Lock(ctx, "acme"); err == nil {
			t.Error("it is had twice")
		}
		next := make(chan error)
		go func() {
			unlock, err := l.Lock(t.Context(), "acme")
			if err == nil {
				unlock()
			}
			next <- err
		}()
		synctest.Wait()
		unlock()
		if err := <-next; err != nil || len(l.of) != 0 {
			t.Errorf("%v, %d locks are kept", err, len(l.of))
		}
	})
}
