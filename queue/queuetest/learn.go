package queuetest

import (
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Rules of rates that follow what the receiver says that it still accepts.
var learnRules = []rule{
	{"what remains is spread until it is renewed", func(r *rig) {
		l := newLearning(r, "10/s")
		l.answers(l.leave(), 60, time.Minute)
		l.is("1/s")
		first, second := l.leave(), l.leave()
		if gap := l.due[second.ID] - l.due[first.ID]; gap != 1_000_016 && gap != 1_000_017 { // 60.001 s / 60
			r.Fatalf("the next departure is %d us behind the first", gap)
		}
		want := queue.RateChange{From: leaky.PerSecond(10), To: r.info(l.q).Rate, Cause: queue.AdaptedBudget}
		i := r.info(l.q)
		if len(i.RateChanges) != 1 || i.RateChanges[0].From != want.From || i.RateChanges[0].Cause != want.Cause {
			r.Fatalf("%+v", i.RateChanges)
		}
	}},
	{"the rate is never raised above the configured one", func(r *rig) {
		l := newLearning(r, "10/s")
		l.answers(l.leave(), 1_000_000, time.Second)
		l.is("10/s")
		if i := r.info(l.q); i.RateChanges != nil {
			r.Fatalf("%+v", i.RateChanges)
		}
		l.answers(l.leave(), 10, 10*time.Second)
		l.is("1/s")
		l.answers(l.leave(), 5000, 10*time.Second)
		l.is("10/s")
	}},
	{"jobs under way count as used", func(r *rig) {
		l := newLearning(r, "10/s")
		l.leave()
		l.leave()
		l.answers(l.leave(), 8, 6*time.Second) // two are under way
		l.is("1/s")
	}},
	{"with nothing left the queue stops until the budget is renewed", func(r *rig) {
		l := newLearning(r, "10/s")
		v := l.leave()
		r.clock.Advance(90 * time.Millisecond)
		s := settlement(queue.Deliver, v)
		s.Budget = queue.Budget{Reset: 10 * time.Second}
		if got := r.settle(s)[0]; got.Effect.Stopped != 10*time.Second {
			r.Fatalf("%+v", got)
		}
		l.is("10/s")
		at := r.clock.Now()
		if i := r.info(l.q); i.Stop.Until.Sub(at.Time()) != 10*time.Second || i.Stop.Cause != queue.StopThrottled {
			r.Fatalf("%+v", i.Stop)
		}
		if gap := l.due[l.leave().ID] - at; gap != 10_000_000 {
			r.Fatalf("the next one leaves %d us later", gap)
		}
	}},
	{"unused credit counts as used", func(r *rig) {
		l := newLearning(r, "10/s", func(s *queue.Spec) { s.Burst = 5 })
		l.answers(l.leave(), 14, 10*time.Second)
		l.is("1/s")
	}},
	{"a failure restores the rate once the budget is renewed", func(r *rig) {
		l := newLearning(r, "10/s")
		l.answers(l.leave(), 1, time.Hour)
		l.is("1/h")
		r.clock.Advance(2 * time.Hour)
		r.settle(settlement(queue.Fail, l.leave()))
		l.is("10/s")
	}},
	{"a job given back states nothing", func(r *rig) {
		l := newLearning(r, "10/s")
		s := settlement(queue.Release, l.leave())
		s.LaneOnly, s.Budget = true, queue.Budget{Remaining: 1, Reset: time.Hour}
		r.settle(s)
		l.is("10/s")
	}},
	{"a queue that adapts ignores budgets", func(r *rig) {
		q := r.queue("q", "10/s", adapting("2/s", "20/s"))
		r.accept(q, numbered("j", 9)...)
		for _, verdict := range []queue.Verdict{queue.Fail, queue.Deliver} {
			s := settlement(verdict, r.reserveAs("client", q, 1).Jobs[0])
			s.After, s.Budget = time.Second, queue.Budget{Remaining: 1, Reset: time.Hour}
			r.settle(s)
			if i := r.info(q); i.Rate != leaky.PerSecond(10) {
				r.Fatalf("after %v it is %s", verdict, i.Rate)
			}
			r.clock.Advance(2 * time.Second)
		}
	}},
	{"changes in one direction are one entry", func(r *rig) {
		l := newLearning(r, "10/s")
		for _, remaining := range []int64{50, 20, 10, 500} {
			l.answers(l.leave(), remaining, 10*time.Second)
		}
		i := r.info(l.q)
		if len(i.RateChanges) != 2 || i.RateChanges[0].To != leaky.PerSecond(10) ||
			i.RateChanges[1].From != leaky.PerSecond(10) || i.RateChanges[0].From != i.RateChanges[1].To {
			r.Fatalf("%+v", i.RateChanges)
		}
	}},
	{"learning from other fields begins anew", func(r *rig) {
		l := newLearning(r, "10/s")
		l.answers(l.leave(), 10, 10*time.Second)
		r.queue(l.q, "10/s", learning, func(s *queue.Spec) { s.Learn = "X-Left X-Reset" })
		l.is("10/s")
	}},
	{"an answer without a budget restores the rate once the budget is renewed", func(r *rig) {
		l := newLearning(r, "10/s")
		l.answers(l.leave(), 3, 30*time.Second)
		l.is("0.1/s")
		l.answers(l.leave(), 0, 0)
		l.is("0.1/s")
		r.clock.Advance(30 * time.Second)
		l.answers(l.leave(), 0, 0)
		l.is("10/s")
	}},
	{"an answer to an earlier departure says nothing new", func(r *rig) {
		l := newLearning(r, "10/s")
		first, second := l.leave(), l.leave()
		l.answers(second, 11, 10*time.Second) // the first is under way
		l.is("1/s")
		l.answers(first, 99, 10*time.Second)
		l.is("1/s")
	}},
	{"a small difference does not change the rate", func(r *rig) {
		l := newLearning(r, "10/s")
		l.answers(l.leave(), 100, 100*time.Second)
		before := r.info(l.q).Rate
		l.answers(l.leave(), 96, 99*time.Second)
		if got := r.info(l.q).Rate; got != before {
			r.Fatalf("it went from %s to %s", before, got)
		}
	}},
	{"a renewal is at most a day ahead", func(r *rig) {
		l := newLearning(r, "10/s")
		l.answers(l.leave(), 1, 1000*time.Hour)
		l.is("1/24h")
	}},
	{"a refusal stops the queue and leaves the rate to the budget", func(r *rig) {
		l := newLearning(r, "10/s")
		s := settlement(queue.Throttle, l.leave())
		s.After, s.Budget = 2*time.Second, queue.Budget{Remaining: 30, Reset: 30 * time.Second}
		if got := r.settle(s)[0]; got.Effect.Stopped != 2*time.Second {
			r.Fatalf("%+v", got)
		}
		l.is("1/s")
		s = settlement(queue.Throttle, l.leave())
		s.After = 2 * time.Second
		r.settle(s)
		l.is("1/s")
	}},
	{"a queue that does not learn ignores budgets", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a")
		s := settlement(queue.Deliver, r.grant(q, 1, "a")[0])
		s.Budget = queue.Budget{Remaining: 0, Reset: time.Hour}
		r.settled(queue.Delivered, s)
		if i := r.info(q); i.Rate != leaky.PerSecond(10) || i.RateChanges != nil {
			r.Fatalf("%s, %+v", i.Rate, i.RateChanges)
		}
	}},
	{"putting another rate begins with it", func(r *rig) {
		l := newLearning(r, "10/s")
		l.answers(l.leave(), 10, 10*time.Second)
		r.queue(l.q, "10/s", learning, func(s *queue.Spec) { s.Capacity = 9999 })
		l.is("1/s")
		r.queue(l.q, "20/s", learning)
		l.is("20/s")
		l.answers(l.leave(), 10, 10*time.Second)
		r.queue(l.q, "20/s")
		l.is("20/s")
		if i := r.info(l.q); i.RateChanges != nil {
			r.Fatalf("%+v", i.RateChanges)
		}
	}},
}

func learning(s *queue.Spec) { s.Learn, s.Capacity = "ietf", 100_000 }

// learned is a queue that learns and always has waiting jobs.
type learned struct{ *adaptive }

func newLearning(r *rig, rate string, more ...func(*queue.Spec)) *learned {
	more = append(more, learning)
	l := &learned{&adaptive{rig: r, q: r.queue("q.learning", rate, more...), due: map[string]leaky.Instant{}}}
	r.accept(l.q, numbered("j", 50)...)
	return l
}

// answers delivers a job whose receiver says what remains.
func (l *learned) answers(v queue.Reservation, remaining int64, reset time.Duration) {
	l.Helper()
	before := l.info(l.q).Rate
	s := settlement(queue.Deliver, v)
	s.Budget = queue.Budget{Remaining: remaining, Reset: reset}
	got, after := l.settle(s)[0], l.info(l.q).Rate
	if (got.Effect.To != leaky.Rate{}) != (before != after) || before != after &&
		(got.Effect.From != before || got.Effect.To != after) {
		l.Fatalf("from %s to %s it reported %+v", before, after, got.Effect)
	}
}

// is checks the rate, up to a thousandth.
func (l *learned) is(rate string) {
	l.Helper()
	got, want := l.info(l.q).Rate.PerSecond(), laneRate(rate).Rate.PerSecond()
	if got < want*0.999 || got > want*1.001 {
		l.Fatalf("it is %v/s, want %v/s", got, want)
	}
}
