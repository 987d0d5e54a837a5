package closedloop_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/bench/closedloop"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

const sec = leaky.Instant(1_000_000)

func constant(perSecond float64) closedloop.Limit {
	return func(leaky.Instant) float64 { return perSecond }
}

func step(from, to float64, at leaky.Instant) closedloop.Limit {
	return func(now leaky.Instant) float64 {
		if now < at {
			return from
		}
		return to
	}
}

// run runs a queue that adapts from 1/s to 200/s on an embedded engine.
func run(t *testing.T, rate int64, r closedloop.Receiver, answer, after, span time.Duration) closedloop.Run {
	t.Helper()
	clock := closedloop.NewClock()
	e, err := boltq.Open(t.Context(), store(t), boltq.Options{Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	l := closedloop.Loop{
		Spec: queue.Spec{
			Name: "q", Rate: leaky.PerSecond(rate), Adapt: queue.Adapt{Floor: leaky.PerSecond(1), Ceiling: leaky.PerSecond(200)},
		},
		Receiver: r, Drainers: 3, Trip: time.Millisecond, Answer: answer, After: after, For: span, Seed: 1,
	}
	got, err := l.Run(t.Context(), e, clock)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// store returns the path of a store, in memory where possible, with small pages. Ten minutes of virtual time are
// thousands of commits, whose pages are written byte by byte under the race detector.
func store(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "closedloop")
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
	} else {
		dir = t.TempDir()
	}
	path := filepath.Join(dir, "store")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: 1024})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var kinds = map[string]func(closedloop.Limit) closedloop.Receiver{
	"a bucket of 2":  func(l closedloop.Limit) closedloop.Receiver { return closedloop.Tokens(l, 2) },
	"a bucket of 10": func(l closedloop.Limit) closedloop.Receiver { return closedloop.Tokens(l, 10) },
	"seconds":        closedloop.Seconds,
	"a window":       closedloop.Sliding,
}

// manner is how a receiver answers.
type manner struct{ answer, after time.Duration }

var (
	manners = []manner{{0, 0}, {0, time.Second}, {500 * time.Millisecond, 0}, {500 * time.Millisecond, time.Second}}
	extreme = []manner{manners[1], manners[2]} // for slow tests
)

func each(
	t *testing.T, manners []manner,
	check func(t *testing.T, kind func(closedloop.Limit) closedloop.Receiver, answer, after time.Duration),
) {
	for name, kind := range kinds {
		for _, m := range manners {
			t.Run(
				fmt.Sprintf("%s, answers in %v, Retry-After %v", name, m.answer, m.after),
				func(t *testing.T) { check(t, kind, m.answer, m.after) },
			)
		}
	}
}

// At least 85 % of a constant limit is used, and at most 2 % of the requests are refused.
func TestConstant(t *testing.T) {
	each(t, extreme, func(t *testing.T, kind func(closedloop.Limit) closedloop.Receiver, answer, after time.Duration) {
		for _, limit := range []float64{3, 10} {
			r := run(t, int64(limit*0.7), kind(constant(limit)), answer, after, 5*time.Minute)
			sent, refused := float64(r.Asked-r.Refused)/300/limit, float64(r.Refused)/float64(r.Asked)
			if t.Logf("%v/s: used %.3f, refused %.4f", limit, sent, refused); sent < 0.85 || refused > 0.02 {
				t.Errorf("of %v/s %.3f was used, and %.4f refused", limit, sent, refused)
			}
		}
	})
}

// From 5 s after the limit fell, no more requests are sent than it allows, apart from the receiver's burst.
func TestDown(t *testing.T) {
	each(t, manners, func(t *testing.T, kind func(closedloop.Limit) closedloop.Receiver, answer, after time.Duration) {
		r := run(t, 20, kind(step(20, 5, 60*sec)), answer, after, 75*time.Second)
		asked := 0
		for _, at := range r.Requests {
			if at >= 65*sec {
				asked++
			}
		}
		if t.Logf("%d requests in 10 s", asked); asked > 10*5+10 {
			t.Errorf("%d requests in the 10 s from 5 s after the limit fell to 5/s", asked)
		}
	})
}

// 60 s after the limit rose, the rate is at 85 % of it.
func TestUp(t *testing.T) {
	each(t, manners, func(t *testing.T, kind func(closedloop.Limit) closedloop.Receiver, answer, after time.Duration) {
		r := run(t, 5, kind(step(5, 20, 60*sec)), answer, after, 120*time.Second)
		best := 0.0
		for _, rate := range r.Rates[600:] {
			best = max(best, rate)
		}
		if best < 0.85*20 {
			t.Errorf("at most %v/s", best)
		}
	})
}

// At least 70 % of a limit that rises and falls in 10 minutes is used.
func TestSine(t *testing.T) {
	each(t, extreme, func(t *testing.T, kind func(closedloop.Limit) closedloop.Receiver, answer, after time.Duration) {
		sine := func(at leaky.Instant) float64 { return 10 + 5*math.Sin(2*math.Pi*float64(at)/600e6) }
		r := run(t, 8, kind(sine), answer, after, 10*time.Minute)
		sent := float64(r.Asked-r.Refused) / 6000
		if t.Logf("used %.3f, refused %.4f", sent, float64(r.Refused)/float64(r.Asked)); sent < 0.7 {
			t.Errorf("sent %.3f", sent)
		}
	})
}
