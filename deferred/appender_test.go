package deferred

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// known waits until the appender knows the queue's spec, as it does soon after first use. The engine is asked again if
// it did not answer in time.
func known(t *testing.T, a *Appender, name string) {
	t.Helper()
	await.Until(t, "the spec is known", func() bool {
		_, _, ok := a.specs.Known(name)
		if !ok {
			a.specs.Refresh(name, 0)
		}
		return ok
	})
}

// Deferred jobs are answered as the engine says, and plain refusals pass through.
func TestAppend(t *testing.T) {
	r := newRig(t)
	spec := specFor("a", 2)
	spec.Deferred.MaxJobs = 2
	putSpec(t, r, spec)
	a := newAppender(t, r, r.stream)
	waits := func(id string) queue.Job { return job("a", id) }
	rejects := waits("r")
	rejects.Overflow = queue.Reject
	lapsed := waits("l")
	lapsed.ExpiresAt = time.Now().Add(-time.Second)
	bad := waits("b")
	bad.Cost = -1
	answers, err := a.Append(t.Context(), []queue.Job{
		waits("1"), waits("2"), waits("3"), waits("4"), waits("3"), waits("5"), rejects, lapsed, bad, job("none", "1"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range answers {
		got = append(got, fmt.Sprintf("%s %v %v %d", x.ID, x.Outcome, x.State, x.Position))
		if x.Ticket != "" {
			t.Errorf("%s shows its ticket", x.ID)
		}
		if x.Outcome == queue.Accepted && x.ETA.At.IsZero() || (x.Outcome == queue.Full ||
			x.Outcome == queue.OverflowFull) && x.RetryAfter <= 0 {
			t.Errorf("%+v", x)
		}
	}
	want := []string{
		"1 accepted waiting 1", "2 accepted waiting 2", "3 accepted deferred 3", "4 accepted deferred 4",
		"3 duplicate deferred 0",
		"5 overflow_full  0", "r full  0", "l expired  0", "b invalid  0", "1 unknown_queue  0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if ids, _ := storedJobs(t, r.stream, "a"); fmt.Sprint(ids) != "[3 4 3]" { // once more for the repeated one
		t.Error(ids)
	}
	if answers, err := a.Append(t.Context(), nil); err != nil || len(answers) != 0 {
		t.Errorf("%v, %v", answers, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Append(ctx, []queue.Job{waits("9")}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A job whose first Put was lost is stored when its producer sends it again.
func TestAppendAgain(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 1))
	if x, err := r.Offer(t.Context(), []queue.Job{job("a", "1"), job("a", "2")}); err != nil ||
		x[1].Outcome != queue.SetAside {
		t.Fatal(x, err)
	}
	a := newAppender(t, r, r.stream)
	if x := one(t, a, job("a", "2")); x.Outcome != queue.Duplicate || x.State != queue.Deferred {
		t.Errorf("%+v", x)
	}
	runReadmitter(t, r.readmitter())
	if got := leave(t, r, 2); fmt.Sprint(got) != "[1 2]" {
		t.Error(got)
	}
	r.idle(t, "a")
	if info := r.info(t, "a"); info.Returned != 1 || info.Missing != 0 {
		t.Errorf("%+v", info)
	}
}

// When the overflow is full, nothing of the job stays, and the answer says when to come back.
func TestAppendFull(t *testing.T) {
	r := newRig(t)
	spec := specFor("a", 1)
	now := time.Now().UTC()
	spec.Deferred.ReadmitBetween = queue.ReadmitIn(
		now.Add(2*time.Hour).Format("15:04") + "-" + now.Add(3*time.Hour).Format("15:04"),
	)
	putSpec(t, r, spec)
	putSpec(t, r, specFor("b", 1))
	a := newAppender(t, r, r.stream)
	known(t, a, "a")
	defers(t, a, "a", []string{"1"})
	defers(t, a, "b", []string{"1"})
	bound(t, r.stream, func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 })
	defers(t, a, "a", []string{"2"})
	for _, name := range []string{"a", "b"} {
		x := one(t, a, job(name, "3"))
		if x.Outcome != queue.OverflowFull || x.RetryAfter <= 0 || x.Ticket != "" {
			t.Errorf("%+v", x)
		}
		if waits := x.RetryAfter > time.Hour; waits != (name == "a") {
			t.Errorf("%s: come back after %v", name, x.RetryAfter)
		}
		if _, err := r.Job(t.Context(), name, "3"); !errors.Is(err, queue.ErrUnknownJob) {
			t.Errorf("%s: something of it stayed: %v", name, err)
		}
	}
	// Asked again, the one that is there may be there or not.
	if x := one(t, a, job("a", "2")); x.Outcome != queue.Failed || !errors.Is(x.Err, queue.ErrOutcomeUnknown) {
		t.Errorf("%+v", x)
	}
	bound(t, r.stream, func(c *jetstream.StreamConfig) { c.MaxMsgs = -1 })
	for _, name := range []string{"a", "b"} {
		if x := one(t, a, job(name, "3")); x.Outcome != queue.Accepted {
			t.Errorf("%+v", x)
		}
	}
}

// bound changes the stream as an operator might.
func bound(t *testing.T, s *Stream, change func(*jetstream.StreamConfig)) {
	t.Helper()
	config := s.jobs.CachedInfo().Config
	change(&config)
	if _, err := s.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

// While NATS is away, a job that would be deferred is not accepted and leaves nothing behind. A job that finds room
// does not need NATS.
func TestAppendWithoutNATS(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 2))
	server := startNATS(t)
	stream := openStream(t, connect(t, server.URL()), Options{})
	a := newAppender(t, r, stream)
	server.Stop()
	await.Until(t, "disconnected", func() bool { return stream.Connected() != nil })
	defers(t, a, "a", []string{"1", "2"})
	x := one(t, a, job("a", "3"))
	if x.Outcome != queue.Failed || !errors.Is(x.Err, ErrUnavailable) || errors.Is(x.Err, queue.ErrOutcomeUnknown) {
		t.Errorf("%+v", x)
	}
	if _, err := r.Job(t.Context(), "a", "3"); !errors.Is(err, queue.ErrUnknownJob) {
		t.Error(err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "deferred", func() bool { return one(t, a, job("a", "3")).State == queue.Deferred })
}

// A record that could not be withdrawn is given up in time, and a job that is sent again is stored.
func TestAppendNotWithdrawn(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 1))
	f := &faulty{Engine: r, forget: true}
	a := newAppender(t, f, r.stream)
	defers(t, a, "a", []string{"1"})
	bound(t, r.stream, func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 })
	defers(t, a, "a", []string{"2"})
	if x := one(t, a, job("a", "3")); x.Outcome != queue.OverflowFull || x.RetryAfter <= 0 {
		t.Errorf("%+v", x)
	}
	bound(t, r.stream, func(c *jetstream.StreamConfig) { c.MaxMsgs = -1 })
	if x := one(t, a, job("a", "3")); x.Outcome != queue.Duplicate || x.State != queue.Deferred {
		t.Errorf("%+v", x)
	}
	runReadmitter(t, r.readmitter())
	leave(t, r, 3)
	r.idle(t, "a")
}

// A job too large for NATS is refused with its field.
func TestAppendTooLarge(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 1))
	stream := openStream(t, connect(t, startNATSWith(t, 1<<20).URL()), Options{})
	a := newAppender(t, r, stream)
	large := func(id string) queue.Job {
		return queue.Job{Queue: "a", ID: id, Payload: make([]byte, queue.MaxPayloadBytes)}
	}
	if x := one(t, a, large("1")); x.Outcome != queue.Accepted || x.State != queue.Waiting {
		t.Errorf("%+v", x)
	}
	x := one(t, a, large("2"))
	var field *invalid.Error
	if x.Outcome != queue.Invalid || !errors.As(x.Err, &field) || field.Field != "payload" ||
		!strings.Contains(field.Reason, "max_payload") {
		t.Errorf("%+v", x)
	}
	if _, err := r.Job(t.Context(), "a", "2"); !errors.Is(err, queue.ErrUnknownJob) {
		t.Error(err)
	}
}

// Append waits for Run to start, and does nothing after it.
func TestAppendWithoutRun(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 10))
	f := &faulty{Engine: r}
	a := New(f, r.stream, nil)
	jobs := []queue.Job{job("a", "1")}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := a.Append(ctx, jobs); !errors.Is(err, context.DeadlineExceeded) || f.offered() != 0 {
		t.Errorf("before Run: %v, %d offers", err, f.offered())
	}
	answered := make(chan error)
	go func() {
		answers, err := a.Append(t.Context(), jobs)
		if err == nil && answers[0].Outcome != queue.Accepted {
			err = fmt.Errorf("%+v", answers)
		}
		answered <- err
	}()
	stop := start(t, a.Run)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	stop()
	if _, err := a.Append(t.Context(), []queue.Job{job("a", "2")}); !errors.Is(err, queue.ErrClosed) || f.offered() != 1 {
		t.Errorf("after Run: %v, %d offers", err, f.offered())
	}
}
