package machine_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

var forecastNow = time.UnixMicro(1_800_000_000_000_000)

// lineup returns a queue whose jobs are asked for.
func lineup(t *testing.T, rate string, lanes ...queue.LaneState) *queue.Lineup {
	t.Helper()
	r, err := leaky.ParseRate(rate)
	if err != nil {
		t.Fatal(err)
	}
	l := &queue.Lineup{Lanes: lanes}
	l.Spec = queue.Spec{Name: "q", Rate: r, Burst: 1, Capacity: 1_000_000}
	l.Rate, l.Now, l.Asked = r, forecastNow, forecastNow
	for _, ln := range lanes {
		l.Waiting += ln.Waiting
		l.Info.Lanes++
	}
	return l
}

func laneOf(key string, jobs int64) queue.LaneState {
	return queue.LaneState{
		LaneInfo: queue.LaneInfo{Waiting: jobs}, Key: key, Digest: queue.DigestLane(key), Cost: jobs,
	}
}

func finishOf(t *testing.T, l *queue.Lineup) time.Duration {
	t.Helper()
	f, err := machine.Forecast(l, queue.ForecastRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range f.Bends {
		t.Logf("%v %.3f left, %.3f/s by %s %v", b.At.Sub(forecastNow), b.Remaining, b.Rate, b.By, b.Until)
	}
	return f.Finish.Sub(forecastNow)
}

func TestForecastOfUnequalLanes(t *testing.T) {
	l := lineup(t, "50/s", laneOf("a", 3000), laneOf("b", 200))
	l.Spec.Lanes.Rate = leaky.PerSecond(2)
	if at := finishOf(t, l); (at - 1499500*time.Millisecond).Abs() > time.Second {
		t.Errorf("the queue is empty after %v, want 1499.5 s", at)
	}
	l = lineup(t, "10/s", laneOf("", 100))
	if at := finishOf(t, l); at != 9900*time.Millisecond {
		t.Errorf("%v", at)
	}
}

func BenchmarkForecast(b *testing.B) {
	var lanes []queue.LaneState
	for i := range 10_000 {
		lanes = append(lanes, laneOf(string(rune('a'+i%26))+time.Duration(i).String(), int64(1+i*7919%997)))
	}
	l := &queue.Lineup{Lanes: lanes}
	l.Spec = queue.Spec{Name: "q", Rate: leaky.PerSecond(500), Burst: 1, Capacity: 1_000_000}
	l.Spec.Lanes.Rate = leaky.PerSecond(1)
	l.Rate, l.Now, l.Asked = l.Spec.Rate, forecastNow, forecastNow
	for _, ln := range lanes {
		l.Waiting += ln.Waiting
		l.Info.Lanes++
	}
	for b.Loop() {
		if _, err := machine.Forecast(l, queue.ForecastRequest{}); err != nil {
			b.Fatal(err)
		}
	}
}

// A forecast ends in bounded time, whatever holds the jobs up.
func TestForecastEnds(t *testing.T) {
	for _, tt := range []struct {
		what   string
		change func(l *queue.Lineup)
		finish time.Duration // -1 is never
	}{
		{"only deferred jobs, a quota, and nobody asks", func(l *queue.Lineup) {
			l.Lanes, l.Waiting, l.Deferred, l.Asked = nil, 0, 90, time.Time{}
			l.Spec.Limits = []queue.Limit{{Quota: queue.Quota{Max: 5, Per: "m"}}}
		}, -1},
		{"paused for years, and a quota", func(l *queue.Lineup) {
			l.Pause = queue.Pause{Since: forecastNow, Until: forecastNow.Add(5 * 365 * 24 * time.Hour)}
			l.Spec.Limits = []queue.Limit{{Quota: queue.Quota{Max: 200, Per: "m"}}}
		}, 5*365*24*time.Hour + 9900*time.Millisecond},
		{"deferred jobs behind waiting ones", func(l *queue.Lineup) {
			l.Deferred, l.DeferredCost = 50, 50
		}, 14900 * time.Millisecond},
		{"deferred jobs that come back at night", func(l *queue.Lineup) {
			l.Deferred, l.DeferredCost = 50, 50
			l.Spec.Deferred.ReadmitBetween = queue.ReadmitIn("22:00-06:00")
		}, 14*time.Hour + 4900*time.Millisecond},
		{"more windows than are followed", func(l *queue.Lineup) {
			l.Deferred, l.DeferredCost = 10_000_000, 10_000_000
			l.Spec.Limits = []queue.Limit{{Quota: queue.Quota{Max: 1, Per: "m"}}}
		}, 10_000_099 * time.Minute},
		{"scheduled jobs of a high cost", func(l *queue.Lineup) {
			l.Lanes, l.Waiting, l.Scheduled = nil, 0, 10
			l.Due = []queue.DueJobs{{At: forecastNow, Jobs: 10, Cost: 1000}}
		}, 90 * time.Second},
	} {
		l := lineup(t, "10/s", laneOf("", 100))
		tt.change(l)
		f, err := machine.Forecast(l, queue.ForecastRequest{})
		if err != nil {
			t.Fatal(err)
		}
		got := f.Finish.Sub(forecastNow)
		if f.Never() {
			got = -1
		}
		if off := (got - tt.finish).Abs(); off > 200*time.Millisecond+tt.finish.Abs()/1000 {
			t.Errorf("%s: finished after %v, want %v; bends %+v", tt.what, got, tt.finish, f.Bends[:min(4, len(f.Bends))])
		}
	}
}

// Jobs assumed to be appended leave behind the waiting ones of their lane, and deferred ones behind all.
func TestForecastOfAppendedJobs(t *testing.T) {
	for _, tt := range []struct {
		ask         queue.ForecastAppend
		first, last time.Duration
	}{
		{queue.ForecastAppend{Jobs: 10}, 10 * time.Second, 10900 * time.Millisecond},
		{queue.ForecastAppend{Jobs: 1, Deferred: 9}, 10 * time.Second, 10900 * time.Millisecond},
	} {
		f, err := machine.Forecast(lineup(t, "10/s", laneOf("", 100)), queue.ForecastRequest{Append: tt.ask})
		if err != nil {
			t.Fatal(err)
		}
		if first, last := f.First.Sub(forecastNow), f.Last.Sub(forecastNow); first != tt.first || last != tt.last {
			t.Errorf("%+v: from %v to %v, want %v to %v", tt.ask, first, last, tt.first, tt.last)
		}
	}
	l := lineup(t, "10/s", laneOf("a", 10), laneOf("b", 30))
	f, err := machine.Forecast(l, queue.ForecastRequest{})
	if err != nil || !f.Lanes[0].Before(f.Lanes[1]) || !f.Lanes[1].Equal(f.Finish) {
		t.Errorf("lanes are empty at %v, all at %v: %v", f.Lanes, f.Finish, err)
	}
}

func TestSumOfForecasts(t *testing.T) {
	burst := lineup(t, "10/s", laneOf("", 30))
	burst.Spec.Burst = 21
	paused := lineup(t, "10/s", laneOf("", 7))
	paused.Pause = queue.Pause{Since: forecastNow, Reason: "lunch"}
	fast, slow := lineup(t, "10/s", laneOf("", 101)), lineup(t, "1/s", laneOf("", 21))
	for name, c := range map[string]struct {
		queues []*queue.Lineup
		after  time.Duration // their forecasts are so old
		want   []point
	}{
		"none": {want: []point{{0, 0}}},
		"one": {
			queues: []*queue.Lineup{fast},
			want:   []point{{0, 101}, {5 * time.Second, 50}, {10 * time.Second, 0}},
		},
		"two": {
			queues: []*queue.Lineup{fast, slow},
			want:   []point{{0, 122}, {10 * time.Second, 10}, {20 * time.Second, 0}},
		},
		"one has left by now": {
			queues: []*queue.Lineup{fast, slow},
			after:  12 * time.Second,
			want:   []point{{0, 8}, {8 * time.Second, 0}},
		},
		"all have": {queues: []*queue.Lineup{fast, slow}, after: time.Hour, want: []point{{0, 0}}},
		"jobs leave at once": {
			queues: []*queue.Lineup{burst, slow},
			want:   []point{{time.Millisecond, 29}, {900 * time.Millisecond, 19.1}},
		},
		"some never leave": {
			queues: []*queue.Lineup{paused, slow},
			want:   []point{{0, 28}, {20 * time.Second, 7}, {time.Hour, 7}},
		},
		"the same a hundredfold": {
			queues: slices.Repeat([]*queue.Lineup{fast}, 100),
			want:   []point{{0, 10100}, {5 * time.Second, 5000}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var all []*queue.Forecast
			for _, l := range c.queues {
				f, err := machine.Forecast(l, queue.ForecastRequest{})
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, &f)
			}
			sum := machine.Sum(forecastNow.Add(c.after), all)
			for _, p := range c.want {
				// A job leaves as a drop of the liquid has: a curve has up to one job more, or less, for each queue.
				if got := remaining(&sum, forecastNow.Add(c.after+p.after)); math.Abs(got-p.left) > float64(len(all))+0.01 {
					t.Errorf("after %v %.3f are left, want %.3f: %+v", p.after, got, p.left, sum.Bends)
				}
			}
			last := sum.Bends[len(sum.Bends)-1]
			if stuck := slices.Contains(c.queues, paused); stuck != (last.By == cause.Paused) || stuck != (last.Remaining == 7) {
				t.Errorf("it ends with %+v", last)
			}
		})
	}
}

type point struct {
	after time.Duration
	left  float64
}

// remaining returns how many jobs a forecast has left at an instant.
func remaining(f *queue.Forecast, at time.Time) float64 {
	last := f.Bends[0].Remaining
	for n := 1; n < len(f.Bends); n++ {
		a, b := f.Bends[n-1], f.Bends[n]
		if b.At.After(at) {
			return a.Remaining + (b.Remaining-a.Remaining)*float64(at.Sub(a.At))/float64(b.At.Sub(a.At))
		}
		last = b.Remaining
	}
	return last
}
