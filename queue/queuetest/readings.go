package queuetest

import (
	"reflect"
	"slices"
	"time"

	"github.com/penstock/penstock/queue"
)

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
