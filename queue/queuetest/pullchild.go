package queuetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// asker is a client that asks when it was told to: a drainer or, with the name of a queue, a puller.
type asker struct {
	pulls  string
	most   int            // jobs per request; queue.MaxReserve by default
	shares map[string]int // of a drainer
	asks   leaky.Instant
	got    map[string]int // by queue
	starts []law.Start
}

// together lets clients ask for a while in small steps, each when it was told to.
func (r *rig) together(span time.Duration, clients ...*asker) {
	r.Helper()
	for end := r.clock.Now().Add(span); r.clock.Now() < end; r.clock.Advance(time.Millisecond) {
		for n, c := range clients {
			if r.clock.Now() >= c.asks {
				c.asks = r.clock.Now().Add(max(time.Millisecond, r.once(n, c)))
			}
		}
	}
}

// once lets a client ask, and returns when it should ask again.
func (r *rig) once(n int, c *asker) time.Duration {
	r.Helper()
	if c.most == 0 {
		c.most = queue.MaxReserve
	}
	req := r.request(fmt.Sprint("drainer", n), "ses", c.most)
	req.Shares = c.shares
	if c.pulls != "" {
		req = r.pulling(fmt.Sprint("puller", n), c.pulls, c.most)
	}
	res := r.do(req)
	if c.got == nil {
		c.got = map[string]int{}
	}
	for _, v := range res.Jobs {
		if (v.Queue == c.pulls) != (c.pulls != "") || r.info(v.Queue).Spec.Pull != (c.pulls != "") {
			r.Errorf("a client that pulls %q got %s of %s", c.pulls, v.ID, v.Queue)
		}
		c.got[v.Queue]++
		c.starts = append(c.starts, law.Start{At: time.Duration(r.departure(v)) * time.Microsecond, Cost: v.Cost})
	}
	r.deliver(res.Jobs...)
	return res.Next
}

func (c *asker) total() (n int) {
	for _, jobs := range c.got {
		n += jobs
	}
	return n
}

// family makes the parent ses with a pull child ses.a and ordinary children, and fills all children.
func (r *rig) family(rate string, jobs int, others ...string) {
	r.Helper()
	r.queue("ses", rate)
	r.queue("ses.a", "unlimited", pulled)
	r.accept("ses.a", numbered("a", jobs)...)
	for _, other := range others {
		r.queue("ses."+other, "unlimited")
		r.accept("ses."+other, numbered(other, jobs)...)
	}
}

// within fails unless a count is near what it should be.
func (r *rig) within(what string, got, want, by int) {
	r.Helper()
	if got < want-by || got > want+by {
		r.Errorf("%s: %d, want %d, give or take %d", what, got, want, by)
	}
}

// evenly fails unless the gaps between departures are all the interval.
func (r *rig) evenly(interval time.Duration, starts []law.Start) {
	r.Helper()
	for n := 1; n < len(starts); n++ {
		if gap := starts[n].At - starts[n-1].At; gap < interval-rounding || gap > interval+rounding {
			r.Errorf("%v between departures %d and %d, want %v", gap, n-1, n, interval)
		}
	}
}

var pullChildRules = []rule{
	{"clients of a pull child get only its jobs, and drainers all others", func(r *rig) {
		r.family("unlimited", 0, "b")
		r.appendGroup("p1 a1 b1 a2")
		r.sameIDs(r.reserve("ses", 9), "p1", "b1")
		r.grant("ses", 9)
		r.waitsFor(causeOnly(cause.Puller), "ses.a", "a1", "a2")
		r.pull("puller", "ses.a", 9, "a1", "a2")
		r.pull("puller", "ses.a", 9)
	}},
	{"both are paced by the parent's bucket, and take turns", func(r *rig) {
		for _, rate := range []string{"2/s", "14/s", "100/s", "1000/s"} {
			r.family(rate, 3000, "b")
			d, p := &asker{}, &asker{pulls: "ses.a"}
			r.together(2*time.Second, d, p)
			starts := slices.Concat(d.starts, p.starts)
			of := r.info("ses").Spec.Rate
			r.lawful("ses", law.Law{Rate: of, Burst: 1, MaxCost: 1, Slack: rounding}, starts)
			n, per := of.Fraction()
			all := int(2e6 * n / per)
			r.within(rate+": all departures", len(starts), all, 1+int(50e3*n/per))
			r.within(rate+": the pull child's", p.total(), all/2, 1+int(50e3*n/per))
			r.clear("abp")
		}
	}},
	{"so do several pull children", func(r *rig) {
		r.family("20/s", 100, "b", "c")
		r.queue("ses.d", "unlimited", pulled)
		r.accept("ses.d", numbered("d", 100)...)
		d, a, e := &asker{}, &asker{pulls: "ses.a"}, &asker{pulls: "ses.d"}
		r.together(4*time.Second, d, a, e)
		r.within("ses.a", a.total(), 20, 1)
		r.within("ses.d", e.total(), 20, 1)
		r.within("ses.b", d.got["ses.b"], 20, 1)
		r.within("ses.c", d.got["ses.c"], 20, 1)
		starts := slices.Concat(d.starts, a.starts, e.starts)
		slices.SortFunc(starts, func(a, b law.Start) int { return int(a.At - b.At) })
		r.evenly(50*time.Millisecond, starts)
	}},
	{"a pull child whose clients do not ask holds up no sibling, and saves up nothing", func(r *rig) {
		r.family("10/s", 100, "b")
		d, p := &asker{}, &asker{pulls: "ses.a"}
		r.together(3*time.Second, d)
		r.within("ses.b alone", d.total(), 30, 1)
		r.evenly(100*time.Millisecond, d.starts)
		d.got, d.starts = nil, nil
		r.together(2*time.Second, d, p)
		r.within("ses.b", d.total(), 10, 1)
		r.within("ses.a", p.total(), 10, 1)
	}},
	{"a client that stops asking costs no slot", func(r *rig) {
		r.family("10/s", 100, "b")
		d, p := &asker{}, &asker{pulls: "ses.a", most: 1}
		for range 5 {
			r.together(450*time.Millisecond, d, p) // it leaves while its child has a claim, or after a job
			r.together(550*time.Millisecond, d)
			p.asks = 0
		}
		starts := slices.Concat(d.starts, p.starts)
		slices.SortFunc(starts, func(a, b law.Start) int { return int(a.At - b.At) })
		r.evenly(100*time.Millisecond, starts)
		r.within("all", len(starts), 50, 1)
	}},
	{"nor does a group without drainers, whose other members save up nothing either", func(r *rig) {
		r.family("10/s", 100, "b")
		d, p := &asker{}, &asker{pulls: "ses.a"}
		r.together(time.Second, d, p)
		p.starts = nil
		r.together(3*time.Second, p)
		r.evenlyFrom(p.starts, 2, 100*time.Millisecond) // the first may wait for the drainer
		r.within("ses.a alone", len(p.starts), 30, 1)
		d.asks, d.got, p.got = 0, nil, nil
		r.together(2*time.Second, d, p)
		r.within("ses.b", d.total(), 10, 1)
		r.within("ses.a", p.total(), 10, 1)
	}},
	{"nor do siblings of which the drainers have their share", func(r *rig) {
		r.family("10/s", 100, "b")
		d, p := &asker{shares: map[string]int{"ses.b": 0}}, &asker{pulls: "ses.a"}
		r.together(3*time.Second, d, p)
		r.within("ses.a", p.total(), 30, 1)
		r.evenly(100*time.Millisecond, p.starts)
		d.shares, d.asks, p.got = nil, 0, nil
		r.together(2*time.Second, d, p)
		r.within("ses.b", d.total(), 10, 1)
		r.within("ses.a", p.total(), 10, 1)
	}},
	{"a pull child's own rate holds too, and its unused turns go to siblings", func(r *rig) {
		r.family("10/s", 100, "b")
		r.queue("ses.a", "2/s", pulled)
		d, p := &asker{}, &asker{pulls: "ses.a"}
		r.together(4*time.Second, d, p)
		r.within("ses.a", p.total(), 8, 1)
		r.within("ses.b", d.total(), 32, 2)
		r.lawful("ses.a", law.Law{Rate: r.info("ses.a").Spec.Rate, Burst: 1, MaxCost: 1, Slack: rounding}, p.starts)
	}},
	{"a client that waits for its turn is told when to ask again", func(r *rig) {
		r.family("1/s", 9, "b")
		r.grant("ses", 1, "b00001")
		if res := r.pull("puller", "ses.a", 9); res.Next != 975*time.Millisecond {
			r.Errorf("next in %v, want 975ms", res.Next)
		}
		r.clock.Advance(975 * time.Millisecond)
		if res := r.reserveAs("client", "ses", 9); len(res.Jobs) > 0 || res.Next != 12500*time.Microsecond {
			r.Errorf("it is the turn of ses.a: %v, next in %v, want 12.5ms", ids(res.Jobs), res.Next)
		}
		r.pull("puller", "ses.a", 1, "a00001")
		r.clock.Advance(12500 * time.Microsecond)
		if res := r.reserveAs("client", "ses", 9); len(res.Jobs) > 0 || res.Next != 987500*time.Microsecond {
			r.Errorf("%v, next in %v, want 987.5ms", ids(res.Jobs), res.Next)
		}
		r.clock.Advance(987500 * time.Microsecond)
		r.grant("ses", 9, "b00002")
	}},
	{"what a client leaves to others it takes if nobody comes for it", func(r *rig) {
		r.family("1/s", 9, "b")
		r.grant("ses", 1, "b00001")
		r.pull("puller", "ses.a", 9)
		r.clock.Advance(975 * time.Millisecond)
		r.grant("ses", 9)
		r.clock.Advance(12500 * time.Microsecond)
		if v := r.grant("ses", 9, "b00002")[0]; v.In != 12500*time.Microsecond {
			r.Errorf("in %v", v.In)
		}
	}},
	{"a change of the parent wakes the clients of its pull children", func(r *rig) {
		r.family("1/h", 300, "b")
		r.grant("ses", 1, "b00001")
		r.awaitQueueWake("ses.a", func(int) {
			r.queue("ses", "1/h")
			r.deliver(r.do(r.pulling("one", "ses.a", 9)).Jobs...)
			r.queue("ses", "100/s")
		})
		r.awaitQueueWake("ses.a", func(int) {
			r.check(r.e.Pause(r.ctx, "ses", queue.Pause{}))
			r.pull("one", "ses.a", 9)
			r.check(r.e.Resume(r.ctx, "ses"))
		})
	}},
	{"an append to a pull child wakes its clients, and no drainer", func(r *rig) {
		r.family("unlimited", 0, "b")
		r.awaitQueueWake("ses.a", func(i int) {
			r.deliver(r.do(r.pulling("one", "ses.a", 9)).Jobs...)
			r.accept("ses.a", fmt.Sprint("j", i))
		})
	}},
	{"a paused parent lets out no jobs of a pull child, whose clients learn when it resumes", func(r *rig) {
		r.family("unlimited", 2, "b")
		r.check(r.e.Pause(r.ctx, "ses", queue.Pause{Until: r.clock.Now().Add(time.Second).Time()}))
		if res := r.pull("one", "ses.a", 9); res.Next != time.Second {
			r.Errorf("next in %v, want 1s", res.Next)
		}
		r.clock.Advance(time.Second)
		r.pull("one", "ses.a", 9, "a00001", "a00002")
		r.grant("ses", 9, "b00001", "b00002")
	}},
	{"a lease of a pull child that runs out is taken back by any client", func(r *rig) {
		r.queue("ses", "unlimited")
		r.queue("ses.a", "unlimited", pulled, leased(time.Second, 1000))
		r.queue("ses.b", "unlimited")
		r.appendGroup("a1")
		r.pull("one", "ses.a", 9, "a1")
		r.awaitQueueWake("ses.a", func(int) {
			r.clock.Advance(time.Second - time.Microsecond)
			r.do(r.pulling("two", "ses.a", 9))
			r.clock.Advance(time.Microsecond)
			r.grant("ses", 9)
			r.clock.Advance(2 * time.Second)
			r.do(r.pulling("one", "ses.a", 9))
		})
	}},
	{"a child can become a pull queue and stop being one", func(r *rig) {
		r.queue("ses", "10/s")
		r.queue("ses.a", "unlimited")
		r.queue("ses.b", "unlimited")
		r.appendGroup("a1 a2 a3 b1 b2 b3")
		r.grant("ses", 9, "a1")
		r.queue("ses.a", "unlimited", pulled)
		if g := r.info("ses").Group; g.Waiting != 3 || g.Members != 1 || g.Children != 2 {
			r.Errorf("with a pull child: %+v", g)
		}
		r.clock.Advance(100 * time.Millisecond)
		r.grant("ses", 9, "b1")
		r.clock.Advance(100 * time.Millisecond)
		r.pull("one", "ses.a", 9, "a2")
		r.queue("ses.a", "unlimited")
		if g := r.info("ses").Group; g.Waiting != 3 || g.Members != 2 {
			r.Errorf("with an ordinary child again: %+v", g)
		}
		_ = r.refused("ses.a")
		var rest []queue.Reservation
		for range 6 {
			r.clock.Advance(100 * time.Millisecond)
			rest = append(rest, r.reserve("ses", 9)...)
		}
		r.sameIDs(rest, "b2", "a3", "b3")
	}},
	{"a parent that is made later paces pull queues that exist", func(r *rig) {
		r.queue("ses.a", "unlimited", pulled)
		r.queue("ses.b", "unlimited")
		r.accept("ses.a", numbered("a", 30)...)
		r.accept("ses.b", numbered("b", 30)...)
		r.queue("ses", "10/s")
		d, p := &asker{}, &asker{pulls: "ses.a"}
		r.together(2*time.Second, d, p)
		r.within("ses.a", p.total(), 10, 1)
		r.within("ses.b", d.total(), 10, 1)
		r.check(r.e.Delete(r.ctx, "ses.b", queue.AnyRevision, true))
		r.check(r.e.Delete(r.ctx, "ses.a", queue.AnyRevision, true))
		r.queue("ses.a", "unlimited", pulled)
		r.accept("ses.a", "again")
		r.clock.Advance(time.Second)
		r.pull("one", "ses.a", 9, "again")
	}},
	{"a departure that a client gives back is there for siblings", func(r *rig) {
		r.family("1/s", 2, "b")
		r.release(r.pull("one", "ses.a", 1, "a00001").Jobs...)
		if v := r.grant("ses", 9, "b00001")[0]; v.In != 0 {
			r.Errorf("in %v", v.In)
		}
	}},
	{"forecasts count a pull sibling only while its clients wait", func(r *rig) {
		r.family("10/s", 50, "b")
		r.grant("ses", 1, "b00001")
		if l := r.lineup("ses.b"); len(l.Siblings) != 0 {
			r.Errorf("without clients: %+v", l.Siblings)
		}
		if j := r.job("ses.b", "b00050"); j.ETA.At.Sub(r.clock.Now().Time()) > 6*time.Second {
			r.Errorf("an ETA of %v counts jobs of which none may leave", j.ETA)
		}
		r.pull("one", "ses.a", 9)
		if l := r.lineup("ses.b"); len(l.Siblings) != 1 || l.Siblings[0].Waiting != 50 {
			r.Errorf("with clients: %+v", l.Siblings)
		}
		if l := r.lineup("ses.a"); len(l.Siblings) != 1 || l.Siblings[0].Waiting != 49 {
			r.Errorf("of the pull child: %+v", l.Siblings)
		}
		r.clock.Advance(time.Minute)
		if l := r.lineup("ses.b"); len(l.Siblings) != 0 {
			r.Errorf("after they have left: %+v", l.Siblings)
		}
	}},
}

// evenlyFrom is evenly from a departure on.
func (r *rig) evenlyFrom(starts []law.Start, first int, interval time.Duration) {
	r.Helper()
	r.evenly(interval, starts[min(first, len(starts)):])
}
