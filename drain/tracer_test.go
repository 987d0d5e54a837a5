package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// followed is a Tracer of one attempt, which records it in words.
type followed struct {
	f    *fake
	mu   sync.Mutex
	told []string
}

func (s *followed) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, fmt.Sprintf(format, args...))
}

type traceKey struct{}

func (s *followed) Begin(ctx context.Context, job *Job, departs time.Time) (context.Context, Span) {
	s.say("begin %s %v", job.ID, departs.Sub(s.f.begin))
	job.Headers = map[string]string{"traceparent": "its own"}
	return context.WithValue(ctx, traceKey{}, job.ID), s
}

func (s *followed) IDs() (trace, span string) { return "t", "s" }
func (s *followed) Waited(since time.Time, err error) {
	s.say("waited from %v, late %v", since.Sub(s.f.begin), errors.Is(err, ErrLate))
}
func (s *followed) Settling(v queue.Verdict)             { s.say("settling %v", v) }
func (s *followed) Returned(cause error)                 { s.say("returned, lost %v", errors.Is(cause, ErrLeaseLost)) }
func (s *followed) Settled(state queue.State, err error) { s.say("settled %v, %v", state, err) }

// A Tracer sees an attempt from the start of its handler until it is settled, however it ends.
func TestTracer(t *testing.T) {
	quick := func(context.Context, *Job) error { return nil }
	for name, c := range map[string]struct {
		do   func(ctx context.Context, job *Job) error
		with func(f *fake)
		stop time.Duration // time of the drainer's end
		want []string      // in any order after the gate: the settlement may precede the handler's end
	}{
		"delivered": {do: quick, want: []string{"settling delivered", "returned, lost false", "settled delivered, <nil>"}},
		"failed": {
			do:   func(context.Context, *Job) error { return errors.New("no") },
			want: []string{"settling retry", "returned, lost false", "settled scheduled, <nil>"},
		},
		"panicked": {
			do:   func(context.Context, *Job) error { panic("no") },
			want: []string{"settling retry", "returned, lost false", "settled scheduled, <nil>"},
		},
		"stale": {
			do: quick,
			with: func(f *fake) {
				f.set = func(time.Duration, queue.Settlement) (queue.Settled, error) { return queue.Settled{Stale: true}, nil }
			},
			want: []string{"settling delivered", "returned, lost false", "settled , <nil>"},
		},
		"given up": {
			do: quick,
			with: func(f *fake) {
				f.set = func(time.Duration, queue.Settlement) (queue.Settled, error) {
					return queue.Settled{Err: queue.ErrCorrupt}, nil
				}
			},
			want: []string{"settling delivered", "returned, lost false", "settled , " + queue.ErrCorrupt.Error()},
		},
		"lost": {
			do:   func(ctx context.Context, _ *Job) error { <-ctx.Done(); return nil },
			with: func(f *fake) { f.ext = func(time.Duration) (time.Duration, error) { return 0, nil } },
			want: []string{"returned, lost true"},
		},
		"given back": {
			do: quick, stop: 5 * ms,
			want: []string{"settling released", "returned, lost false", "settled waiting, <nil>"},
		},
	} {
		bubble(t, name, func(t *testing.T) {
			f := newFake().queue("q", leaky.PerSecond(100), nil).
				answers(answer{jobs: []queue.Reservation{job("q", "a", 20*ms)}})
			if c.with != nil {
				c.with(f)
			}
			s := &followed{f: f}
			run := drainWith(t, f, HandlerFunc(func(ctx context.Context, job *Job) error {
				if ctx.Value(traceKey{}) != "a" || job.Headers["traceparent"] != "its own" || job.Span != Span(s) {
					t.Errorf("the handler was given %v, %v, %v", ctx, job.Headers, job.Span)
				}
				return c.do(ctx, job)
			}), Options{Tracer: s, Grace: time.Millisecond})
			time.Sleep(cmp.Or(c.stop, time.Minute))
			run.finish()
			gate := "waited from 0s, late false"
			if c.stop > 0 {
				gate = "waited from 0s, late true"
			}
			want := append([]string{"begin a 20ms", gate}, c.want...)
			slices.Sort(want)
			slices.Sort(s.told)
			if !slices.Equal(s.told, want) {
				t.Errorf("traced\n%q, want\n%q", s.told, want)
			}
		})
	}
}

// Without a Tracer, the start of an attempt allocates nothing for it.
func TestNoTracerAllocatesNothing(t *testing.T) {
	dl := &delivery{part: &partition{d: &drainer{}}, ctx: t.Context()}
	if n := testing.AllocsPerRun(1000, func() { dl.trace() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
