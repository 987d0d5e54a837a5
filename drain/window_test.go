package drain

import (
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// After one fast answer, a slow one shows just as exactly when its jobs depart. Jobs that depart before it arrives are
// released. The second answer comes after a second, in which the clocks may have drifted by 1 ms.
func TestASlowAnswer(t *testing.T) {
	for _, c := range []struct {
		name  string
		rate  leaky.Rate
		trip  time.Duration
		in    time.Duration
		start time.Duration // 0: released
	}{
		{"a fast one", leaky.PerSecond(100), 0, 20 * ms, 20 * ms},
		{"in time for the departure", leaky.PerSecond(100), 18 * ms, 20 * ms, 21 * ms},
		{"in time for the end of the slack", leaky.PerSecond(100), 24 * ms, 20 * ms, 24 * ms},
		{"too late", leaky.PerSecond(100), 26 * ms, 20 * ms, 0},
		{"without a rate", leaky.Unlimited, 500 * ms, 20 * ms, 500 * ms},
	} {
		bubble(t, c.name, func(t *testing.T) {
			f := newFake().queue("q", c.rate, nil).answers(
				answer{jobs: []queue.Reservation{job("q", "known", 0)}, more: queue.Reserved{Next: time.Second}},
				answer{trip: c.trip, jobs: []queue.Reservation{job("q", "a", c.in)}})
			h := newStarts(f)
			run := drainWith(t, f, h, Options{})
			time.Sleep(3900 * ms)
			run.finish()
			start := h.at["a"]
			if start > 0 {
				start -= time.Second
			}
			if (start - c.start).Abs() > ms/10 {
				t.Errorf("started at %v, want %v", start, c.start)
			}
			if lead := f.asked()[2].Lead; lead < min(c.trip, queue.Horizon)-ms || lead > max(c.trip, queue.Horizon/2) {
				t.Errorf("the next request has a lead of %v", lead)
			}
		})
	}
}
