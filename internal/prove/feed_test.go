package prove

import (
	"context"
	"errors"
	"testing"

	"github.com/penstock/penstock/internal/prove/receiver"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// flaky is a store whose append fails every other time, although it accepts the jobs.
type flaky struct {
	in    map[string]string // id -> lane
	calls int
	err   error
}

func (s *flaky) Make(context.Context, queue.Spec) error { return nil }
func (s *flaky) Remove(context.Context, string) error   { return nil }
func (s *flaky) Look(context.Context, string) (Stats, error) {
	return Stats{Held: int64(len(s.in))}, nil
}

func (s *flaky) Drains(context.Context, int) (bool, error) { return true, nil }

func (s *flaky) Append(_ context.Context, _ string, list []NewJob) ([]bool, error) {
	ok := make([]bool, len(list))
	for i, j := range list {
		s.in[j.ID], ok[i] = j.Lane, true
	}
	if s.calls++; s.calls%2 == 1 {
		return nil, s.err
	}
	return ok, nil
}

// feeding returns a feeder of one queue with two lanes, which should hold 20 jobs and 3.
func feeding(t *testing.T, s Store) *feeder {
	rec, stop, err := receive(t.Context(), receiver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	f := newFeed(s, "q")
	f.lane("x", leaky.PerSecond(10))
	f.lane("y", leaky.PerSecond(1))
	return newFeeder([]*feed{f}, rec)
}

func TestFeedCountsUnansweredAppends(t *testing.T) {
	s := &flaky{in: map[string]string{}, err: queue.ErrOutcomeUnknown}
	f := feeding(t, s)
	if err := f.top(t.Context()); err != nil || f.accepted.count() != 0 || len(f.feeds[0].pending) != 23 {
		t.Fatalf("%v, %d accepted, %d pending", err, f.accepted.count(), len(f.feeds[0].pending))
	}
	if err := f.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.accepted.count() != len(s.in) || len(s.in) != 23 {
		t.Errorf("%d accepted, %d are in", f.accepted.count(), len(s.in))
	}
	for id, lane := range s.in {
		if at, ok := f.accepted.flowOf(id); !ok || at != (flow{"q", lane}) {
			t.Errorf("%s of the lane %s is noted as %+v", id, lane, at)
		}
	}
}

// TestFeedReplacesArrivedJobs checks that each job counts once, in its lane, even if it arrives before its append is
// answered.
func TestFeedReplacesArrivedJobs(t *testing.T) {
	s := &flaky{in: map[string]string{}, err: queue.ErrOutcomeUnknown}
	f := feeding(t, s)
	if err := f.top(t.Context()); err != nil {
		t.Fatal(err)
	}
	post := (&rigged{url: f.rec.URL()}).deliver
	for _, id := range []string{"q-0-0000000", "q-1-0000000", "q-0-0000000", "q-1-0000001", "unheard-of"} {
		post(id)
	}
	f.look()
	if x, y := f.feeds[0].lanes[0], f.feeds[0].lanes[1]; x.held != 20 || y.held != 3 {
		t.Errorf("%d and %d held before anything was accepted", x.held, y.held)
	}
	if err := f.top(t.Context()); err != nil {
		t.Fatal(err)
	}
	post("q-1-0000001")
	f.look()
	if x, y := f.feeds[0].lanes[0], f.feeds[0].lanes[1]; x.held != 19 || y.held != 1 {
		t.Errorf("%d and %d held, want 19 and 1", x.held, y.held)
	}
}

func TestFeedStopsAtPermanentErrors(t *testing.T) {
	s := &flaky{in: map[string]string{}, err: queue.ErrNoStore}
	if err := feeding(t, s).run(t.Context()); !errors.Is(err, queue.ErrNoStore) {
		t.Errorf("%v", err)
	}
}
