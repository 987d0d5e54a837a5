package drain

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// A handler's error decides the job's settlement.
func TestVerdicts(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name    string
		do      func() error
		verdict queue.Verdict
		reason  string
	}{
		{"nil", func() error { return nil }, queue.Deliver, ""},
		{"an error", func() error { return broken }, queue.Fail, "broken"},
		{"permanent", func() error { return Permanent(broken) }, queue.Bury, "broken"},
		{
			"permanent, wrapped", func() error { return fmt.Errorf("sending: %w", Permanent(broken)) }, queue.Bury,
			"sending: broken",
		},
		{"permanent nil", func() error { return Permanent(nil) }, queue.Deliver, ""},
		{"unknown", func() error { return Unknown(broken) }, queue.Hold, "broken"},
		{"unknown, and the target's fault", func() error { return Trouble(Unknown(broken)) }, queue.Hold, "broken"},
		{
			"throttled", func() error { return Throttled(time.Now().Add(time.Hour)) }, queue.Throttle,
			"throttled until 2000-01-01T01:00:00Z",
		},
		{
			"the lane throttled", func() error { return LaneThrottled(broken, time.Now().Add(time.Hour)) }, queue.Throttle,
			"broken",
		},
		{"down", func() error { return fmt.Errorf("dialling: %w", Down(broken)) }, queue.Down, "dialling: broken"},
		{"retried at", func() error { return RetryAt(broken, time.Now().Add(time.Hour)) }, queue.Fail, "broken"},
		{"permanent within", func() error { return Unknown(Permanent(broken)) }, queue.Bury, "broken"},
		{
			"joined: the first counts", func() error { return errors.Join(broken, Unknown(broken), Down(broken)) }, queue.Hold,
			"broken\nbroken\nbroken",
		},
		{"joined: permanent wherever it is", func() error {
			return errors.Join(DeliveredThen(time.Now(), "spared"), fmt.Errorf("after: %w", Permanent(broken)))
		}, queue.Bury, "spared\nafter: broken"},
		{
			"delivered, and something else broke",
			func() error { return errors.Join(DeliveredThen(time.Now(), "spared"), broken) }, queue.Deliver, "spared\nbroken",
		},
		{"late", func() error { return fmt.Errorf("sending: %w", ErrLate) }, queue.Release, ""},
		{"another context canceled", func() error { return context.Canceled }, queue.Fail, "context canceled"},
		{"a panic", func() error { panic("oops") }, queue.Fail, "the handler panicked: oops"},
		{
			"a panic with nil", func() error { panic(nothing()) }, queue.Fail,
			"the handler panicked: panic called with nil argument",
		},
		{"an ended goroutine", func() error { runtime.Goexit(); return nil }, queue.Fail, errExited.Error()},
		{"bytes that are not text", func() error { return errors.New("a\xffb") }, queue.Fail, "a\uFFFDb"},
	} {
		bubble(t, c.name, func(t *testing.T) {
			f := newFake().queue("q", leaky.PerSecond(10), nil).answers(
				answer{jobs: []queue.Reservation{job("q", "a", 0)}, more: queue.Reserved{Next: 10 * ms}},
				answer{jobs: []queue.Reservation{job("q", "next", 200*ms)}})
			run := drainWith(t, f, HandlerFunc(func(_ context.Context, job *Job) error {
				if job.ID == "next" {
					return nil
				}
				return c.do()
			}), Options{Concurrency: 1})
			time.Sleep(time.Minute)
			run.finish()
			v := f.verdicts()
			got := v["a"]
			if got.Verdict != c.verdict || got.Reason != c.reason {
				t.Errorf("settled as %v, %q; want %v, %q", got.Verdict, got.Reason, c.verdict, c.reason)
			}
			if got.Queue != "q" || got.Fence != "fa" {
				t.Errorf("settled the lease %v", got.Lease)
			}
			if waits := got.Verdict == queue.Fail || got.Verdict == queue.Throttle; waits != (got.After > 0) {
				t.Errorf("%v after %v", got.Verdict, got.After)
			}
			// The handler is free again, whatever happened to it.
			if v["next"].Verdict != queue.Deliver {
				t.Errorf("the next job was settled as %v", v["next"].Verdict)
			}
		})
	}
}

// A handler whose gate refused has not started. Whatever error it returns, the job is released; a panic is still a
// panic.
func TestVerdictsAfterARefusal(t *testing.T) {
	for _, c := range []struct {
		name    string
		do      func(error) error
		verdict queue.Verdict
	}{
		{"its own error", func(error) error { return errors.New("no luck") }, queue.Release},
		{"the gate's error", func(err error) error { return err }, queue.Release},
		{"permanent", func(err error) error { return Permanent(err) }, queue.Bury},
		{"a panic", func(err error) error { panic(err) }, queue.Fail},
	} {
		bubble(t, c.name, func(t *testing.T) {
			f := newFake().queue("q", leaky.PerSecond(10), nil).answers(answer{jobs: []queue.Reservation{job("q", "a", 0)}})
			run := drainWith(t, f, handlerOf(func(ctx context.Context, _ *Job, gate Gate) error {
				time.Sleep(time.Second)
				return c.do(gate.Wait(ctx))
			}), Options{})
			time.Sleep(time.Minute)
			run.finish()
			if got := f.verdicts()["a"]; got.Verdict != c.verdict {
				t.Errorf("settled as %v, want %v", got.Verdict, c.verdict)
			}
		})
	}
}

func TestReason(t *testing.T) {
	r := reason(errors.New(strings.Repeat("ä", queue.MaxReasonBytes)))
	if len(r) > queue.MaxReasonBytes || len(r) < queue.MaxReasonBytes-1 || !utf8.ValidString(r) {
		t.Errorf("%d bytes, valid %v", len(r), utf8.ValidString(r))
	}
}

func TestBackoff(t *testing.T) {
	retry := func(low, high time.Duration, jitter string) queue.Retry {
		return queue.Retry{MinBackoff: unit.Duration(low), MaxBackoff: unit.Duration(high), Jitter: jitter}
	}
	for _, c := range []struct {
		retry     queue.Retry
		attempt   int
		low, high time.Duration
	}{
		{retry(time.Second, time.Minute, "none"), 1, time.Second, time.Second},
		{retry(time.Second, time.Minute, "none"), 2, 2 * time.Second, 2 * time.Second},
		{retry(time.Second, time.Minute, "none"), 6, 32 * time.Second, 32 * time.Second},
		{retry(time.Second, time.Minute, "none"), 7, time.Minute, time.Minute},
		{retry(time.Second, time.Minute, "none"), 1000, time.Minute, time.Minute},
		{retry(time.Second, time.Minute, "full"), 1, time.Second, 2 * time.Second},
		{retry(time.Second, time.Minute, "full"), 3, time.Second, 8 * time.Second},
		{retry(time.Second, time.Minute, "full"), 1000, time.Second, time.Minute},
		{retry(time.Second, time.Second, "full"), 5, time.Second, time.Second},
		{retry(ms, queue.MaxBackoffLimit, "full"), 1 << 30, ms, queue.MaxBackoffLimit},
	} {
		least, most := c.high, time.Duration(0)
		for range 1000 {
			d := c.retry.Backoff(c.attempt)
			if d < c.low || d > c.high || d%time.Microsecond != 0 {
				t.Fatalf("%+v attempt %d: %v, want %v to %v in microseconds", c.retry, c.attempt, d, c.low, c.high)
			}
			least, most = min(least, d), max(most, d)
		}
		// A thousand draws leave a tenth at either end empty once in 10^45.
		if tenth := (c.high - c.low) / 10; least > c.low+tenth || most < c.high-tenth {
			t.Errorf("%+v attempt %d: from %v to %v, want all of %v to %v", c.retry, c.attempt, least, most, c.low, c.high)
		}
	}
}

// A settlement is sent again until the engine has answered it, and only that one.
func TestSettleAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.Unlimited, nil).answers(
			answer{jobs: []queue.Reservation{job("q", "a", 0), job("q", "b", 0), job("q", "c", 0), job("q", "d", 0)}})
		f.set = func(at time.Duration, s queue.Settlement) (queue.Settled, error) {
			switch {
			case at < 20*time.Second:
				return queue.Settled{}, queue.ErrOutcomeUnknown // all of them
			case s.ID == "b" && at < 40*time.Second:
				return queue.Settled{Err: queue.ErrUnavailable}, nil
			case s.ID == "c":
				return queue.Settled{Stale: true}, nil
			case s.ID == "d":
				return queue.Settled{Err: queue.ErrCorrupt}, nil
			}
			return queue.Settled{State: queue.Delivered}, nil
		}
		w := newWatch()
		run := drainWith(t, f, HandlerFunc(func(context.Context, *Job) error { return nil }), Options{Observer: w})
		time.Sleep(time.Minute)
		run.finish()
		v := f.verdicts()
		if a, b := v["a"].at, v["b"].at; a < 20*time.Second || a > 22*time.Second || b < 40*time.Second ||
			b > 42*time.Second {
			t.Errorf("settled at %v and %v", a, b)
		}
		if len(f.settles) != 3 {
			t.Errorf("%d settlements answered, want 3", len(f.settles))
		}
		if w.states[queue.Delivered] != 2 || w.states[queue.StateNone] != 1 || w.given != 1 {
			t.Errorf("observed %v and %d given up", w.states, w.given)
		}
	})
}

// Neither settlements nor the drainer wait forever for an engine that never answers.
func TestSettleGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.Unlimited, nil).answers(answer{jobs: []queue.Reservation{job("q", "a", 0)}})
		for range 40 { // 80 s of nothing
			f.answers(answer{})
		}
		f.answers(answer{jobs: []queue.Reservation{job("q", "b", 0)}})
		f.set = func(time.Duration, queue.Settlement) (queue.Settled, error) {
			return queue.Settled{}, queue.ErrUnavailable
		}
		w := newWatch()
		run := drainWith(t, f, HandlerFunc(func(context.Context, *Job) error { return nil }), Options{Observer: w})
		time.Sleep(queue.DefaultLease + settleAfterLease + 5*time.Second)
		w.do(func() {
			if w.given != 1 {
				t.Errorf("%d given up, want a", w.given)
			}
		})
		run.stop()
		before := time.Now()
		if err := <-run.end; err == nil || time.Since(before) != patience {
			t.Errorf("Run: %v after %v", err, time.Since(before))
		}
		if w.given != 2 {
			t.Errorf("%d given up, want b too", w.given)
		}
	})
}

// When settlements pile up, handlers wait instead of filling the memory.
func TestSettleBackpressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.Unlimited, nil)
		for i := range 20 {
			var jobs []queue.Reservation
			for k := range 100 {
				jobs = append(jobs, job("q", fmt.Sprintf("%d-%d", i, k), 0))
			}
			f.answers(answer{trip: ms, jobs: jobs, more: queue.Reserved{Next: -1}})
		}
		f.set = func(at time.Duration, _ queue.Settlement) (queue.Settled, error) {
			if at < 10*time.Second {
				return queue.Settled{}, queue.ErrUnavailable
			}
			return queue.Settled{State: queue.Delivered}, nil
		}
		w := newWatch()
		run := drainWith(
			t, f, HandlerFunc(func(context.Context, *Job) error { return nil }), Options{Concurrency: 100, Observer: w},
		)
		time.Sleep(5 * time.Second)
		// 1,000 pend, 500 are being sent, and 100 handlers hold one each.
		if n := len(f.asked()); n > 17 {
			t.Errorf("%d requests while nothing was settled", n)
		}
		time.Sleep(25 * time.Second)
		run.finish()
		if w.states[queue.Delivered] != 2000 {
			t.Errorf("%d delivered, want 2000", w.states[queue.Delivered])
		}
	})
}

// nothing hides from the compiler that the panic value is nil.
func nothing() any { return nil }

// on_unknown decides about jobs that may have been sent.
func TestUnknownIsForTheQueueToDecide(t *testing.T) {
	for _, c := range []struct {
		on   string
		want queue.Verdict
	}{
		{"", queue.Hold}, {queue.UnknownHold, queue.Hold}, {queue.UnknownRetry, queue.Fail}, {queue.UnknownDead, queue.Bury},
	} {
		bubble(t, c.on, func(t *testing.T) {
			f := newFake().queue("q", leaky.PerSecond(10), func(s *queue.Spec) { s.OnUnknown = c.on }).answers(
				answer{jobs: []queue.Reservation{job("q", "a", 0)}, more: queue.Reserved{Next: time.Minute}})
			run := drainWith(t, f, HandlerFunc(func(context.Context, *Job) error {
				return Trouble(Unknown(errors.New("lost")))
			}), Options{Concurrency: 1})
			time.Sleep(time.Second)
			run.finish()
			if got := f.verdicts()["a"]; got.Verdict != c.want || !got.Trouble || (got.After > 0) != (c.want == queue.Fail) {
				t.Errorf("on_unknown %q settled as %+v, want %v", c.on, got, c.want)
			}
		})
	}
}

// A job is delivered, and the engine learns until when the receiver wants to be spared.
func TestDeliveredThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().queue("q", leaky.PerSecond(10), nil).answers(
			answer{
				jobs: []queue.Reservation{job("q", "spared", 0), job("q", "past", 0), job("q", "long", 0), job("q", "plain", 0)},
				more: queue.Reserved{Next: time.Minute},
			})
		w := newWatch()
		run := drainWith(t, f, HandlerFunc(func(_ context.Context, job *Job) error {
			switch job.ID {
			case "spared":
				return fmt.Errorf("wrapped: %w", DeliveredThen(time.Now().Add(3*time.Second), "nothing left"))
			case "past":
				return DeliveredThen(time.Now().Add(-time.Second), "")
			case "long":
				return DeliveredThen(time.Now().Add(1000*time.Hour), "")
			}
			return nil
		}), Options{Observer: w})
		time.Sleep(time.Second)
		run.finish()
		v := f.verdicts()
		for id, after := range map[string]time.Duration{
			"spared": 3 * time.Second, "past": 0, "long": queue.MaxStop, "plain": 0,
		} {
			if v[id].Verdict != queue.Deliver || v[id].After != after {
				t.Errorf("%s was settled as %+v, want it delivered, and %v", id, v[id].Settlement, after)
			}
		}
		if v["spared"].Reason != "wrapped: nothing left" || w.states[queue.Delivered] != 4 {
			t.Errorf("%+v, %v", v["spared"].Settlement, w.states)
		}
	})
}

// A handler that broke off after the gate may have sent its job, like one whose process died.
func TestBrokenOffAfterTheGate(t *testing.T) {
	for _, c := range []struct {
		name, on string
		before   bool
		do       func()
		want     queue.Verdict
	}{
		{"panic, hold", queue.UnknownHold, false, func() { panic("oops") }, queue.Hold},
		{"panic, dead", queue.UnknownDead, false, func() { panic("oops") }, queue.Bury},
		{"panic, retry", queue.UnknownRetry, false, func() { panic("oops") }, queue.Fail},
		{"ended goroutine, hold", queue.UnknownHold, false, runtime.Goexit, queue.Hold},
		{"panic before the gate, hold", queue.UnknownHold, true, func() { panic("oops") }, queue.Fail},
	} {
		bubble(t, c.name, func(t *testing.T) {
			f := newFake().queue("q", leaky.PerSecond(10), func(s *queue.Spec) { s.OnUnknown = c.on }).answers(
				answer{jobs: []queue.Reservation{job("q", "a", 0)}, more: queue.Reserved{Next: time.Minute}})
			run := drainWith(t, f, handlerOf(func(ctx context.Context, _ *Job, gate Gate) error {
				if !c.before {
					if err := gate.Wait(ctx); err != nil {
						return err
					}
				}
				c.do()
				return nil
			}), Options{Concurrency: 1})
			time.Sleep(time.Second)
			run.finish()
			if got := f.verdicts()["a"]; got.Verdict != c.want {
				t.Errorf("settled as %+v, want %v", got, c.want)
			}
		})
	}
}

// A time named by the receiver takes precedence over the queue's own.
func TestRetryAtTakesPrecedence(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f := newFake().queue("q", leaky.PerSecond(10), nil).answers(
			answer{jobs: []queue.Reservation{job("q", "a", 0), job("q", "b", 100*ms)}, more: queue.Reserved{Next: time.Minute}})
		run := drainWith(t, f, HandlerFunc(func(_ context.Context, job *Job) error {
			if job.ID == "a" {
				return RetryAt(errors.New("busy"), time.Now().Add(17*time.Minute))
			}
			return ThrottledBy(errors.New("slow down"), time.Now().Add(1000*time.Hour))
		}), Options{Concurrency: 2})
		time.Sleep(time.Second)
		run.finish()
		if got := f.verdicts()["a"]; got.After != 17*time.Minute {
			t.Errorf("it is tried again after %v", got.After)
		}
		if got := f.verdicts()["b"]; got.After != queue.MaxStop {
			t.Errorf("the queue stops for %v, want the maximum", got.After)
		}
	})
}
