package queuetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/quote"
)

// Rules of adaptive rates. The expected values come from leaky.Adapt, which is given the same answers as the engine.
var adaptRules = []rule{
	{"the adaptive rate starts at the configured rate", func(r *rig) {
		for _, rate := range []string{"10/s", "unlimited"} {
			q := r.queue("q", rate)
			if i := r.info(q); i.Rate != i.Spec.Rate || i.RateChanges != nil {
				r.Fatalf("%s has the rate %s and the changes %v", rate, i.Rate, i.RateChanges)
			}
		}
		q := r.queue("q", "10/s", adapting("2/s", "20/s"))
		if i := r.info(q); i.Rate != leaky.PerSecond(10) || i.RateChanges != nil {
			r.Fatalf("it begins with %s and %v", i.Rate, i.RateChanges)
		}
	}},
	{"throttling lowers the rate", func(r *rig) {
		a := newAdaptive(r, "10/s", "2/s", "20/s")
		a.answer(queue.Throttle, "slow down", a.leave())
		i := r.info(a.q)
		want := []queue.RateChange{{
			At: r.clock.Now().Time(), From: leaky.PerSecond(10), To: a.state.Rate, Cause: queue.AdaptedThrottled,
			Reason: "slow down",
		}}
		if a.state.Rate.PerSecond() != 7.5 || !slices.EqualFunc(i.RateChanges, want, sameRateChange) {
			r.Fatalf("it has %s and %+v", i.Rate, i.RateChanges)
		}
		// The new pace applies: T is 133,333 us and a third.
		first, second := a.leave(), a.leave()
		if gap := a.due[second.ID] - a.due[first.ID]; gap != 133_333 && gap != 133_334 {
			r.Fatalf("the next departure is %d us behind the first", gap)
		}
	}},
	{"a slot is given back before its call changes the rate", func(r *rig) {
		for _, turned := range []bool{false, true} {
			q := r.queue("q", "10/s", adapting("2/s", "20/s"), func(s *queue.Spec) { s.Burst = 4 })
			r.accept(q, numbered("j", 3)...)
			sent, unused := r.reserveAs("client", q, 1).Jobs[0], r.reserveAs("client", q, 1).Jobs[0]
			i := r.info(q)
			pacer, want := i.Spec.Pacer(queue.Horizon), i.Bucket
			settled := []queue.Settlement{settlement(queue.Throttle, sent), settlement(queue.Release, unused)}
			if turned {
				slices.Reverse(settled)
			}
			r.settle(settled...)
			// The slot comes back before the rate changes, whatever the order of the settlements.
			pacer.GiveBack(&want)
			slower := pacer
			slower.Rate = r.info(q).Rate
			want = pacer.Change(want, slower, r.clock.Now())
			if got := r.info(q).Bucket; slower == pacer || got != want {
				r.Errorf("at %v the bucket is %+v, want %+v", slower.Rate, got, want)
			}
			r.delete(q)
		}
	}},
	{"a success raises the rate even when its call gives a slot back", func(r *rig) {
		for _, turned := range []bool{false, true} {
			q := r.queue("q", "10/s", adapting("2/s", "20/s"), func(s *queue.Spec) { s.Burst = 2 })
			r.accept(q, numbered("j", 3)...)
			sent, unused := r.reserveAs("client", q, 1).Jobs[0], r.reserveAs("client", q, 1).Jobs[0]
			settled := []queue.Settlement{settlement(queue.Deliver, sent), settlement(queue.Release, unused)}
			if turned {
				slices.Reverse(settled)
			}
			r.settle(settled...)
			// The rate held the third job up when the call arrived, whatever the order of the settlements.
			if i := r.info(q); i.Rate.PerSecond() <= 10 {
				r.Errorf("released first %t: it is %s", turned, i.Rate)
			}
			r.delete(q)
			r.clock.Advance(time.Second)
		}
	}},
	{"a success raises the parent's rate even when its call gives a child's slot back", func(r *rig) {
		for _, turned := range []bool{false, true} {
			parent := r.queue("ses", "10/s", adapting("2/s", "20/s"), func(s *queue.Spec) { s.Burst = 2 })
			child := r.queue("ses.a", "unlimited")
			r.accept(parent, "sent")
			sent := r.grant(parent, 1, "sent")[0]
			r.accept(child, "unused")
			unused := r.grant(parent, 1, "unused")[0]
			r.accept(parent, "waits")
			settled := []queue.Settlement{settlement(queue.Deliver, sent), settlement(queue.Release, unused)}
			if turned {
				slices.Reverse(settled)
			}
			r.settle(settled...)
			if i := r.info(parent); i.Rate.PerSecond() <= 10 {
				r.Errorf("released first %t: it is %s", turned, i.Rate)
			}
			r.delete(child)
			r.delete(parent)
			r.clock.Advance(time.Second)
		}
	}},
	{"answers to jobs granted before a decrease do not lower the rate again", func(r *rig) {
		a := newAdaptive(r, "10/s", "1/s", "20/s")
		var sent []queue.Reservation
		for range 4 {
			sent = append(sent, a.leave())
		}
		for _, v := range sent {
			a.answer(queue.Throttle, "no", v)
		}
		if got := r.info(a.q).Rate.PerSecond(); got != 7.5 {
			r.Fatalf("four answers to jobs granted earlier lowered it to %v/s", got)
		}
		r.clock.Advance(time.Second)
		a.answer(queue.Throttle, "no", a.leave())
		if got := r.info(a.q).Rate.PerSecond(); got != 3.75 {
			r.Fatalf("the answer to a later departure left %v/s", got)
		}
	}},
	{"successes raise the rate again", func(r *rig) {
		a := newAdaptive(r, "10/s", "2/s", "20/s")
		a.goWell(30 * time.Second)
		i := r.info(a.q)
		if i.Rate.PerSecond() < 11 || len(i.RateChanges) != 1 {
			r.Fatalf("after 30 s it is %s: %+v", i.Rate, i.RateChanges)
		}
		if n := i.RateChanges[0]; n.From != leaky.PerSecond(10) || n.To != i.Rate || n.Cause != queue.AdaptedDelivered {
			r.Fatalf("%+v", n)
		}
	}},
	{"the rate is raised only while it holds jobs up", func(r *rig) {
		q := r.queue("q", "10/s", adapting("2/s", "20/s"))
		for _, id := range numbered("j", 5) {
			r.accept(q, id)
			v := r.grant(q, 1, id)
			r.deliver(v...)
			r.clock.Advance(2 * time.Second)
		}
		if i := r.info(q); i.Rate != leaky.PerSecond(10) {
			r.Fatalf("it was raised to %s while nothing was held up", i.Rate)
		}
		// Nor is it raised while something else holds up the waiting jobs.
		r.accept(q, "a", "b", "c")
		v := r.grant(q, 1, "a")
		r.clock.Advance(2 * time.Second)
		r.deliver(v...)
		if i := r.info(q); i.Rate != leaky.PerSecond(10) {
			r.Fatalf("it was raised to %s while jobs waited for a drainer", i.Rate)
		}
		r.drain(q)
	}},
	{"an answer about a lane does not change the rate", func(r *rig) {
		a := newAdaptive(r, "10/s", "2/s", "20/s")
		j := job(a.q, "in-a-lane")
		j.Lane, j.Priority = "lane", queue.MaxPriority
		r.acceptJobs(j)
		v := a.leave()
		for v.ID != j.ID {
			v = a.leave()
		}
		s := settlement(queue.Throttle, v)
		s.LaneOnly = true
		if got := r.settle(s)[0]; got.Effect.From != got.Effect.To || r.info(a.q).Rate != leaky.PerSecond(10) {
			r.Fatalf("an answer about a lane changed the rate: %+v", got)
		}
	}},
	{"the rate stays within its bounds", func(r *rig) {
		a := newAdaptive(r, "10/s", "9/s", "11/s")
		for range 3 {
			r.clock.Advance(time.Second)
			a.answer(queue.Throttle, "no", a.leave())
		}
		if got := r.info(a.q).Rate; got != leaky.PerSecond(9) {
			r.Fatalf("lowered to %s", got)
		}
		a.goWell(time.Minute)
		if i := r.info(a.q); i.Rate != leaky.PerSecond(11) || len(i.RateChanges) != 2 {
			r.Fatalf("raised to %s: %+v", i.Rate, i.RateChanges)
		}
	}},
	{"only the latest changes of the rate are kept", func(r *rig) {
		a := newAdaptive(r, "10/s", "1/m", "20/s")
		for k := range 2 * queue.MaxRateChanges {
			r.clock.Advance(2 * time.Second)
			a.answer(queue.Throttle, fmt.Sprint("no ", k), a.leave())
			a.goWell(3 * time.Second)
			r.accept(a.q, numbered(fmt.Sprint("more", k, "-"), 20)...)
		}
		if i := r.info(a.q); len(i.RateChanges) != queue.MaxRateChanges || i.RateChanges[0].To != i.Rate {
			r.Fatalf("%d changes are kept: %+v", len(i.RateChanges), i.RateChanges)
		}
	}},
	{"putting other fields keeps the adaptive rate", func(r *rig) {
		a := newAdaptive(r, "10/s", "2/s", "20/s")
		a.answer(queue.Throttle, "no", a.leave())
		r.queue(a.q, "10/s", adapting("2/s", "20/s"), func(s *queue.Spec) { s.Capacity = 77 })
		if i := r.info(a.q); i.Rate != a.state.Rate || len(i.RateChanges) != 1 {
			r.Fatalf("a Put of another capacity left %s, %+v", i.Rate, i.RateChanges)
		}
	}},
	{"putting other bounds returns to the configured rate", func(r *rig) {
		a := newAdaptive(r, "10/s", "2/s", "20/s")
		a.answer(queue.Throttle, "no", a.leave())
		before := a.state.Rate
		r.queue(a.q, "10/s", adapting("2/s", "30/s"))
		i := r.info(a.q)
		want := queue.RateChange{At: r.clock.Now().Time(), From: before, To: leaky.PerSecond(10), Cause: queue.AdaptedPut}
		if i.Rate != leaky.PerSecond(10) || len(i.RateChanges) != 2 || !sameRateChange(i.RateChanges[0], want) {
			r.Fatalf("it goes on with %s, %+v", i.Rate, i.RateChanges)
		}
		r.queue(a.q, "10/s")
		if i := r.info(a.q); i.Rate != leaky.PerSecond(10) || i.RateChanges != nil {
			r.Fatalf("without adapt it has %s, %+v", i.Rate, i.RateChanges)
		}
	}},
	{"putting another rate starts at that rate", func(r *rig) {
		a := newAdaptive(r, "10/s", "2/s", "20/s")
		a.answer(queue.Throttle, "no", a.leave())
		r.queue(a.q, "12/s", adapting("2/s", "20/s"))
		if i := r.info(a.q); i.Rate != leaky.PerSecond(12) {
			r.Fatalf("it goes on with %s", i.Rate)
		}
	}},
	{"a queue made again starts at the configured rate", func(r *rig) {
		a := newAdaptive(r, "10/s", "2/s", "20/s")
		a.answer(queue.Throttle, "no", a.leave())
		r.check(r.e.Delete(r.ctx, a.q, queue.AnyRevision, true))
		r.queue(a.q, "10/s", adapting("2/s", "20/s"))
		if i := r.info(a.q); i.Rate != leaky.PerSecond(10) || i.RateChanges != nil {
			r.Fatalf("made again it has %s, %+v", i.Rate, i.RateChanges)
		}
	}},
	{"the eta counts the adaptive rate", func(r *rig) {
		q := r.queue("q", "10/s", adapting("1/s", "20/s"))
		r.accept(q, numbered("j", 9)...)
		v := r.grant(q, 1, "j00001")
		s := settlement(queue.Throttle, v[0])
		r.settled(queue.Waiting, s)
		i := r.info(q)
		pacer := i.Spec.Pacer(queue.Horizon)
		pacer.Rate = i.Rate
		want := pacer.ETA(i.Bucket, instantOf(i.Now), 8)
		if got := instantOf(r.job(q, "j00009").ETA.At); got != want || i.Rate == i.Spec.Rate {
			r.Fatalf(
				"the last of 9 at %s leaves in %d us, want %d", i.Rate, got-instantOf(i.Now), want-instantOf(i.Now),
			)
		}
		lineup := r.lineup(q)
		answer, err := quote.Request{Jobs: 1}.Quote(&lineup, &queue.LaneInfo{Waiting: 9})
		if err != nil || answer.Now.Rate != i.Rate ||
			instantOf(answer.Now.First) != pacer.ETA(i.Bucket, instantOf(i.Now), 9) {
			r.Fatalf("quoted %+v, %v", answer.Now, err)
		}
	}},
	{"a child's answer does not change its parent's rate", func(r *rig) {
		parent := r.queue("q", "100/s")
		a := newAdaptive(r, "10/s", "2/s", "20/s")
		a.answer(queue.Throttle, "no", a.leave())
		if i := r.info(parent); i.Rate != leaky.PerSecond(100) {
			r.Fatalf("a child's answer changed its parent's rate to %s", i.Rate)
		}
		first, second := a.leave(), a.leave()
		if gap := a.due[second.ID] - a.due[first.ID]; gap < 133_333 {
			r.Fatalf("the child's next departure is %d us behind the first", gap)
		}
	}},
}

func adapting(floor, ceiling string) func(*queue.Spec) {
	return func(s *queue.Spec) {
		s.Adapt = queue.Adapt{Floor: laneRate(floor).Rate, Ceiling: laneRate(ceiling).Rate}
		s.Capacity = 100_000
	}
}

func sameRateChange(a, b queue.RateChange) bool {
	return a.At.Equal(b.At) && a.From == b.From && a.To == b.To && a.Cause == b.Cause && a.Reason == b.Reason
}

// adaptive is a queue that always has waiting jobs, with a model of its rate.
type adaptive struct {
	*rig
	q     string
	rule  leaky.Adapt
	state leaky.Adapted
	due   map[string]leaky.Instant // by job id
}

func newAdaptive(r *rig, rate, floor, ceiling string) *adaptive {
	a := &adaptive{rig: r, q: r.queue("q.adaptive", rate, adapting(floor, ceiling)), due: map[string]leaky.Instant{}}
	s := r.info(a.q).Spec
	a.rule = s.Adapt.Rule()
	a.state = a.rule.Begin(s.Rate)
	r.accept(a.q, numbered("j", 500)...)
	return a
}

// leave reserves the next job and waits for its departure.
func (a *adaptive) leave() queue.Reservation {
	a.Helper()
	for range 1000 {
		res := a.reserveAs("client", a.q, 1)
		if len(res.Jobs) == 1 {
			a.due[res.Jobs[0].ID] = a.departure(res.Jobs[0])
			a.clock.Advance(max(0, res.Jobs[0].In))
			return res.Jobs[0]
		}
		a.clock.Advance(max(res.Next, time.Millisecond))
	}
	a.Fatalf("nothing leaves: %+v", a.info(a.q))
	return queue.Reservation{}
}

// answer settles a job and compares the resulting rate with the model.
func (a *adaptive) answer(verdict queue.Verdict, reason string, v queue.Reservation) {
	a.Helper()
	i, now := a.info(a.q), a.clock.Now()
	pacer := i.Spec.Pacer(queue.Horizon)
	pacer.Rate = i.Rate
	before, changed := a.state.Rate, false
	if verdict == queue.Throttle {
		changed = a.rule.Refused(&a.state, a.due[v.ID], now)
	} else if i.Waiting > 0 && pacer.Next(i.Bucket, now) > now {
		changed = a.rule.Taken(&a.state, a.due[v.ID], now)
	}
	s := settlement(verdict, v)
	s.Reason = reason
	got := a.settle(s)[0]
	if changed && (got.Effect.From != before || got.Effect.To != a.state.Rate) ||
		!changed && got.Effect.From != got.Effect.To {
		a.Fatalf("%v reported %+v, want from %s to %s", verdict, got.Effect, before, a.state.Rate)
	}
	if i = a.info(a.q); i.Rate != a.state.Rate {
		a.Fatalf("after %v it is %s, want %s", verdict, i.Rate, a.state.Rate)
	}
}

// goWell delivers jobs at once, as fast as the rate allows, for the duration d.
func (a *adaptive) goWell(d time.Duration) {
	a.Helper()
	for end := a.clock.Now().Add(d); a.clock.Now() < end; {
		v := a.leave()
		a.reserveAs("another", a.q, 1) // whose departure is still ahead: the rate holds up all others
		a.answer(queue.Deliver, "", v)
	}
}
