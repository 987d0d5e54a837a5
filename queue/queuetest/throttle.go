package queuetest

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// tooMany settles a job as throttled with the receiver's wait, or 0 if it named none, and returns the length of the
// stop.
func (r *rig) tooMany(v queue.Reservation, said time.Duration) time.Duration {
	r.Helper()
	s := settlement(queue.Throttle, v)
	s.Reason, s.After, s.Untold = "429 slow down", said, true
	got := r.settle(s)[0]
	if got.Stale || got.Err != nil || got.State != queue.Waiting {
		r.Fatalf("throttled %s: %+v", v.ID, got)
	}
	return got.Effect.Stopped
}

// spared has the first job of a queue throttled and checks that the queue stops for want or up to a quarter longer. It
// returns when the stop is over.
func (r *rig) spared(queueName string, said, want time.Duration) {
	r.Helper()
	got := r.reserve(queueName, 1)
	if len(got) != 1 {
		r.Fatalf("%d jobs were granted", len(got))
	}
	long := r.tooMany(got[0], said)
	if long < want || long > want+want/4 {
		r.Errorf("stopped for %v, want %v to %v", long, want, want+want/4)
	}
	r.stops(queueName, r.clock.Now().Add(long), queue.StopThrottled, "429 slow down")
	r.clock.Advance(long)
}

// grown throttles a new queue three times.
func (r *rig) grown(rate string) string {
	r.Helper()
	q := r.queue("q", rate)
	r.accept(q, numbered("j", 30)...)
	for _, seconds := range []int{1, 2, 4} {
		r.spared(q, 0, time.Duration(seconds)*time.Second)
	}
	return q
}

var sparedRules = []rule{
	{"a caller without a lease can report that the receiver asked for a delay", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a")
		start := r.clock.Now()
		throttled := func(after, left time.Duration, why string) {
			r.Helper()
			until, err := r.e.Throttle(r.ctx, q, after, why)
			r.check(err)
			r.isAt(until, start.Add(left).Time())
		}
		throttled(10*time.Second, 10*time.Second, "429")
		throttled(time.Second, 10*time.Second, "shorter")
		throttled(10*time.Second, 10*time.Second, "again")
		r.stops(q, start.Add(10*time.Second), queue.StopThrottled, "429")
		r.reserve(q, 0)
		throttled(20*time.Second, 20*time.Second, "longer")
		r.stops(q, start.Add(20*time.Second), queue.StopThrottled, "longer")
		r.clock.Advance(20 * time.Second)
		r.deliver(r.grant(q, 1, "a")...)
		throttled(2*queue.MaxStop, 20*time.Second+queue.MaxStop, "")
		r.check(r.e.Resume(r.ctx, q))
		r.accept(q, "b")
		r.deliver(r.grant(q, 1, "b")...)

		_, err := r.e.Throttle(r.ctx, q, 0, "")
		r.notAField(err, "after")
		_, err = r.e.Throttle(r.ctx, "none", time.Second, "")
		r.refuses(err, queue.ErrUnknownQueue)
		r.queue("ses", "10/s")
		r.queue("ses.a", "unlimited")
		_, err = r.e.Throttle(r.ctx, "ses", time.Second, "")
		r.notAField(err, "queue")
	}},
	{"a receiver that names no wait is spared for 1, 2, 4 ... 60 s", func(r *rig) {
		q := r.grown("unlimited")
		for _, seconds := range []int{8, 16, 32, 60, 60, 60} {
			r.spared(q, 0, time.Duration(seconds)*time.Second)
		}
		if i := r.info(q); i.Throttled != 9 || i.Waiting != 30 {
			r.Errorf("counted %d throttled, %d wait", i.Throttled, i.Waiting)
		}
	}},
	{"after a success the series starts again", func(r *rig) {
		q := r.grown("unlimited")
		r.deliver(r.reserve(q, 1)...)
		r.spared(q, 0, time.Second)
		r.spared(q, 0, 2*time.Second)
	}},
	{"a permanent failure shows that the receiver accepts jobs, a temporary one does not", func(r *rig) {
		q := r.grown("unlimited")
		s := settlement(queue.Fail, r.reserve(q, 1)[0])
		s.Trouble = true
		r.settle(s)
		r.spared(q, 0, 8*time.Second)
		r.settle(settlement(queue.Bury, r.reserve(q, 1)[0]))
		r.spared(q, 0, time.Second)
	}},
	{"a departure from before a stop proves nothing new", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, numbered("j", 30)...)
		crowd := r.reserve(q, 20)
		first := r.tooMany(crowd[0], 0)
		for _, v := range crowd[1:10] {
			if more := r.tooMany(v, 0); more != 0 {
				r.Errorf("stopped for %v more", more)
			}
		}
		r.deliver(crowd[10:19]...) // and a success from before it does not end it
		if first < time.Second || first > 1250*time.Millisecond {
			r.Errorf("stopped for %v", first)
		}
		r.clock.Advance(first)
		if more := r.tooMany(crowd[19], 0); more != 0 {
			r.Errorf("a departure from before the stop, answered after it, stopped for %v", more)
		}
		r.spared(q, 0, 2*time.Second)
	}},
	{"a wait below a second counts the first time only", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, numbered("j", 30)...)
		v := r.reserve(q, 1)
		if got := r.tooMany(v[0], 200*time.Millisecond); got != 200*time.Millisecond {
			r.Errorf("stopped for %v, want 200ms", got)
		}
		r.clock.Advance(200 * time.Millisecond)
		r.spared(q, 200*time.Millisecond, 2*time.Second)
		r.spared(q, 200*time.Millisecond, 4*time.Second)
	}},
	{"a named wait is used as it is and does not restart the series", func(r *rig) {
		q := r.grown("unlimited")
		r.clock.Advance(time.Second)
		stop := r.throttles(q, 3*time.Second)
		r.clock.Set(stop)
		r.spared(q, 0, 8*time.Second)
	}},
	{"jobs return at different times", func(r *rig) {
		seen := map[time.Duration]bool{}
		for i := range 20 {
			q := r.queue(fmt.Sprint("q", i), "unlimited")
			r.accept(q, fmt.Sprint("job", i))
			seen[r.tooMany(r.reserve(q, 1)[0], 0)] = true
		}
		if len(seen) < 15 {
			r.Errorf("20 queues stop for %d different times", len(seen))
		}
	}},
	{"resuming a queue ends the series", func(r *rig) {
		q := r.grown("unlimited")
		r.check(r.e.Resume(r.ctx, q))
		r.spared(q, 0, time.Second)
	}},
	{"a put does not end it", func(r *rig) {
		q := r.grown("unlimited")
		r.put(spec(q, "100/s"))
		r.spared(q, 0, 8*time.Second)
	}},
	{"any drainer's answer counts for all", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, numbered("j", 30)...)
		for i, seconds := range []int{1, 2, 4, 8} {
			got := r.reserveAs(fmt.Sprint("drainer", i), q, 1).Jobs
			stopped := r.tooMany(got[0], 0)
			if want := time.Duration(seconds) * time.Second; stopped < want || stopped > want+want/4 {
				r.Errorf("drainer %d: stopped for %v, want %v", i, stopped, want)
			}
			r.clock.Advance(stopped)
		}
	}},
	{"a repeated settlement gets the same answer and counts once", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a")
		s := settlement(queue.Throttle, r.reserve(q, 1)[0])
		s.Untold = true
		stopped := r.settle(s)[0].Effect.Stopped
		if again := r.settle(s)[0]; again.State != queue.Waiting || again.Effect != (queue.Effect{}) {
			r.Errorf("repeated: %+v", again)
		}
		r.clock.Advance(stopped)
		s = settlement(queue.Throttle, r.reserve(q, 1)[0])
		s.Untold = true
		if got := r.settle(s)[0].Effect.Stopped; got < 2*time.Second || got > 2500*time.Millisecond {
			r.Errorf("stopped for %v, want 2s", got)
		}
	}},
}

// settleWith settles a job with the receiver's verdict.
func (r *rig) settleWith(verdict queue.Verdict, reason string, after time.Duration, v queue.Reservation) queue.Effect {
	r.Helper()
	s := settlement(verdict, v)
	s.Reason, s.After = reason, after
	got := r.settle(s)[0]
	if got.Stale || got.Err != nil {
		r.Fatalf("%v of %s: %+v", verdict, v.ID, got)
	}
	return got.Effect
}

// throttles stops a queue by throttling its first job, and returns the end of the stop.
func (r *rig) throttles(queueName string, after time.Duration) leaky.Instant {
	r.Helper()
	got := r.reserve(queueName, 1)
	if len(got) != 1 {
		r.Fatalf("%d jobs were granted", len(got))
	}
	if e := r.settleWith(queue.Throttle, "429 slow down", after, got[0]); e != (queue.Effect{Stopped: after}) {
		r.Errorf("throttled for %v: %+v", after, e)
	}
	return r.clock.Now().Add(after)
}

// stops checks until when a queue is stopped; 0 means not at all.
func (r *rig) stops(queueName string, until leaky.Instant, cause queue.StopCause, reason string) {
	r.Helper()
	want := queue.Stop{Cause: cause, Reason: reason}
	if until != 0 {
		want.Until = until.Time()
	}
	if got := r.info(queueName).Stop; !got.Until.Equal(want.Until) || got.Cause != cause || got.Reason != reason {
		r.Errorf("%s stops by %+v, want %+v", queueName, got, want)
	}
}

// Rules of a receiver that accepts a job and asks for a break.
var deliveredStopRules = []rule{
	{"a delivered job can stop the queue", func(r *rig) {
		q := r.queue("q", "10/s", func(s *queue.Spec) { s.Burst = 5 })
		r.appendNumbered(q, 9)
		v := r.grant(q, 1, "j1")
		stop := r.clock.Now().Add(3 * time.Second)
		if e := r.settleWith(
			queue.Deliver, "200, and nothing left", 3*time.Second, v[0],
		); e != (queue.Effect{Stopped: 3 * time.Second}) {
			r.Errorf("%+v", e)
		}
		r.stops(q, stop, queue.StopThrottled, "200, and nothing left")
		r.waitsFor(lasting(cause.Throttled, stop, "200, and nothing left"), q, "j2")
		if i := r.info(q); i.Delivered != 1 || i.Throttled+i.Retried+i.Released != 0 || i.Waiting != 8 ||
			i.Leased != 0 {
			r.Errorf("counted %+v", i)
		}
		if i := r.job(q, "j1"); i.State != queue.Delivered || i.Attempts != 1 {
			r.Errorf("it is %+v", i)
		}
		r.clock.Set(stop - 1_000_000)
		r.grant(q, 9)
		r.checkDepartures(q, 8, stop, 100*time.Millisecond)
		r.stops(q, 0, "", "")
	}},
	{"a repeated settlement gets the same answer and does not stop the queue anew", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a", "b")
		s := settlement(queue.Deliver, r.grant(q, 1, "a")[0])
		s.After = time.Second
		r.settled(queue.Delivered, s)
		stop := r.clock.Now().Add(time.Second)
		r.clock.Advance(500 * time.Millisecond)
		if got := r.settle(s)[0]; got.State != queue.Delivered || got.Effect != (queue.Effect{}) {
			r.Errorf("again: %+v", got)
		}
		r.stops(q, stop, queue.StopThrottled, "")
		r.clock.Advance(time.Hour)
		r.settled(queue.Delivered, s)
		r.stops(q, 0, "", "")
		r.deliver(r.grant(q, 9, "b")...)
	}},
	{"a stop lasts at most a day, a shorter one changes nothing, and a plain delivery ends none", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a", "b", "c", "d")
		v := r.grant(q, 4, "a", "b", "c", "d")
		stop := r.clock.Now().Add(queue.MaxStop)
		for i, tt := range []struct{ after, stopped time.Duration }{
			{-time.Second, 0}, {99 * time.Hour, queue.MaxStop}, {time.Hour, 0}, {0, 0},
		} {
			if e := r.settleWith(queue.Deliver, "", tt.after, v[i]); e.Stopped != tt.stopped {
				r.Errorf("%v: stopped for %v, want %v", tt.after, e.Stopped, tt.stopped)
			}
		}
		r.stops(q, stop, queue.StopThrottled, "")
	}},
	{"it closes a circuit like any delivery, and the queue stops for it alone", func(r *rig) {
		q := r.queue(
			"q", "unlimited",
			func(s *queue.Spec) { s.Circuit.Failures, s.Circuit.MinProbe = 1, unit.Duration(time.Minute) },
		)
		r.accept(q, "a", "b")
		r.settleWith(queue.Down, "refused", 0, r.grant(q, 1, "a")[0])
		r.clock.Advance(time.Minute)
		v := r.grant(q, 1, "a")
		if e := r.settleWith(queue.Deliver, "enough", time.Second, v[0]); !e.Closed || e.Stopped != time.Second {
			r.Errorf("%+v", e)
		}
		r.stops(q, r.clock.Now().Add(time.Second), queue.StopThrottled, "enough")
		r.clock.Advance(time.Second)
		r.deliver(r.grant(q, 9, "b")...)
	}},
	{"it neither lowers nor raises an adaptive rate", func(r *rig) {
		q := r.queue("q", "10/s", func(s *queue.Spec) {
			s.Adapt = queue.Adapt{Floor: laneRate("2/s").Rate, Ceiling: laneRate("20/s").Rate}
		})
		r.appendNumbered(q, 40)
		for range 30 {
			got := r.reserve(q, 1)
			for _, v := range got {
				r.settleWith(queue.Deliver, "", 150*time.Millisecond, v)
			}
			r.clock.Advance(150 * time.Millisecond)
		}
		if i := r.info(q); i.Rate != laneRate("10/s").Rate || len(i.RateChanges) != 0 || i.Delivered < 20 {
			r.Errorf("rate %v by %v, %d delivered", i.Rate, i.RateChanges, i.Delivered)
		}
	}},
	{"in a group it stops only the child", func(r *rig) {
		r.group("p 10/s 5", "a unlimited", "b unlimited")
		r.appendGroup("a1 a2")
		r.settleWith(queue.Deliver, "", time.Minute, r.grant("ses", 1, "a1")[0])
		r.stops(named("a"), r.clock.Now().Add(time.Minute), queue.StopThrottled, "")
		r.appendGroup("b1")
		r.deliver(r.grant("ses", 9, "b1")...)
		r.clock.Advance(time.Minute)
		r.deliver(r.grant("ses", 9, "a2")...)
	}},
}
