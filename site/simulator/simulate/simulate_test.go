package simulate_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/site/simulator/simulate"
)

func settings(t *rapid.T) simulate.Settings {
	return simulate.Settings{
		Rate:     rapid.Int64Range(1, 100).Draw(t, "rate"),
		Burst:    rapid.Int64Range(1, 100).Draw(t, "burst"),
		Capacity: rapid.Int64Range(1, 200).Draw(t, "capacity"),
		Arrivals: rapid.Int64Range(0, 200).Draw(t, "arrivals"),
		Pattern: rapid.SampledFrom([]simulate.Pattern{simulate.Steady, simulate.Random, simulate.Batches}).
			Draw(t, "pattern"),
		Slack: time.Duration(rapid.Int64Range(0, 1000).Draw(t, "slack")) * time.Millisecond,
		Seed:  rapid.Uint64().Draw(t, "seed"),
	}
}

func run(t rapid.TB, s simulate.Settings) []simulate.Job {
	t.Helper()
	jobs, err := simulate.Run(s)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// The law in the words of the documentation, by fractions of a second, in every window that begins with a start.
func TestTheLawHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := settings(t)
		starts := simulate.Starts(run(t, s))
		spare := s.Burst + s.Rate + s.Slack.Milliseconds() // more than the law allows in an instant
		for i, from := range starts {
			for j, until := range starts[i:] {
				window := until - from + 1 // half-open, so that it just contains both
				covered := int64(window) + s.Slack.Microseconds()
				allowed := covered*s.Rate/1_000_000 + s.Burst - 1
				if covered*s.Rate%1_000_000 != 0 {
					allowed++
				}
				if int64(j+1) > allowed {
					t.Fatalf("%d starts in %d µs; the law allows %d", j+1, window, allowed)
				}
				spare = min(spare, allowed-int64(j+1))
			}
		}
		if got := s.Law().Spare(starts); len(starts) > 0 && got != spare {
			t.Fatalf("Spare is %d, want %d", got, spare)
		}
	})
}

// Most counts the starts in every window of whole microseconds; here the windows that begin with a start suffice.
func TestMostIsTheFullestWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		starts := simulate.Starts(run(t, settings(t)))
		length := leaky.Instant(rapid.Int64Range(1, 10_000_000).Draw(t, "length"))
		count := func(from leaky.Instant) (n int64) {
			for _, at := range starts {
				if at >= from && at < from+length {
					n++
				}
			}
			return n
		}
		most := int64(0)
		for _, from := range starts {
			most = max(most, count(from))
		}
		got := simulate.Most(starts, length)
		if got.Starts != most || count(got.From) != most {
			t.Fatalf("Most found %d starts from %d; it has %d, the fullest window %d",
				got.Starts, got.From, count(got.From), most)
		}
	})
}

// The queue never holds more than its capacity, refuses only when full, and is a FIFO in which each job starts within
// the slack of its departure.
func TestQueue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := settings(t)
		jobs := run(t, s)
		if int64(len(jobs)) != s.Arrivals*10 {
			t.Fatalf("%d jobs arrived at %d/s in 10 s", len(jobs), s.Arrivals)
		}
		last := leaky.Instant(0)
		for i, job := range jobs {
			held := int64(0)
			for _, before := range jobs[:i] {
				if !before.Refused && (!before.Started || before.Start > job.Arrived) {
					held++
				}
			}
			// A job of the same instant may have left already: its start is its arrival.
			if held > s.Capacity || job.Refused != (held == s.Capacity) {
				t.Fatalf("job %d: %d of %d held, refused is %v", i, held, s.Capacity, job.Refused)
			}
			if !job.Started {
				continue
			}
			slack := leaky.Instant(s.Slack.Microseconds())
			if job.Start < job.Arrived || job.Start+slack < last {
				t.Fatalf("job %d arrived at %d and started at %d, after a start at %d", i, job.Arrived, job.Start, last)
			}
			last = max(last, job.Start)
		}
	})
}

// While jobs wait, they leave at the rate, not slower.
func TestBacklogLeavesAtTheRate(t *testing.T) {
	t.Parallel()
	for _, rate := range []int64{1, 3, 14, 100} {
		jobs := run(t, simulate.Settings{
			Rate: rate, Burst: 1, Capacity: 1000, Arrivals: 1000, Pattern: simulate.Batches,
		})
		starts := simulate.Starts(jobs)
		if n := int64(len(starts)); n != rate*10 && n != rate*10+1 {
			t.Errorf("%d jobs started in 10 s at %d/s", n, rate)
		}
		if !slices.IsSorted(starts) {
			t.Error("without slack, starts are out of order")
		}
	}
}

// A start too early breaks the law, and Spare says so.
func TestSpareFindsABrokenLaw(t *testing.T) {
	t.Parallel()
	s := simulate.Settings{Rate: 10, Burst: 2, Capacity: 100, Arrivals: 20, Pattern: simulate.Steady}
	starts := simulate.Starts(run(t, s))
	if got := s.Law().Spare(starts); got < 0 {
		t.Fatalf("an honest run has %d starts to spare", got)
	}
	starts = slices.Insert(starts, 20, starts[20])
	if got := s.Law().Spare(starts); got >= 0 {
		t.Errorf("one start too many leaves %d to spare", got)
	}
}

func TestUnusableSettings(t *testing.T) {
	t.Parallel()
	good := simulate.Settings{Rate: 1, Burst: 1, Capacity: 1, Arrivals: 1, Pattern: simulate.Steady}
	for about, spoil := range map[string]func(*simulate.Settings){
		"no rate":            func(s *simulate.Settings) { s.Rate = 0 },
		"a high rate":        func(s *simulate.Settings) { s.Rate = 101 },
		"no burst":           func(s *simulate.Settings) { s.Burst = 0 },
		"no capacity":        func(s *simulate.Settings) { s.Capacity = 0 },
		"negative arrivals":  func(s *simulate.Settings) { s.Arrivals = -1 },
		"a negative slack":   func(s *simulate.Settings) { s.Slack = -time.Second },
		"an unknown pattern": func(s *simulate.Settings) { s.Pattern = "none" },
	} {
		s := good
		spoil(&s)
		if _, err := simulate.Run(s); !errors.Is(err, simulate.ErrSettings) {
			t.Errorf("%s: %v", about, err)
		}
	}
	if _, err := simulate.Run(good); err != nil {
		t.Error(err)
	}
}
