package admission

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// A rule that was never seen fails at once while its store is known to be away, and is read when the store is back.
func TestTheUnseenWaitsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(window("unseen", rules.AwayOpen, 1))
		s.queues["unseen"] = nil
		a, _, _ := begin(t, s)
		p := NewAppender(a, &taker{})
		s.mute(true)
		begun := time.Now()
		for range 20 {
			if _, err := a.Take(t.Context(), "unseen", []rules.Take{{Key: "k"}}); !errors.Is(err, queue.ErrOutcomeUnknown) {
				t.Errorf("%v", err)
			}
			answers, err := p.Append(t.Context(), []queue.Job{job("unseen", "1", "")})
			if err != nil || answers[0].Outcome != queue.Failed {
				t.Errorf("%+v, %v", answers, err)
			}
		}
		if took := time.Since(begun); took > 2*DefaultPatience {
			t.Errorf("40 that came one after the other waited %v", took)
		}
		s.mute(false)
		// the probe that nobody answers ends, and the next one is answered
		time.Sleep(DefaultPatience + probeEvery + time.Millisecond)
		if n := passes(t, a, "unseen", "k", 2); n != 1 {
			t.Errorf("%d passed once it is back", n)
		}
		if answers, err := p.Append(t.Context(), []queue.Job{job("unseen", "1", "")}); err != nil ||
			answers[0].Outcome != queue.Accepted {
			t.Errorf("%+v, %v", answers, err)
		}
	})
}

// While a store does not answer, all callers of unseen rules wait for one read, not each for one more.
func TestThoseWhoWaitForOneLookGoByIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a, _, _ := begin(t, s)
		s.mute(true)
		begun := time.Now()
		var asking sync.WaitGroup
		for range 20 {
			asking.Go(func() {
				if _, err := a.Take(t.Context(), "unseen", []rules.Take{{}}); err == nil {
					t.Error("what was never seen was answered")
				}
			})
		}
		asking.Wait()
		if took := time.Since(begun); took > 2*DefaultPatience {
			t.Errorf("20 waited %v together, for a look of %v", took, DefaultPatience)
		}
	})
}
