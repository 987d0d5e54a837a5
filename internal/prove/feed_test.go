package prove

import (
	"context"
	"errors"
	"testing"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// flaky is a store whose append works every other time, and whose failures
// brought the jobs in all the same.
type flaky struct {
	in    map[string]bool
	calls int
	err   error
}

func (s *flaky) Make(context.Context, queue.Spec) error { return nil }
func (s *flaky) Remove(context.Context, string) error   { return nil }
func (s *flaky) Look(context.Context, string) (Stats, error) {
	return Stats{Held: int64(len(s.in))}, nil
}

func (s *flaky) Append(_ context.Context, _ string, ids []string) ([]bool, error) {
	ok := make([]bool, len(ids))
	for i, id := range ids {
		s.in[id], ok[i] = true, true
	}
	if s.calls++; s.calls%2 == 1 {
		return nil, s.err
	}
	return ok, nil
}

func TestFeedCountsWhatWasNeverAnswered(t *testing.T) {
	s := &flaky{in: map[string]bool{}, err: queue.ErrOutcomeUnknown}
	f := newFeed(s, "q", leaky.PerSecond(10))
	if err := f.top(t.Context()); err != nil || len(f.ids()) != 0 || len(f.pending) != 20 {
		t.Fatalf("%v, %d accepted, %d pending", err, len(f.ids()), len(f.pending))
	}
	if err := f.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(f.ids()) != len(s.in) || len(s.in) != 20 {
		t.Errorf("%d accepted, %d are in", len(f.ids()), len(s.in))
	}
}

func TestFeedStopsAtWhatDoesNotPass(t *testing.T) {
	s := &flaky{in: map[string]bool{}, err: queue.ErrNoStore}
	if err := newFeed(s, "q", leaky.PerSecond(10)).run(t.Context()); !errors.Is(err, queue.ErrNoStore) {
		t.Errorf("%v", err)
	}
}
