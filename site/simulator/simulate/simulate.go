// Package simulate runs one queue in virtual time, with the arithmetic of package leaky. The simulator on the
// documentation site runs it in the browser.
//
// A job arrives, and is refused if the queue is full. The pacer grants each departure as early as the rate allows. The
// job starts up to a slack later, as a job of a slow drainer does, and then leaves the queue.
package simulate

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/penstock/penstock/leaky"
)

// Pattern is how arrivals spread over time.
type Pattern string

// The patterns of arrivals.
const (
	Steady  Pattern = "steady"  // evenly spaced
	Random  Pattern = "random"  // independent of one another, as a Poisson process
	Batches Pattern = "batches" // all arrivals of two seconds at once
)

// Span is the simulated time.
const Span = 10 * time.Second

const (
	second   = leaky.Instant(1_000_000)
	span     = 10 * second
	batchGap = 2 * second
)

// ErrSettings is wrapped by every error about unusable settings.
var ErrSettings = errors.New("invalid settings")

// Settings are what a visitor can choose.
type Settings struct {
	Rate     int64 // departures per second, 1 to 100
	Burst    int64 // 1 to 100
	Capacity int64 // 1 to 1,000
	Arrivals int64 // per second on average, 0 to 1,000
	Pattern  Pattern
	Slack    time.Duration // maximum delay of a start, 0 to 1 s
	Seed     uint64        // of the random numbers
}

// check returns an error that names the first unusable setting.
func (s Settings) check() error {
	for _, field := range []struct {
		name            string
		value, min, max int64
	}{
		{"rate", s.Rate, 1, 100},
		{"burst", s.Burst, 1, 100},
		{"capacity", s.Capacity, 1, 1000},
		{"arrivals", s.Arrivals, 0, 1000},
		{"slack in microseconds", s.Slack.Microseconds(), 0, int64(second)},
	} {
		if field.value < field.min || field.value > field.max {
			return settingsError(field.name + " " + strconv.FormatInt(field.value, 10) + ": must be from " +
				strconv.FormatInt(field.min, 10) + " to " + strconv.FormatInt(field.max, 10))
		}
	}
	switch s.Pattern {
	case Steady, Random, Batches:
		return nil
	}
	return settingsError("pattern " + strconv.Quote(string(s.Pattern)) + ": must be steady, random or batches")
}

// settingsError avoids package fmt, which would make the program in the browser larger.
func settingsError(text string) error { return errors.Join(ErrSettings, errors.New(text)) }

// Job is an arrival and what became of it.
type Job struct {
	Arrived leaky.Instant
	Refused bool
	Started bool          // false for a job that still waits at the end
	Start   leaky.Instant // if Started
}

// Run simulates a queue for a Span. It returns all arrivals in order.
func Run(s Settings) ([]Job, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	// RateOf needs no big numbers, which NewRate brings along and which would add 1 MB to the program in the browser.
	rate := leaky.RateOf(s.Rate, int64(second))
	w := world{
		pacer:    leaky.Pacer{Rate: rate, Burst: s.Burst},
		slack:    leaky.Instant(s.Slack.Microseconds()),
		capacity: s.Capacity,
		random:   rand.New(rand.NewPCG(s.Seed, 0)),
	}
	for _, at := range w.arrivals(s) {
		w.arrive(at)
	}
	w.grant(span)
	return w.jobs, nil
}

// world is a simulation under way.
type world struct {
	pacer    leaky.Pacer
	bucket   leaky.Bucket
	now      leaky.Instant // the latest departure granted
	slack    leaky.Instant
	capacity int64
	random   *rand.Rand
	jobs     []Job
	next     int             // index in jobs of the next job to grant
	starts   []leaky.Instant // of granted jobs that may not have started yet
	waiting  int64           // accepted jobs without a grant
}

// arrivals returns the instants of all arrivals, in order.
func (w *world) arrivals(s Settings) []leaky.Instant {
	var all []leaky.Instant
	count := s.Arrivals * int64(Span/time.Second)
	for i := range count {
		switch at := leaky.Instant(i) * second / leaky.Instant(s.Arrivals); s.Pattern {
		case Random:
			all = append(all, leaky.Instant(w.random.Int64N(int64(span))))
		case Batches:
			all = append(all, at/batchGap*batchGap)
		default:
			all = append(all, at)
		}
	}
	slices.Sort(all)
	return all
}

// arrive accepts or refuses a job.
func (w *world) arrive(at leaky.Instant) {
	w.grant(at)
	w.starts = slices.DeleteFunc(w.starts, func(start leaky.Instant) bool { return start <= at })
	refused := w.waiting+int64(len(w.starts)) >= w.capacity
	w.jobs = append(w.jobs, Job{Arrived: at, Refused: refused})
	if !refused {
		w.waiting++
	}
	w.grant(at)
}

// grant grants all departures that are due at until.
func (w *world) grant(until leaky.Instant) {
	for ; w.next < len(w.jobs); w.next++ {
		job := &w.jobs[w.next]
		if job.Refused {
			continue
		}
		at := w.pacer.Next(w.bucket, max(w.now, job.Arrived))
		if at > until {
			return
		}
		w.pacer.Take(&w.bucket, at, 1)
		w.now = at
		job.Started, job.Start = true, at+leaky.Instant(w.random.Int64N(int64(w.slack)+1))
		w.starts = append(w.starts, job.Start)
		w.waiting--
	}
}
