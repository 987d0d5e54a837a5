package queuetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/quote"
)

// lane returns a queue and one of its lanes.
func (r *rig) lane(queueName, key string) (queue.Info, queue.LaneInfo) {
	r.Helper()
	i, l, err := r.e.Lane(r.ctx, queueName, key)
	if err != nil {
		r.Fatalf("lane %q of %s: %v", key, queueName, err)
	}
	return i, l
}

// lineup returns a queue as forecasts need it.
func (r *rig) lineup(queueName string) queue.Lineup {
	r.Helper()
	l, err := r.e.Lineup(r.ctx, queueName)
	r.check(err)
	return l
}

// quote asks for a quote of n jobs, then offers them, and checks what became of them. If the quote is exact, so must be
// the departures; the scenarios of forecasts check the others.
func (r *rig) quote(queueName, lane string, n int, cost int64) (exact bool) {
	r.Helper()
	i, l := r.lane(queueName, lane)
	lineup := r.lineup(queueName)
	lineup.Asked = lineup.Now // else nothing would ever leave
	q, err := quote.Request{Jobs: int64(n), Cost: cost, Lane: lane}.Quote(&lineup, &l)
	if err != nil {
		r.Fatalf("quote: %v", err)
	}
	r.quotes++
	list := make([]queue.Job, n)
	for k := range list {
		list[k] = jobOfLane(lane, queueName, fmt.Sprintf("quoted%d-%05d", r.quotes, k))
		list[k].Cost = cost
	}
	got := quote.Quote{Paused: i.Pause.On()}
	if got.Now.Exact = q.Now.Exact; !q.Now.Exact {
		got.Now.First, got.Now.Last = q.Now.First, q.Now.Last
	}
	for _, a := range r.offer(list...) {
		switch a.Outcome {
		case queue.Accepted:
			got.Fit++
		case queue.SetAside:
			got.Deferred++
		default:
			got.Refused, got.RefusedAs = got.Refused+1, a.Outcome
			continue
		}
		if !q.Now.Exact {
			continue
		}
		if got.Now.First.IsZero() {
			got.Now.First = a.ETA.At
		}
		got.Now.Last = a.ETA.At
	}
	if a, b := quoted(got), quoted(q); a != b {
		r.Errorf("%d jobs of cost %d, lane %q, into %s:\n  came %s\nquoted %s", n, cost, lane, queueName, a, b)
	}
	return q.Now.Exact
}

func quoted(q quote.Quote) string {
	return fmt.Sprintf(
		"%d %d %d %v, %v to %v, exact %v, paused %v", q.Fit, q.Deferred, q.Refused, q.RefusedAs, instantOf(q.Now.First),
		instantOf(q.Now.Last), q.Now.Exact, q.Paused,
	)
}

var quoteRules = []rule{
	{"a quote comes true", func(r *rig) {
		q := r.queue("q", "10/s", withCapacity(10))
		if !r.quote(q, "", 3, 1) {
			r.Error("a quote of a plain queue is not exact")
		}
		r.quote(q, "", 3, 2)
		r.deliver(r.grant(q, 1, "quoted1-00000")...)
		r.clock.Advance(30 * time.Millisecond)
		r.quote(q, "", 9, 5)
		r.quote(q, "", 1, 1)

		u := r.queue("g.u", "unlimited", withCapacity(3))
		r.quote(u, "", 2, 1)
		r.check(r.e.Pause(r.ctx, u, queue.Pause{Reason: "why not"}))
		r.quote(u, "", 2, 1)
	}},
	{"with lanes", func(r *rig) {
		q := r.putWithLanes(
			"q", "10/s", "k1 k2 x1 x2 x3 y1", withCapacity(60),
			everyLane(queue.LaneRule{Rate: leaky.PerSecond(2), Capacity: 5}),
		)
		r.quote(q, laneX, 1, 1)
		r.quote(q, laneX, 4, 1)
		r.quote(q, "new", 2, 1)
		r.quote(q, "", 20, 1)
		r.deliver(r.grant(q, 1, "k1")...)
		r.clock.Advance(100 * time.Millisecond)
		r.deliver(r.reserve(q, 1)...)
		r.cancels(queue.Cancelled, q, "x1")
		r.quote(q, laneX, 3, 1)
		r.seesLane(q, laneX, queue.LaneInfo{Waiting: 5, Size: 5})
		r.seesLane(q, "nobody", queue.LaneInfo{})
		r.seesLane(q, "", queue.LaneInfo{Waiting: 21})
		r.quote(q, "new", 50, 1)
		r.quote(q, "", 50, 1)
	}},
	{"the cost of what waits counts urgent jobs", func(r *rig) {
		q := r.queue("q", "1/h")
		for n, cost := range []int64{2, 1} { // no job of the lowest priority is behind them
			j := costing(cost, q, fmt.Sprint("u", n))
			j.Priority = 9 - n
			r.acceptJobs(j)
		}
		if l := r.lineup(q); l.Lanes[0].Cost != 3 {
			r.Errorf("the waiting jobs cost %d, want 3", l.Lanes[0].Cost)
		}
	}},
	{"a quote counts the rates of lanes", func(r *rig) {
		q := r.attended("q", "50/s", everyLane(queue.LaneRule{Rate: leaky.PerSecond(2)}))
		r.spread(q, 3000, 200)
		lineup := r.lineup(q)
		answer, err := quote.Request{Jobs: 1, Lane: "lane-0"}.Quote(&lineup, &queue.LaneInfo{})
		r.check(err)
		last := r.job(q, "l0-2999").ETA.At // of the deeper lane
		if d := answer.Now.Drained.Sub(last).Abs(); d > 15*time.Second ||
			answer.Now.Drained.Sub(lineup.Now) < 1485*time.Second {
			r.Errorf("drained at %v, but the last job leaves at %v", answer.Now.Drained, last)
		}
		if d := answer.Now.First.Sub(answer.Now.Drained); d < 0 || d > time.Second {
			r.Errorf("a job behind the last one would leave %v after it", d)
		}
	}},
	{"a quote of deferrable jobs comes true", func(r *rig) {
		s := r.overflowOf("q", "10/s", withCapacity(4), lowWater(0.5), func(s *queue.Spec) { s.Deferred.MaxJobs = 5 })
		r.quote(s.q, "", 6, 2)
		r.quote(s.q, "", 2, 3)
		r.quote(s.q, "", 2, 1)
		if i := r.info(s.q); i.Ahead != 8 || i.DeferredCost != 11 {
			r.Errorf("ahead %d, deferred cost %d", i.Ahead, i.DeferredCost)
		}
	}},
	{"a quote of jobs that may not wait, beside returning jobs, comes true", func(r *rig) {
		s := r.overflowOf("q", "10/s", withCapacity(10), lowWater(0.5))
		s.full("a", "b", "c", "d", "e", "f", "g", "h")
		r.drain(s.q)
		s.takes(readmit.Returned, readmit.Returned, readmit.Returned)
		if i := r.info(s.q); i.Back != 3 || i.Waiting != 3 || i.Deferred != 5 {
			r.Errorf("%d back, %d waiting, %d deferred", i.Back, i.Waiting, i.Deferred)
		}
		r.put(spec(s.q, "10/s", withCapacity(10), lowWater(0.5)))
		r.quote(s.q, "", 9, 1)
	}},
	{"a quote in a group, and with limits, comes true", func(r *rig) {
		quota := func(n int64) queue.Limit { return queue.Limit{Quota: queue.Quota{Max: n, Per: "m"}} }
		g := r.queue("g", "20/s", func(s *queue.Spec) { s.Limits = []queue.Limit{quota(30)} })
		a := r.overflowOf(
			"g.a", "unlimited", withCapacity(5),
			func(s *queue.Spec) { s.Limits = []queue.Limit{quota(15), {Rate: leaky.PerSecond(10)}} },
		).q
		b := r.overflowOf("g.b", "5/s", withCapacity(5)).q
		for n := range 12 {
			q := []string{a, b, g}[n%3]
			r.quote(q, "", 1+n%4, int64(1+n%2))
			for _, v := range r.reserve(g, 2) {
				r.deliver(v)
			}
			r.clock.Advance(70 * time.Millisecond)
		}
		if r.info(a).Deferred == 0 {
			r.Error("nothing was deferred")
		}
	}},
	{"a quote of another rate comes true after a Put", func(r *rig) {
		for n, tt := range []struct{ from, to string }{
			{"10/s", "3/s"}, {"1/s", "14/s"}, {"unlimited", "7/m"}, {"10/s", "unlimited"},
		} {
			q := r.queue(fmt.Sprint("g.q", n), tt.from)
			r.accept(q, numbered("j", 20)...)
			r.deliver(r.grant(q, 1, "j00001")...)
			r.clock.Advance(70 * time.Millisecond)
			to := rateOf(r, tt.to)
			lineup := r.lineup(q)
			answer, err := quote.Request{Rate: &to}.Quote(&lineup, &queue.LaneInfo{})
			r.check(err)
			r.isAt(answer.Now.Drained, r.job(q, "j00020").ETA.At)
			r.queue(q, tt.to)
			r.isAt(answer.Then.Drained, r.job(q, "j00020").ETA.At)
			r.delete(q)
		}
	}},
	{"as many jobs expire as quoted", func(r *rig) {
		rnd := rand.New(rand.NewPCG(2026, 17))
		for n, tt := range []struct {
			rate, other string
			burst, cost int64
		}{
			{"10/s", "", 1, 1},
			{"14/s", "5/s", 1, 1},
			{"3/s", "14/s", 4, 5},
			{"7/m", "1/s", 3, 2},
			{"100/s", "unlimited", 1, 3},
			{"unlimited", "9/s", 1, 1},
		} {
			q := r.queue(fmt.Sprint("g.q", n), tt.rate, func(s *queue.Spec) { s.Burst = tt.burst })
			r.accept(q, "first")
			r.deliver(r.grant(q, 1, "first")...)
			r.clock.Advance(7 * time.Millisecond)
			s := r.info(q).Spec
			all := max(s.Rate.Interval(), 50*time.Millisecond) * 300 * time.Duration(1+tt.cost) / 2
			var list []queue.Job
			for _, id := range numbered("j", 300) {
				j := costing(1+rnd.Int64N(tt.cost), q, id)
				j.Priority = rnd.IntN(2)
				if rnd.IntN(4) > 0 {
					j.ExpiresAt = r.clock.Now().Add(1 + time.Duration(rnd.Int64N(int64(all)))).Time()
				}
				list = append(list, j)
			}
			r.late(q, list...)
			now, then := r.expiring(q, tt.other)
			want := now
			if tt.other != "" {
				want = then
				s.Rate = rateOf(r, tt.other)
				r.put(s)
			}
			if !want.Exact || want.AtLeast {
				r.Errorf("%s: %+v", tt.rate, want)
			}
			r.drain(q)
			if i := r.info(q); i.TimedOut != want.Jobs ||
				want.Jobs == 0 && tt.rate != "unlimited" && tt.other != "unlimited" {
				r.Errorf("%s, then %q: %d of 300 expired, quoted %+v", tt.rate, tt.other, i.TimedOut, want)
			}
		}
	}},
	{"with lanes, about as many jobs expire as quoted", func(r *rig) {
		q := r.queue("q", "10/s", everyLane(queue.LaneRule{Rate: leaky.PerSecond(2)}))
		var list []queue.Job
		for i := range 400 {
			j := jobOfLane([]string{"", "a", "b", "b", "b", "c"}[i%6], q, fmt.Sprintf("j%04d", i))
			j.ExpiresAt = r.clock.Now().Add(time.Duration(1+i*37%60) * time.Second).Time()
			list = append(list, j)
		}
		r.late(q, list...)
		expected, _ := r.expiring(q, "")
		r.drain(q)
		if i := r.info(q); expected.Exact || expected.AtLeast || i.TimedOut < 50 ||
			expected.Jobs < i.TimedOut*9/10 || expected.Jobs > i.TimedOut*11/10 {
			r.Errorf("%d of 400 expired, quoted %+v", i.TimedOut, expected)
		}
	}},
	{"a quote is exact only if nothing but the pace decides it", func(r *rig) {
		exact := func(q string, want bool) {
			r.Helper()
			if expected, _ := r.expiring(q, ""); expected.Exact != want || expected.Jobs != 0 || expected.AtLeast {
				r.Errorf("%s: %+v", q, expected)
			}
		}
		at := r.clock.Now().Add(time.Hour)
		q := r.queue("q", "1/s")
		exact(q, true)
		r.acceptJobs(expiringJob(at, q, "a"), expiringJob(at, q, "b"), withPriority(5, "", q, "c"))
		exact(q, true)
		r.grant(q, 1, "c")
		exact(q, false)
		for name, change := range map[string]func(*queue.Spec){
			"ordered": func(s *queue.Spec) { s.Ordered = true },
			"flight":  func(s *queue.Spec) { s.MaxInFlight = 5 },
		} {
			o := r.queue("g."+name, "1/s", change)
			r.accept(o, "a")
			exact(o, true) // nothing can expire
			r.acceptJobs(expiringJob(at, o, "b"))
			exact(o, false)
		}
		l := r.queue("lanes", "1/s")
		r.acceptJobs(expiringJob(at, l, "a"))
		exact(l, true)
		r.acceptJobs(jobOfLane("x", l, "b"))
		exact(l, false)
		s := r.queue("sched", "1/s")
		r.acceptJobs(expiringJob(at, s, "a"))
		r.schedule(later(at, s, "b"))
		exact(s, false)
	}},
	{"an unknown queue and an invalid lane get no quote", func(r *rig) {
		q := r.queue("q", "10/s")
		for _, name := range []string{"nobody", "", "A B"} {
			_, _, err := r.e.Lane(r.ctx, name, "")
			r.refuses(err, queue.ErrUnknownQueue)
		}
		var field *invalid.Error
		if _, _, err := r.e.Lane(r.ctx, q, "\xff"); !errors.As(err, &field) || field.Field != "lane" {
			r.Errorf("a key that is not text: %v", err)
		}
	}},
}

// expiring asks how many jobs would expire, now and at another rate.
func (r *rig) expiring(queueName, other string) (now, then quote.Expiring) {
	r.Helper()
	i := r.info(queueName)
	b, err := quote.ReadBacklog(r.ctx, r.e, queueName)
	r.check(err)
	ask := quote.Request{}
	if other != "" {
		rate := rateOf(r, other)
		ask.Rate = &rate
	}
	now, then, err = ask.Expiring(&i, &b)
	r.check(err)
	return now, then
}

func rateOf(r *rig, text string) leaky.Rate {
	r.Helper()
	rate, err := leaky.ParseRate(text)
	r.check(err)
	return rate
}

// seesLane compares the state of a lane, except for its buckets.
func (r *rig) seesLane(queueName, key string, want queue.LaneInfo) {
	r.Helper()
	_, got := r.lane(queueName, key)
	got.Bucket, got.Limits = want.Bucket, want.Limits
	if want.Size > 0 && want.Bytes == 0 {
		got.Bytes = 0
	}
	if !reflect.DeepEqual(got, want) {
		r.Errorf("lane %q: %+v, want %+v", key, got, want)
	}
}

func (r *rig) isAt(got, want time.Time) {
	r.Helper()
	if !got.Equal(want) {
		r.Errorf("at %v, want %v", got, want)
	}
}
