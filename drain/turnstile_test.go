package drain

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestTurnstile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, begin := newTurnstile(), time.Now()
		enter := func(ctx context.Context, want time.Duration) func() {
			t.Helper()
			leave := s.enter(ctx)
			if at := time.Since(begin); at != want {
				t.Errorf("entered after %v, want %v", at, want)
			}
			return leave
		}
		var first func()
		for i := range askingAtOnce {
			if leave := enter(t.Context(), 0); i == 0 {
				first = leave
			}
		}
		time.AfterFunc(4*ms, first)
		enter(t.Context(), 4*ms)             // when another call is over
		enter(t.Context(), 4*ms+askingFor)() // no other call ends: it enters anyway, and leaves no place
		ended, end := context.WithCancel(t.Context())
		end()
		enter(ended, 4*ms+askingFor)()
		if len(s) != 0 {
			t.Errorf("%d places, want none", len(s))
		}
	})
}
