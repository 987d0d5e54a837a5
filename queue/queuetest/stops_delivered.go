package queuetest

import (
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

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
		if i := r.info(q); i.Rate != laneRate("10/s").Rate || len(i.Adaptions) != 0 || i.Delivered < 20 {
			r.Errorf("rate %v by %v, %d delivered", i.Rate, i.Adaptions, i.Delivered)
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
