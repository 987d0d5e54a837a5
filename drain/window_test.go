package drain

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// A slow answer is asked for again, while there is time: it says little about when a job
// departs, and a second one says more.
func TestSharpen(t *testing.T) {
	for _, c := range []struct {
		name   string
		rate   leaky.Rate
		trip   time.Duration
		retrip time.Duration
		d      time.Duration
		asks   int // for the grant
		start  time.Duration
	}{
		{"fast", leaky.PerSecond(100), 2 * ms, ms, 20 * ms, 1, 22 * ms},
		{"slow, then fast", leaky.PerSecond(100), 8 * ms, ms, 20 * ms, 2, 28 * ms},
		{"slow, and slow again", leaky.PerSecond(100), 8 * ms, 8 * ms, 20 * ms, 3, 0},
		{"no time to ask again", leaky.PerSecond(100), 8 * ms, ms, 7 * ms, 1, 0},
		{"without a rate", leaky.Unlimited, 8 * ms, ms, 20 * ms, 1, 28 * ms},
	} {
		bubble(t, c.name, func(t *testing.T) {
			f := newFake().queue("q", c.rate, nil).answers(
				answer{jobs: []queue.Reservation{job("q", "known", 0)}, more: queue.Reserved{Next: time.Second}},
				answer{trip: c.trip, jobs: []queue.Reservation{job("q", "a", c.d)}})
			f.retrip = c.retrip
			h := newStarts(f)
			run := drainWith(t, f, h, Options{})
			time.Sleep(1900 * ms)
			run.stop()
			if err := <-run.end; err != nil {
				t.Error(err)
			}
			asks := 0
			for _, r := range f.asked() {
				if r.Number == 2 {
					asks++
				}
			}
			start := h.at["a"]
			if start > 0 {
				start -= time.Second
			}
			if asks != c.asks || start != c.start {
				t.Errorf("asked %d times, started at %v; want %d, %v", asks, start, c.asks, c.start)
			}
		})
	}
}

// The second request for a slow answer costs nothing that the first brought, even if its reply
// is lost: what can start as things are is let go in time, and the partition goes on.
func TestSharpenLost(t *testing.T) {
	for _, c := range []struct {
		name  string
		trip  time.Duration
		in    []time.Duration // the departures of paced jobs
		free  bool            // a job without a rate came with them
		asks  int             // for the grant
		start []time.Duration // of the paced jobs; 0: given back
		next  time.Duration   // by when the partition asks for more
	}{
		{"one job", 4 * ms, []time.Duration{30 * ms}, false, 2, []time.Duration{34 * ms}, 34 * ms},
		{
			"the first of several presses", 4 * ms,
			[]time.Duration{10 * ms, 20 * ms, 40 * ms},
			false, 2,
			[]time.Duration{14 * ms, 24 * ms, 44 * ms},
			14 * ms,
		},
		{"the first could not wait", 4 * ms, []time.Duration{0, 20 * ms}, false, 1, []time.Duration{4 * ms, 24 * ms}, 4 * ms},
		{
			"the first could hardly wait", 4 * ms,
			[]time.Duration{5 * ms, 30 * ms},
			false, 1,
			[]time.Duration{9 * ms, 34 * ms},
			4 * ms,
		},
		{"with one that has no rate", 4 * ms, []time.Duration{30 * ms}, true, 2, []time.Duration{34 * ms}, 34 * ms},
		{
			"nothing was good for anything", 8 * ms, []time.Duration{20 * ms, 40 * ms}, false, 2, []time.Duration{0, 0}, 45 * ms,
		},
		{"nothing but the one that has no rate", 8 * ms, []time.Duration{40 * ms}, true, 2, []time.Duration{0}, 45 * ms},
	} {
		bubble(t, c.name, func(t *testing.T) {
			f := newFake().queue("q", leaky.PerSecond(100), nil).queue("free", leaky.Unlimited, nil)
			var jobs []queue.Reservation
			if c.free {
				jobs = append(jobs, job("free", "free", 0))
			}
			for i, in := range c.in {
				jobs = append(jobs, job("q", fmt.Sprint(i), in))
			}
			const known = time.Second // by then the specs are
			f.answers(answer{
				jobs: []queue.Reservation{job("q", "known", 0), job("free", "known too", 0)}, more: queue.Reserved{Next: known},
			},
				answer{trip: c.trip, jobs: jobs, more: queue.Reserved{Next: -1}})
			f.retrip = -1
			h := newStarts(f)
			run := drainWith(t, f, h, Options{})
			time.Sleep(known + 900*ms)
			run.finish()
			asks, next := 0, time.Duration(0)
			for _, r := range f.asked() {
				switch {
				case r.Number == 2:
					asks++
				case r.Number == 3 && next == 0:
					next = r.at - known
				}
			}
			if asks != c.asks || next > c.next {
				t.Errorf("asked %d times, and for more after %v; want %d, %v", asks, next, c.asks, c.next)
			}
			for i, want := range c.start {
				if want > 0 {
					want += known
				}
				if got := h.at[fmt.Sprint(i)]; got != want {
					t.Errorf("job %d started at %v, want %v", i, got, want)
				}
			}
			if _, ok := h.at["free"]; ok != c.free {
				t.Errorf("the job without a rate started: %v", ok)
			}
		})
	}
}
