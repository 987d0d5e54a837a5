package queuetest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Clock is the time of an engine under test. It advances only when moved, and may be moved back.
type Clock struct{ now atomic.Int64 }

// NewClock returns a clock set to noon of a fixed day.
func NewClock() *Clock {
	c := &Clock{}
	c.Set(leaky.Instant(time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC).UnixMicro()))
	return c
}

// Now returns the clock's time; engines take it as Options.Now.
func (c *Clock) Now() leaky.Instant { return leaky.Instant(c.now.Load()) }

// Set moves the clock to t.
func (c *Clock) Set(t leaky.Instant) { c.now.Store(int64(t)) }

// Advance moves the clock by d.
func (c *Clock) Advance(d time.Duration) { c.now.Add(d.Microseconds()) }

// steadyClient is a client with a monotonic clock of its own.
type steadyClient struct {
	*rig
	passed time.Duration // since its start
	shown  time.Time     // the engine's clock in the last answer, and
	at     time.Duration // when that arrived
}

func (r *rig) steady(queueName string) *steadyClient {
	return &steadyClient{rig: r, shown: r.reserveAs("client", queueName, 0).Now}
}

// passes lets time pass on all clocks; jump moves only the wall clock.
func (c *steadyClient) passes(d time.Duration) {
	c.clock.Advance(d)
	c.passed += d
}

func (c *steadyClient) jump(by time.Duration) { c.clock.Advance(by) }

// ask reserves jobs and vouches for the engine's clock.
func (c *steadyClient) ask(queueName string, most int, want ...string) []queue.Reservation {
	c.Helper()
	got := c.vouch(queueName, most)
	c.sameIDs(got, want...)
	return got
}

func (c *steadyClient) vouch(queueName string, most int) []queue.Reservation {
	c.Helper()
	r := c.request("client", queueName, most)
	r.Latest = c.shown.Add(c.passed - c.at)
	res := c.do(r)
	if ahead := res.Now.Sub(r.Latest); ahead > 0 {
		c.Fatalf("the engine's clock is %v ahead", ahead)
	}
	c.shown, c.at = res.Now, c.passed
	return res.Jobs
}

var jumps = []time.Duration{time.Hour, -time.Hour, 26 * time.Hour, -26 * time.Hour, 3 * time.Second, -3 * time.Second}

var clockRules = []rule{
	{"a clock that was wrong for seconds leaves no trace", func(r *rig) {
		q := r.queue("g.q", "unlimited", limited("quota 1/h"))
		c := r.steady(q)
		for _, by := range jumps {
			c.ask(q, 0)
			c.jump(by)
			c.passes(5 * time.Second)
			c.ask(q, 0)
			c.jump(-by)
			c.ask(q, 0)
			c.promises(q, func(most int, want ...string) []queue.Reservation { return c.ask(q, most, want...) })
		}
	}},
	{"nor does a wrong clock that no client could notice", func(r *rig) {
		q := r.queue("g.q", "unlimited", limited("quota 1/h"))
		c := r.steady(q)
		for _, by := range jumps {
			c.jump(by)
			r.grant(q, 9)
			c.passes(5 * time.Second)
			c.jump(-by)
			r.grant(q, 9)
			c.promises(q, func(most int, want ...string) []queue.Reservation { return r.grant(q, most, want...) })
		}
	}},
	{"promises made while the clock was behind are kept once it is corrected", func(r *rig) {
		q, paused := r.queue("g.q", "unlimited", limited("quota 1/h")), r.queue("g.r", "unlimited")
		c := r.steady(q)
		c.jump(-30 * time.Minute)
		c.ask(q, 9)
		now := r.clock.Now()
		r.schedule(later(now.Add(40*time.Minute), q, "a"), later(now.Add(31*time.Minute), q, "b"))
		r.acceptJobs(job(paused, "c"))
		r.pauses(paused, now.Add(40*time.Minute), "")
		c.jump(30 * time.Minute)
		c.ask(q, 9)
		c.passes(time.Minute)
		c.deliver(c.ask(q, 9, "b")...)
		c.passes(8*time.Minute + 59*time.Second)
		c.ask(q, 9)
		c.passes(time.Second)
		c.deliver(c.ask(q, 9, "c")...) // the quota of the hour is used up
		c.passes(50 * time.Minute)
		c.ask(q, 9, "a")
	}},
	{"a jump ends no lease", func(r *rig) {
		q := r.queue("g.q", "unlimited", leased(10*time.Second, 8))
		c := r.steady(q)
		for _, by := range jumps {
			r.accept(q, "a"+by.String())
			v := c.ask(q, 9, "a"+by.String())
			c.passes(time.Second)
			c.jump(by)
			r.append(job(q, "a"+by.String())) // by a client without a clock of its own
			c.ask(q, 9)
			c.passes(8 * time.Second)
			c.ask(q, 9)
			c.passes(3 * time.Second)
			c.deliver(c.ask(q, 9, "a"+by.String())...)
			r.stale(settlement(queue.Deliver, v[0]))
		}
	}},
	{"departures keep their distance whatever the clock does", func(r *rig) {
		for i, rate := range []string{"1/s", "1/m"} {
			q, interval := r.queue(fmt.Sprint("g.q", i), rate), []time.Duration{time.Second, time.Minute}[i]
			c := r.steady(q)
			r.accept(q, numbered("j", 20)...)
			var last time.Duration
			for n, step := 0, 0; n < 20; step++ {
				c.jump(jumps[step%len(jumps)] * time.Duration(1+step%5))
				c.passes(300 * time.Millisecond)
				got := c.vouch(q, 9)
				for _, v := range got {
					at := c.passed + v.In
					if n > 0 && at-last < interval {
						r.Fatalf("%s: %s departs %v after the one before", rate, v.ID, at-last)
					}
					n, last = n+1, at
				}
				c.deliver(got...)
				if limit := 30 * interval; c.passed > limit*time.Duration(i+2) {
					r.Fatalf("%s: %d departed in %v", rate, n, c.passed)
				}
			}
		}
	}},
	{"a client that vouched and left does not hold the clock", func(r *rig) {
		q := r.queue("g.q", "unlimited", leased(time.Minute, 8))
		c := r.steady(q)
		r.accept(q, "a")
		c.ask(q, 9, "a")
		c.passes(time.Hour)
		r.grant(q, 9) // the clock may have been set
		c.passes(3*time.Second + time.Microsecond)
		r.grant(q, 9, "a")
	}},
}

// promises makes promises by the present wall clock and checks that each is kept to the second.
func (c *steadyClient) promises(q string, ask func(most int, want ...string) []queue.Reservation) {
	c.Helper()
	now := c.clock.Now()
	due, name := now.Add(10*time.Minute), fmt.Sprint("j", now)
	a := c.schedule(later(due, q, name))[0]
	if instantOf(a.ETA.At) < due || instantOf(a.ETA.At) > due.Add(time.Hour) {
		c.Errorf("expected at %v, due at %v", a.ETA.At, due.Time())
	}
	dies := expiringJob(due, q, name+"x")
	paused := c.queue("g.paused", "unlimited")
	c.pauses(paused, due, "")
	if got := c.outcome(queue.Accepted, dies); got.ETA.At.After(due.Time()) {
		c.Errorf("expected at %v", got.ETA.At)
	}
	if c.info(q).Now.Sub(now.Time()).Abs() > 0 {
		c.Errorf("it shows %v, the wall clock %v", c.info(q).Now, now.Time())
	}
	c.deliver(ask(9, name+"x")...)
	c.passes(10*time.Minute - time.Second)
	ask(9)
	if p := c.info(paused).Pause; !p.On() {
		c.Error("the pause ended over a second early")
	}
	c.passes(time.Second)
	if p := c.info(paused).Pause; p.On() {
		c.Error("the pause is not over")
	}
	// The first minute of the next hour of the wall clock has its full quota.
	for c.clock.Now()%leaky.Instant(time.Hour.Microseconds()) > leaky.Instant(time.Minute.Microseconds()) {
		c.passes(time.Minute)
	}
	c.deliver(ask(9, name)...)
	c.passes(time.Hour)
	ask(9)
	c.delete(paused)
}
