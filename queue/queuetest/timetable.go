package queuetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/quote"
	"github.com/penstock/penstock/queue/status"
)

// timetable reads the timetable of a queue.
func (r *rig) timetable(queueName string, span time.Duration) quote.Timetable {
	r.Helper()
	t, err := quote.ReadTimetable(r.ctx, r.e, queueName, span)
	r.check(err)
	return t
}

func statusOf(t quote.Timetable) status.Status { return status.Of(&t.Queue) }

// leave is an actual departure.
type leave struct {
	id string
	at leaky.Instant
}

// leaves delivers all jobs that leave a queue until an instant.
func (r *rig) leaves(queueName string, until leaky.Instant) (list []leave) {
	r.Helper()
	for r.clock.Now() <= until {
		res := r.reserveAs("client", queueName, queue.MaxReserve)
		for _, v := range res.Jobs {
			if v.Queue == queueName && r.departure(v) <= until {
				list = append(list, leave{v.ID, r.departure(v)})
			}
			r.deliver(v)
		}
		if len(res.Jobs) == 0 {
			r.clock.Advance(max(res.Next, time.Millisecond))
		}
	}
	return list
}

// comesTrue reads a timetable, lets the jobs depart, and checks that they leave in the same order at the same instants.
// Every row must have the given doubt.
func (r *rig) comesTrue(queueName string, span time.Duration, rows int, doubt quote.Doubt) {
	r.Helper()
	t := r.timetable(queueName, span)
	if len(t.Departures) != rows || t.More {
		r.Errorf("%d departures, more %v; want %d", len(t.Departures), t.More, rows)
	}
	for _, d := range t.Departures {
		if d.Doubt != doubt {
			r.Errorf("%s at %v: in doubt for %q, want %q", d.ID, d.At, d.Doubt, doubt)
		}
	}
	r.came(t, r.leaves(queueName, instantOf(t.Until)))
}

func (r *rig) came(t quote.Timetable, list []leave) {
	r.Helper()
	var listed, came strings.Builder
	for _, d := range t.Departures {
		_, _ = fmt.Fprintf(&listed, "%s %v\n", d.ID, d.At.Sub(t.From))
	}
	for _, l := range list {
		_, _ = fmt.Fprintf(&came, "%s %v\n", l.id, l.at.Time().Sub(t.From))
	}
	if listed.String() != came.String() {
		r.Errorf("timetable:\n%sactual:\n%s", listed.String(), came.String())
	}
}

// attended puts a queue and lets a drainer ask for it.
func (r *rig) attended(name, rate string, change ...func(*queue.Spec)) string {
	r.Helper()
	q := r.queue(name, rate, change...)
	r.grant(q, 1)
	return q
}

var timetableRules = []rule{
	{"the timetable of a plain queue comes true exactly", func(r *rig) {
		for n, tt := range []struct {
			rate  string
			burst int64
			rows  int
		}{{"7/s", 1, 30}, {"1/s", 3, 13}, {"unlimited", 1, 30}} {
			q := r.attended(fmt.Sprint("g.q", n), tt.rate, func(s *queue.Spec) { s.Burst = tt.burst })
			r.accept(q, numbered("j", 30)...)
			r.comesTrue(q, 10*time.Second, tt.rows, "")
			r.drain(q)
		}
	}},
	{"costs, priorities and deadlines count", func(r *rig) {
		q := r.attended("q", "5/s")
		var list []queue.Job
		for n, id := range numbered("j", 40) {
			j := costing(int64(1+n%3), q, id)
			j.Priority = n * 7 % 5
			if n%4 == 0 {
				j.ExpiresAt = r.clock.Now().Add(time.Duration(1+n%9) * time.Second).Time()
			}
			list = append(list, j)
		}
		r.late(q, list...)
		t := r.timetable(q, time.Minute)
		r.came(t, r.leaves(q, instantOf(t.Until)))
		if n := len(t.Departures); n < 25 || n == 40 || t.Departures[0].Doubt != "" {
			r.Errorf("%d departures, the first %+v", n, t.Departures[0])
		}
	}},
	{"granted jobs are listed, and make the rest an estimate", func(r *rig) {
		q := r.attended("q", "50/s")
		r.accept(q, numbered("j", 9)...)
		r.grant(q, 9, "j00001", "j00002", "j00003")
		t := r.timetable(q, time.Second)
		for n, d := range t.Departures {
			want := quote.Doubt("")
			if n >= 2 {
				want = quote.OfInFlight
			}
			if d.Doubt != want || d.Attempt != 1 || d.At.Sub(t.From) != time.Duration(n+1)*20*time.Millisecond {
				r.Errorf("%d: %+v", n, d)
			}
		}
		if len(t.Departures) != 8 { // the first departs at the time of the request
			r.Errorf("%+v", t.Departures)
		}
	}},
	{"lanes take turns", func(r *rig) {
		k := keys(3)
		q := r.attended("q", "4/s")
		r.appendToLane(q, k[2], "z", 5, 1)
		r.appendToLane(q, k[0], "x", 9, 1)
		r.appendToLane(q, k[1], "y", 2, 1)
		r.appendToLane(q, "", "w", 3, 1)
		r.comesTrue(q, time.Minute, 19, quote.OfLanes)
	}},
	{"scheduled jobs are listed at their turn once due", func(r *rig) {
		q := r.attended("q", "2/s")
		t0 := r.clock.Now()
		r.schedule(later(t0.Add(3*time.Second), q, "first"))
		r.clock.Advance(time.Millisecond)
		r.accept(q, numbered("j", 12)...)
		r.clock.Advance(time.Millisecond)
		urgent := later(t0.Add(2100*time.Millisecond), q, "urgent")
		urgent.Priority = 5
		r.schedule(urgent, later(t0.Add(20*time.Second), q, "late"), later(t0.Add(2*time.Minute), q, "never"))
		t := r.timetable(q, time.Minute)
		for _, d := range t.Departures {
			if sure := d.At.Before(urgent.NotBefore); (d.Doubt == "") != sure || !sure && d.Doubt != quote.OfScheduled {
				r.Errorf("%+v", d)
			}
		}
		if len(t.Departures) != 15 {
			r.Errorf("%d departures", len(t.Departures))
		}
		r.came(t, r.leaves(q, instantOf(t.Until)))
	}},
	{"a failed job is listed at its next attempt", func(r *rig) {
		q := r.attended("q", "2/s")
		r.accept(q, "a", "b", "c", "d", "e", "f")
		r.fail(time.Second, r.grant(q, 1, "a")...)
		r.clock.Advance(100 * time.Millisecond)
		t := r.timetable(q, time.Minute)
		for _, d := range t.Departures {
			if want := map[bool]int{true: 2, false: 1}[d.ID == "a"]; d.Attempt != want {
				r.Errorf("%+v", d)
			}
		}
		r.came(t, r.leaves(q, instantOf(t.Until)))
	}},
	{"after some departures, lanes take turns about as listed", func(r *rig) {
		k := keys(3)
		q := r.attended("q", "4/s")
		for n, prefix := range []string{"x", "y", "z"} {
			r.appendToLane(q, k[n], prefix, 10, 1)
		}
		r.leaves(q, r.clock.Now().Add(time.Second)) // five: it is the third lane's turn
		t := r.timetable(q, time.Minute)
		came := map[string]leaky.Instant{}
		for _, l := range r.leaves(q, instantOf(t.Until)) {
			came[l.id] = l.at
		}
		for _, d := range t.Departures {
			off := came[d.ID].Sub(instantOf(d.At)).Abs()
			if d.Doubt != quote.OfLanes || off > 2*250*time.Millisecond { // one turn of each other lane
				r.Errorf("%+v came at %v", d, came[d.ID].Time())
			}
		}
		if len(t.Departures) != 25 || len(came) != 25 {
			r.Errorf("%d departures, %d came", len(t.Departures), len(came))
		}
	}},
	{"siblings", func(r *rig) {
		r.queue("g", "3/s")
		a, b := r.attended("g.a", "50/s"), r.queue("g.b", "50/s")
		r.accept(a, numbered("a", 10)...)
		r.accept(b, numbered("b", 10)...)
		t := r.timetable(a, 5*time.Second)
		if len(t.Departures) < 7 || len(t.Departures) > 9 || t.Departures[0].Doubt != quote.OfParent {
			r.Errorf("%+v", t.Departures)
		}
	}},
	{"a parent's rate", func(r *rig) {
		g := r.attended("g", "3/s")
		q := r.queue("g.q", "50/s")
		r.accept(q, numbered("j", 20)...)
		r.comesTrue(q, 5*time.Second, 16, quote.OfParent)
		r.drain(g)
	}},
	{"a paused queue departs never, or once the pause ends by itself", func(r *rig) {
		q := r.attended("q", "4/s")
		r.accept(q, numbered("j", 10)...)
		t0 := r.clock.Now()
		r.check(r.e.Pause(r.ctx, q, queue.Pause{Reason: "why not", By: "me"}))
		r.clock.Advance(time.Second)
		t := r.timetable(q, time.Minute)
		if s := statusOf(t); len(t.Departures) != 0 || s.Code != status.Paused || instantOf(s.Since) != t0 ||
			!s.Until.IsZero() || s.Ends() == "" {
			r.Errorf("%+v", t)
		}
		until := r.clock.Now().Add(7 * time.Second)
		r.check(r.e.Pause(r.ctx, q, queue.Pause{Until: until.Time()}))
		if s := statusOf(r.timetable(q, time.Minute)); instantOf(s.Until) != until {
			r.Errorf("%+v", s)
		}
		r.comesTrue(q, time.Minute, 10, quote.OfPause)
	}},
	{"a quota ends and begins anew", func(r *rig) {
		q := r.attended("q", "2/s", func(s *queue.Spec) {
			s.Limits = []queue.Limit{{Quota: queue.Quota{Max: 5, Per: "m"}}}
		})
		r.accept(q, numbered("j", 12)...)
		r.comesTrue(q, 3*time.Minute, 12, quote.OfLimits)
		r.accept(q, numbered("k", 12)...)
		r.leaves(q, r.clock.Now().Add(10*time.Second)) // all that may leave
		if s := statusOf(r.timetable(q, time.Minute)); s.Code != status.Quota || s.Until.IsZero() || s.Ends() == "" {
			r.Errorf("%+v", s)
		}
	}},
	{"a stop by its receiver counts", func(r *rig) {
		q := r.attended("q", "2/s")
		r.accept(q, numbered("j", 6)...)
		v := r.grant(q, 1, "j00001")[0]
		s := settlement(queue.Throttle, v)
		s.After = 5 * time.Second
		r.settle(s)
		t := r.timetable(q, time.Minute)
		if len(t.Departures) != 6 || t.Departures[0].Doubt != quote.OfThrottled || statusOf(t).Code != status.Throttled {
			r.Errorf("%+v", t)
		}
		r.came(t, r.leaves(q, instantOf(t.Until)))
	}},
	{"without a drainer nothing departs", func(r *rig) {
		q := r.queue("q", "1/s")
		r.accept(q, "a")
		t := r.timetable(q, time.Minute)
		if len(t.Departures) != 1 || t.Departures[0].Doubt != quote.OfDrainer || statusOf(t).Code != status.NoDrainer {
			r.Errorf("%+v", t)
		}
	}},
	{"a timetable is bounded and says when there is more", func(r *rig) {
		q := r.attended("q", "100/s", withCapacity(5000))
		for n := range 3 {
			r.accept(q, numbered(fmt.Sprint("j", n), 500)...)
		}
		if t := r.timetable(q, time.Minute); len(t.Departures) != quote.MaxDepartures || !t.More {
			r.Errorf("%d departures, more %v", len(t.Departures), t.More)
		}
		if t := r.timetable(q, 5*time.Second); len(t.Departures) != 501 || t.More {
			r.Errorf("%d departures, more %v", len(t.Departures), t.More)
		}
		for _, span := range []time.Duration{0, -time.Second, quote.MaxSpan + 1} {
			var field *invalid.Error
			if _, err := quote.ReadTimetable(r.ctx, r.e, q, span); !errors.As(err, &field) || field.Field != "for" {
				r.Errorf("%v: %v", span, err)
			}
		}
		_, err := quote.ReadTimetable(r.ctx, r.e, "nobody", time.Minute)
		r.refuses(err, queue.ErrUnknownQueue)
	}},
}
