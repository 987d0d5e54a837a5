package drain

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// A drainer whose handlers are all busy still appears in each partition, often enough to count as alive, and requests
// no job that it could not start.
func TestSeenWhileBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.Unlimited, nil).queue("r", leaky.Unlimited, nil).answers(
			answer{jobs: []queue.Reservation{job("q", "a", 0)}, more: queue.Reserved{Next: -1}},
			answer{jobs: []queue.Reservation{job("r", "b", 0)}, more: queue.Reserved{Next: -1}})
		f.parts = 2
		run := drainWith(t, f, HandlerFunc(func(context.Context, *Job) error {
			time.Sleep(time.Minute)
			return nil
		}), Options{Concurrency: 1}) // which makes two handlers
		time.Sleep(59 * time.Second)
		last := map[int]time.Duration{}
		for _, r := range f.asked() {
			if r.at-last[r.Partition] > queue.SeenFor/2 {
				t.Errorf("partition %d was asked at %v, and then not before %v", r.Partition, last[r.Partition], r.at)
			}
			if last[r.Partition] = r.at; r.at > ms && r.Max != 0 {
				t.Errorf("%d jobs were asked for at %v, with no handler free", r.Max, r.at)
			}
		}
		for p, at := range last {
			if at < 55*time.Second || last[1] == 0 {
				t.Errorf("partition %d was last asked at %v", p, at)
			}
		}
		time.Sleep(11 * time.Second)
		run.finish()
		if r := f.asked(); r[len(r)-1].Max != 1 {
			t.Errorf("with a handler free %d jobs were asked for", r[len(r)-1].Max)
		}
	})
}

// An unreachable partition does not keep its place in front of the others meanwhile.
func TestAnUnreachablePartitionHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := newTokens(1, func(int) {})
		tokens.acquire(t.Context(), 1, nil)
		go tokens.acquire(t.Context(), 1, func() { time.Sleep(time.Hour) })
		synctest.Wait()
		taken := make(chan time.Time, 1)
		begin := time.Now()
		go func() {
			tokens.acquire(t.Context(), 1, func() {})
			taken <- time.Now()
		}()
		time.Sleep(pingEvery + time.Second)
		tokens.release(1)
		if at := (<-taken).Sub(begin); at != pingEvery+time.Second {
			t.Errorf("the other had its handler after %v", at)
		}
		tokens.release(1)
		time.Sleep(2 * time.Hour) // who was away comes back, and is served
	})
}
