package queuetest

import (
	"reflect"
	"slices"
	"time"

	"github.com/penstock/penstock/queue"
)

var statisticsRules = []rule{
	{"a queue's counts match its jobs", func(r *rig) {
		q := r.queue("q", "unlimited", withCapacity(6), leased(10*time.Second, 8))
		t0 := r.clock.Now()
		r.accept(q, "a", "b", "c", "d")
		r.clock.Advance(time.Second)
		r.accept(q, "e", "f")
		r.outcome(queue.Full, job(q, "g"))
		r.outcome(queue.Duplicate, job(q, "a"))
		v := r.grant(q, 5, "a", "b", "c", "d", "e")
		r.deliver(v[0])
		r.settled(queue.Dead, settlement(queue.Bury, v[1]))
		r.fail(time.Hour, v[2])
		r.release(v[3])
		i := r.info(q)
		want := queue.Info{Waiting: 2, Scheduled: 1, Leased: 1, Dead: 1}
		want.Counters = queue.Counters{Appended: 6, Delivered: 1, Retried: 1, Died: 1, Released: 1, Refused: 1}
		got := queue.Info{
			Waiting: i.Waiting, Scheduled: i.Scheduled, Leased: i.Leased, Dead: i.Dead, Counters: i.Counters,
		}
		if !sameCounts(got, want) || i.Size() != 4 {
			r.Errorf("got %+v\nwant %+v", got, want)
		}
		if !i.OldestWaiting.Equal(t0.Time()) {
			r.Errorf("d has been waiting since %v, want %v", t0.Time(), i.OldestWaiting)
		}
		r.clock.Advance(10 * time.Second)
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		r.grant(q, 9)
		if i := r.info(q); i.Expired != 1 || i.Waiting != 3 || i.Leased != 0 {
			r.Errorf("after a lease ran out: %+v", i)
		}
	}},
	{"the next departure is the pace's", func(r *rig) {
		q := r.queue("q", "10/s")
		next := func(want time.Duration) {
			r.Helper()
			if i := r.info(q); !i.Next.Equal(r.clock.Now().Add(want).Time()) {
				r.Errorf("next in %v, want %v", i.Next.Sub(r.clock.Now().Time()), want)
			}
		}
		next(0)
		r.accept(q, "a")
		r.grant(q, 9, "a")
		next(100 * time.Millisecond)
		r.clock.Advance(70 * time.Millisecond)
		next(30 * time.Millisecond)
		r.clock.Advance(time.Minute)
		next(0)
	}},
	{"the outflow is measured", func(r *rig) {
		q := r.queue("q", "20/s")
		r.accept(q, numbered("j", 900)...)
		for range 40 * 20 {
			r.deliver(r.reserve(q, 9)...)
			r.clock.Advance(50 * time.Millisecond)
		}
		if i := r.info(q); i.Outflow < 18 || i.Outflow > 22 {
			r.Errorf("%v/s measured of 20/s", i.Outflow)
		}
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		r.clock.Advance(30 * time.Second)
		if i := r.info(q); i.Outflow != 0 {
			r.Errorf("%v/s measured half a minute after the last", i.Outflow)
		}
	}},
	{"released jobs are no outflow", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, numbered("j", 60)...)
		v := r.reserve(q, 50)
		r.release(v[20:]...)
		if i := r.info(q); i.Outflow < 1.9 || i.Outflow > 2.1 {
			r.Errorf("%v/s measured of 20 in 10 s", i.Outflow)
		}
		r.release(v[:20]...)
		if i := r.info(q); i.Outflow != 0 {
			r.Errorf("%v/s measured, and nothing left", i.Outflow)
		}
	}},
	{"dead jobs are forgotten while any client reserves", func(r *rig) {
		names := []string{"g.a", "g.b", "g.c"}
		for _, name := range names {
			q := r.queue(name, "unlimited", remember(time.Minute))
			r.accept(q, "a", "b")
			for _, v := range r.grant(q, 9, "a", "b") {
				r.settled(queue.Dead, settlement(queue.Bury, v))
			}
		}
		dead := func() int64 {
			r.Helper()
			t, err := r.e.Totals(r.ctx)
			r.check(err)
			return t.Dead
		}
		reserveSome := func() {
			for range 30 {
				r.grant(names[0], 9)
				r.clock.Advance(100 * time.Millisecond)
			}
		}
		reserveSome()
		if n := dead(); n != 6 {
			r.Errorf("%d dead within the retention, want 6", n)
		}
		r.clock.Advance(time.Minute)
		reserveSome()
		if n := dead(); n != 0 {
			r.Errorf("%d dead, a minute after all retentions ended", n)
		}
	}},
	{"totals are the sums over all queues", func(r *rig) {
		for _, name := range []string{"a", "b", "c.x", "c.y"} {
			q := r.queue(name, "unlimited")
			r.accept(q, "1", "2", "3", "4", "5")
		}
		for _, name := range []string{"a", "b", "c.x"} {
			for _, v := range r.reserve(name, 4) {
				switch v.ID {
				case "1":
					r.deliver(v)
				case "2":
					r.fail(time.Hour, v)
				case "3":
					r.settled(queue.Dead, settlement(queue.Bury, v))
				}
			}
		}
		r.audit()
		r.delete("b")
		r.audit()
		r.delete("a")
		r.delete("c.x")
		r.delete("c.y")
		if got, err := r.e.Totals(r.ctx); err != nil || got != (queue.Totals{Dead: got.Dead}) {
			r.Errorf("only dead jobs remain, and yet: %+v, %v", got, err)
		}
	}},
	{"recent drainers are known", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.reserveAs("one", q, 9)
		r.clock.Advance(3 * time.Second)
		r.reserveAs("two", q, 9)
		d, err := r.e.Drainers(r.ctx)
		got := d.Seen
		slices.SortFunc(got, func(a, b queue.Drainer) int { return a.LastSeen.Compare(b.LastSeen) })
		if err != nil || len(got) != 2 || got[0].Client != (queue.Client{ID: "one", Name: "one@bench", Version: "1"}) ||
			got[1].ID != "two" || !got[1].LastSeen.Equal(r.clock.Now().Time()) ||
			got[1].LastSeen.Sub(got[0].LastSeen) != 3*time.Second {
			r.Errorf("got %+v, %v", got, err)
		}
	}},
}

func sameCounts(a, b queue.Info) bool {
	return a.Waiting == b.Waiting && a.Scheduled == b.Scheduled && a.Leased == b.Leased && a.Held == b.Held &&
		a.Dead == b.Dead && a.Counters == b.Counters
}

// readings returns the readings of all queues by name, and checks that there is one for each name.
func (r *rig) readings(names ...string) map[string]queue.Reading {
	r.Helper()
	all, err := r.e.Readings(r.ctx)
	r.check(err)
	by := map[string]queue.Reading{}
	for _, i := range all {
		if _, twice := by[i.Name]; twice || !slices.Contains(names, i.Name) {
			r.Fatalf("a reading of %s among those of %v", i.Name, names)
		}
		by[i.Name] = i
	}
	if len(by) != len(names) {
		r.Fatalf("%d readings of %d queues", len(by), len(names))
	}
	return by
}

// checkReading compares the reading of a queue with its Info and returns its condition.
func (r *rig) checkReading(name string, all ...string) string {
	r.Helper()
	got, i := r.readings(all...)[name], r.info(name)
	want := queue.Reading{
		Name: name, Revision: i.Revision, Size: i.Size(), Bytes: i.Bytes, Deferred: i.Deferred, Counters: i.Counters,
		Outflow: i.Outflow, Rate: i.Rate, Now: i.Now, Condition: got.Condition,
	}
	if !reflect.DeepEqual(got, want) {
		r.Errorf("read\n     %+v\nwant %+v", got, want)
	}
	return got.Condition
}

var readingRules = []rule{
	{"a reading agrees with Get", func(r *rig) {
		r.readings()
		q := r.queue("q", "10/s", withCapacity(4), leased(10*time.Second, 8))
		r.checkReading(q, q)
		other := r.queue("other", "unlimited")
		r.accept(q, "a", "b", "c", "d")
		r.outcome(queue.Full, job(q, "e"))
		r.checkReading(q, q, other)
		r.deliver(r.grant(q, 1, "a")...)
		r.clock.Advance(time.Second)
		r.fail(time.Hour, r.grant(q, 1, "b")...)
		r.checkReading(q, q, other)
		r.clock.Advance(25 * time.Second)
		r.checkReading(q, q, other)
		r.checkReading(other, q, other)
		r.check(r.e.Delete(r.ctx, q, queue.AnyRevision, true))
		r.checkReading(other, other)
	}},
	{"the condition changes only when the queue is paused, resumed or stopped", func(r *rig) {
		q := r.queue("q", "unlimited")
		was := r.checkReading(q, q)
		changes := func(want bool, what string) {
			r.Helper()
			condition := r.checkReading(q, q)
			if (condition != was) != want {
				r.Errorf("%s: %q was %q", what, condition, was)
			}
			was = condition
		}
		r.accept(q, "a", "b", "c")
		r.deliver(r.grant(q, 1, "a")...)
		changes(false, "a job was delivered")
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		changes(true, "paused")
		r.check(r.e.Pause(r.ctx, q, queue.Pause{Until: r.clock.Now().Add(time.Hour).Time()}))
		changes(true, "paused with an end")
		changes(false, "nothing")
		r.check(r.e.Resume(r.ctx, q))
		changes(true, "resumed")
		s := settlement(queue.Throttle, r.grant(q, 1, "b")[0])
		s.After = time.Minute
		r.settle(s)
		changes(true, "the receiver throttled")
		changes(false, "nothing")
		r.check(r.e.Resume(r.ctx, q))
		changes(true, "resumed again")
	}},
	{"specs are read together, without missing queues", func(r *rig) {
		names := []string{r.queue("p", "10/s"), r.queue("p.a", "10/s"), r.queue("z", "7/m")}
		r.check(r.e.Pause(r.ctx, "p", queue.Pause{Reason: "why not"}))
		got, err := r.e.ReadSpecs(r.ctx, append([]string{"none", "No Name", "", "p.none"}, names...))
		r.check(err)
		if len(got) != len(names) {
			r.Errorf("%d of %d queues: %+v", len(got), len(names), got)
		}
		for _, k := range got {
			if i := r.info(k.Spec.Name); !reflect.DeepEqual(k.Spec, i.Spec) || k.Revision != i.Revision {
				r.Errorf("got\n     %+v\nwant %+v", k, i.Spec)
			}
		}
		if none, err := r.e.ReadSpecs(r.ctx, nil); err != nil || len(none) != 0 {
			r.Errorf("without names: %v, %v", none, err)
		}
	}},
	{"reading several queues equals reading each alone", func(r *rig) {
		var names []string
		for _, name := range []string{"p", "p.a", "p.b", "z", "y"} {
			names = append(names, r.queue(name, "10/s"))
		}
		r.accept("p.a", "j")
		r.check(r.e.Pause(r.ctx, "p", queue.Pause{Reason: "why not"}))
		ask := append([]string{"none", "No Name", "", "p.none"}, names[1:]...)
		got, err := r.e.GetMany(r.ctx, ask)
		r.check(err)
		by := map[string]queue.Info{}
		for _, i := range got {
			by[i.Spec.Name] = i
		}
		if len(got) != len(by) || len(by) != len(names)-1 {
			r.Errorf("%d of %d queues: %+v", len(got), len(names)-1, got)
		}
		for _, name := range names[1:] {
			i, want := by[name], r.info(name)
			if !reflect.DeepEqual(i, want) {
				r.Errorf("got\n     %+v\nwant %+v", i, want)
			}
		}
		if none, err := r.e.GetMany(r.ctx, nil); err != nil || len(none) != 0 {
			r.Errorf("without names: %v, %v", none, err)
		}
	}},
}
