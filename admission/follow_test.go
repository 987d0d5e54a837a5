package admission

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/queue"
)

// A store that does not answer keeps all who ask for what was never seen for one look, not each for one more than the one before.
func TestThoseWhoWaitForOneLookGoByIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a, _, _ := begin(t, s)
		s.mute(true)
		begun := time.Now()
		var asking sync.WaitGroup
		for range 20 {
			asking.Go(func() {
				if _, err := a.Take(t.Context(), "unseen", []queue.Take{{}}); err == nil {
					t.Error("what was never seen was answered")
				}
			})
		}
		asking.Wait()
		if took := time.Since(begun); took > 2*patience {
			t.Errorf("20 waited %v together, for a look of %v", took, patience)
		}
	})
}
