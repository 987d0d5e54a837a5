package survey_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/queue"
)

// The queues are read every 5 s, every second with watchers, and at most four times per second after calls of Hurry.
func TestPaceOfReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{infos: map[string]*queue.Info{}}
		s := survey.New(st, survey.Options{})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		after := func(d time.Duration, want int64, what string) {
			t.Helper()
			synctest.Wait()
			before := st.readings.Load()
			time.Sleep(d)
			synctest.Wait()
			if got := st.readings.Load() - before; got != want {
				t.Errorf("%d readings in %v while %s, want %d", got, d, what, want)
			}
		}
		synctest.Wait()
		if st.readings.Load() != 1 {
			t.Errorf("%d readings at first", st.readings.Load())
		}
		after(20*time.Second+time.Millisecond, 4, "nobody watches")
		leave, leaveToo := s.Watch(), s.Watch()
		after(250*time.Millisecond, 1, "somebody begins to")
		after(10*time.Second, 10, "two watch")
		for range 100 {
			s.Hurry()
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		before := st.readings.Load()
		after(10*time.Second, 10, "they watch on")
		if before > 1+4+1+10+5 {
			t.Errorf("%d readings before", before)
		}
		leave()
		leave()
		if s.Watching() != 1 {
			t.Errorf("%d watch", s.Watching())
		}
		leaveToo()
		after(10*time.Second, 2, "nobody watches any more")
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
