package deferred

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
)

// While the engine is away deferrable jobs are accepted and others are not. When it is back they come into their
// queue, once, even if it already had one of them.
func TestAppendWithoutEngine(t *testing.T) {
	for _, c := range []struct {
		name         string
		fault        error
		silent, does bool
		reject       error // what a job that may not wait is told
	}{
		{"unavailable", queue.ErrUnavailable, false, false, queue.ErrUnavailable},
		{"outcome unknown", queue.ErrOutcomeUnknown, false, false, queue.ErrOutcomeUnknown},
		{"outcome unknown, and done", queue.ErrOutcomeUnknown, false, true, queue.ErrOutcomeUnknown},
		{"silent", nil, true, false, queue.ErrOutcomeUnknown},
		{"silent, and does it", nil, true, true, queue.ErrOutcomeUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			putSpec(t, r, specFor("a", 100))
			putSpec(t, r, queue.Spec{Name: "b", Rate: specFor("b", 1).Rate, Capacity: 100})
			f := &faulty{Engine: r}
			a := newAppender(t, f, r.stream)
			known(t, a, "a")
			known(t, a, "b")

			f.set(c.fault, c.silent, c.does)
			x := one(t, a, job("a", "1"))
			if x.Outcome != queue.Accepted || x.State != queue.Deferred || x.Position != 0 || !x.ETA.At.IsZero() || x.ID != "1" {
				t.Errorf("%+v", x)
			}
			if x := one(t, a, job("b", "1")); x.Outcome != queue.Failed || !errors.Is(x.Err, c.reject) {
				t.Errorf("%+v", x)
			}
			// From now on nobody waits for it, and what it is not asked it cannot have done.
			before := f.offered()
			waits, rejects, lapsed, bad := job("b", "2"), job("a", "2"), job("a", "3"), job("a", "4")
			waits.Overflow, rejects.Overflow = queue.Defer, queue.Reject
			lapsed.ExpiresAt, bad.Cost = time.Now().Add(-time.Second), -1
			answers, err := a.Append(t.Context(), []queue.Job{job("a", "5"), waits, rejects, lapsed, bad})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, x := range answers {
				got = append(got, fmt.Sprintf("%s %v %v", x.ID, x.Outcome, x.State))
			}
			if want := []string{
				"5 accepted deferred", "2 accepted deferred", "2 failed ", "3 expired ", "4 invalid ",
			}; !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			if err := answers[2].Err; !errors.Is(err, queue.ErrUnavailable) || errors.Is(err, queue.ErrOutcomeUnknown) {
				t.Error(err)
			}
			if f.offered() != before {
				t.Error("the engine was asked though it was away")
			}
			// What is not known here cannot be judged.
			for range 2 {
				x := one(t, a, job("unknown", "1"))
				if x.Outcome != queue.Failed || !errors.Is(x.Err, queue.ErrUnavailable) &&
					!errors.Is(x.Err, queue.ErrOutcomeUnknown) {
					t.Errorf("%+v", x)
				}
			}

			f.set(nil, false, false)
			runReadmitter(t, r.readmitter())
			await.Until(t, "all are back", func() bool {
				return r.info(t, "a").Deferred+r.info(t, "b").Deferred == 0 && onStream(t, r.stream, "penstock.deferred.>") == 0
			})
			left := leave(t, r, int(r.info(t, "a").Waiting+r.info(t, "b").Waiting))
			slices.Sort(left)
			want := "[1 2 5]"
			if c.does {
				want = "[1 1 2 5]" // the reject job was answered "unknown", and was in
			}
			if fmt.Sprint(left) != want {
				t.Errorf("left: %v, want %s", left, want)
			}
			await.Until(t, "the engine is believed to be back", func() bool {
				away, strayed := a.outages.of("a")
				return !away && !strayed
			})
			next := 6 // the first may still follow the strays
			await.Until(t, "a job goes straight in", func() bool {
				r.idle(t, "a")
				next++
				return one(t, a, job("a", fmt.Sprint(next))).State == queue.Waiting
			})
			if n := len(deadLetters(t, r.stream)); n != 0 {
				t.Errorf("%d dead letters", n)
			}
		})
	}
}

// A full engine accepts no job; deferrable jobs wait behind the present backlog. Jobs never bypass a server that is no
// longer a store.
func TestAppendStoreTrouble(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 100))
	f := &faulty{Engine: r}
	a := newAppender(t, f, r.stream)
	known(t, a, "a")
	f.set(queue.ErrStoreFull, false, false)
	if x := one(t, a, job("a", "1")); x.Outcome != queue.Accepted || x.State != queue.Deferred {
		t.Errorf("%+v", x)
	}
	rejects := job("a", "2")
	rejects.Overflow = queue.Reject
	if x := one(t, a, rejects); x.Outcome != queue.Failed || !errors.Is(x.Err, queue.ErrStoreFull) {
		t.Errorf("%+v", x)
	}
	await.Until(t, "a job that may wait follows the first without asking", func() bool {
		_, strayed := a.outages.of("a")
		return strayed
	})
	for _, fault := range []error{queue.ErrNoStore, queue.ErrCorrupt, queue.ErrClosed} {
		f.set(fault, false, false)
		rejects.ID += "x"
		if x := one(t, a, rejects); x.Outcome != queue.Failed || !errors.Is(x.Err, fault) {
			t.Errorf("%v: %+v", fault, x)
		}
		b := job("b", "1")
		b.Overflow = queue.Defer
		if x := one(t, a, b); x.Outcome != queue.Failed || !errors.Is(x.Err, fault) {
			t.Errorf("%v: %+v", fault, x)
		}
	}
	f.set(nil, false, false)
	await.Until(t, "the engine has heard", func() bool { _, strayed := a.outages.of("a"); return !strayed })
	if x := one(t, a, job("a", "3")); x.State != queue.Deferred || x.Position == 0 {
		t.Errorf("overtook the first: %+v", x)
	}
	runReadmitter(t, r.readmitter())
	if got := leave(t, r, 2); fmt.Sprint(got) != "[1 3]" {
		t.Error(got)
	}
}

// With neither the engine nor NATS, no answer claims more than is known.
func TestAppendWithoutBoth(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 100))
	server := startNATS(t)
	stream := openStream(t, connect(t, server.URL()), Options{})
	f := &faulty{Engine: r}
	a := newAppender(t, f, stream)
	known(t, a, "a")
	server.Stop()
	await.Until(t, "disconnected", func() bool { return stream.Connected() != nil })
	f.set(queue.ErrOutcomeUnknown, false, true)
	if x := one(t, a, job("a", "1")); x.Outcome != queue.Failed || !errors.Is(x.Err, queue.ErrOutcomeUnknown) {
		t.Errorf("%+v", x) // the engine has it
	}
	if x := one(t, a, job("a", "2")); x.Outcome != queue.Failed || !errors.Is(x.Err, ErrUnavailable) ||
		errors.Is(x.Err, queue.ErrOutcomeUnknown) {
		t.Errorf("%+v", x) // nobody was asked
	}
}

// A caller who leaves gets the error of its own leaving, and the engine is not blamed.
func TestAppendGivenUp(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 100))
	f := &faulty{Engine: r}
	a := newAppender(t, f, r.stream)
	known(t, a, "a")
	f.set(nil, true, false)
	ctx, leave := context.WithCancel(t.Context())
	f.onOffer(leave)
	answers, err := a.Append(ctx, []queue.Job{job("a", "1")})
	if !errors.Is(err, queue.ErrOutcomeUnknown) || len(answers) != 1 || answers[0].Outcome != queue.Failed {
		t.Errorf("%+v, %v", answers, err)
	}
	if away, strayed := a.outages.of("a"); away || strayed {
		t.Error("the engine counts as away")
	}
}
