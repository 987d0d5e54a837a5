package drain

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// With any number of queues, a use rarely searches for paces to forget, and unused ones are forgotten.
func TestManyPaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := paces{queues: map[string]*pace{}}
		pruned, at := 0, 0
		use := func(prefix string, n int) {
			for i := range n {
				q.acquire(fmt.Sprint(prefix, i)).release()
				if q.pruneAt != at {
					pruned, at = pruned+1, q.pruneAt
				}
			}
		}
		use("a", 20*maxPaces)
		if pruned > 5 {
			t.Errorf("looked through all paces %d times for %d queues", pruned, 20*maxPaces)
		}
		time.Sleep(2 * paceAge)
		use("b", 20*maxPaces)
		if n := len(q.queues); n > 20*maxPaces {
			t.Errorf("%d paces are kept, %d of them in use lately", n, 20*maxPaces)
		}
	})
}
