package queuetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// lostBy visits a group and checks how many slots each queue lost.
func (r *rig) lostBy(want map[string]int64, ids ...string) {
	r.Helper()
	res := r.reserveAs("client", "ses", 9)
	r.sameIDs(res.Jobs, ids...)
	r.deliver(res.Jobs...)
	if fmt.Sprint(res.Lost) != fmt.Sprint(want) {
		r.Errorf("lost %v, want %v", res.Lost, want)
	}
}

var groupChangeRules = []rule{
	{"a new parent holds back the waiting jobs of its children at once", func(r *rig) {
		r.group("a unlimited", "b 10/s")
		t0 := r.clock.Now()
		r.appendGroup("a1 a2 a3 b1 b2 b3")
		r.grant("ses", 1, "a1")
		r.group("p 2/s")
		r.sameDepartures(r.departureTimes("ses", t0, 5), "a2@0s b1@500ms a3@1s b2@1.5s b3@2s")
	}},
	{"a queue's first child takes turns with the jobs waiting in the queue", func(r *rig) {
		r.group("p 10/s")
		t0 := r.clock.Now()
		r.appendGroup("p1 p2 p3 p4")
		r.grant("ses", 1, "p1")
		r.group("a unlimited")
		r.appendGroup("a1 a2")
		r.sameDepartures(r.departureTimes("ses", t0, 5), "p2@100ms a1@200ms p3@300ms a2@400ms p4@500ms")
		r.delete("ses.a")
		r.clock.Set(t0.Add(3 * time.Second))
		r.appendGroup("p5 p6")
		r.sameDepartures(r.departureTimes("ses", t0, 2), "p5@3s p6@3.1s")
	}},
	{"a new parent has lost no slots before it was made", func(r *rig) {
		r.group("a 1/s")
		r.appendGroup("a1 a2")
		r.clock.Advance(10 * time.Second)
		r.group("p 1/s")
		r.clock.Advance(5 * time.Second)
		r.lostBy(map[string]int64{"ses.a": 5}, "a1")
	}},
	{"without a parent only the children's own rates apply", func(r *rig) {
		r.group("a unlimited", "b 10/s")
		t0 := r.clock.Now()
		r.appendGroup("a1 a2 b1 b2")
		r.sameDepartures(r.departureTimes("ses", t0, 4), "a1@0s a2@0s b1@0s b2@100ms")
	}},
	{"while the parent is paused, nothing in the group leaves, and no slots are saved up", func(r *rig) {
		r.group("p 10/s", "a unlimited", "b unlimited")
		r.appendGroup("a1 a2 b1 b2 p1")
		r.deliver(r.grant("ses", 1, "p1")...)
		r.check(r.e.Pause(r.ctx, "ses", queue.Pause{Reason: "because"}))
		r.clock.Advance(time.Minute)
		r.grant("ses", 9)
		if i := r.info("ses.a"); i.Pause.On() {
			r.Error("a child reports its own pause")
		}
		r.check(r.e.Resume(r.ctx, "ses"))
		t0 := r.clock.Now()
		r.sameDepartures(r.departureTimes("ses", t0, 4), "a1@0s b1@100ms a2@200ms b2@300ms")
		if i := r.info("ses"); i.Lost != 0 {
			r.Errorf("%d slots lost", i.Lost)
		}
	}},
	{"a paused child holds up nobody else", func(r *rig) {
		r.group("p 10/s", "a unlimited", "b unlimited")
		t0 := r.clock.Now()
		r.appendGroup("a1 a2 b1 b2")
		r.check(r.e.Pause(r.ctx, "ses.a", queue.Pause{}))
		r.sameDepartures(r.departureTimes("ses", t0, 2), "b1@0s b2@100ms")
		r.clock.Set(t0.Add(time.Second))
		r.check(r.e.Resume(r.ctx, "ses.a"))
		r.sameDepartures(r.departureTimes("ses", t0, 2), "a1@1s a2@1.1s")
	}},
	{"a changed rate of the parent changes the pace of all at once", func(r *rig) {
		r.group("p 1/s", "a unlimited", "b unlimited")
		t0 := r.clock.Now()
		r.appendGroup("a1 a2 a3 b1 b2 b3")
		r.grant("ses", 9, "a1")
		r.clock.Advance(500 * time.Millisecond)
		r.group("p 10/s") // at which it would be over
		r.sameDepartures(r.departureTimes("ses", t0, 3), "b1@500ms a2@600ms b2@700ms")
		r.clock.Set(t0.Add(780 * time.Millisecond))
		r.group("p 1/s")
		r.sameDepartures(r.departureTimes("ses", t0, 2), "a3@980ms b3@1.98s")
	}},
	{"a group continues when jobs of its parent or of a child are cancelled", func(r *rig) {
		r.group("p 10/s", "a unlimited", "b 10/s", "c unlimited")
		t0 := r.clock.Now()
		r.appendGroup("p1 a1 b1 b2 c1 c2")
		r.grant("ses", 1, "p1")
		r.cancels(queue.Cancelled, "ses.a", "a1") // the only job, and next
		r.sameDepartures(r.departureTimes("ses", t0, 1), "b1@100ms")
		r.cancels(queue.Cancelled, "ses.b", "b2")
		r.cancels(queue.Cancelled, "ses.c", "c1")
		r.sameDepartures(r.departureTimes("ses", t0, 1), "c2@200ms")
		r.clock.Set(t0.Add(3 * time.Second))
		r.appendGroup("a2")
		r.sameDepartures(r.departureTimes("ses", t0, 1), "a2@3s")
	}},
	{"releasing a group's last departure costs nothing, releasing an earlier one costs its slot", func(r *rig) {
		r.group("p 1/s", "a unlimited", "b 1/5s")
		t0 := r.clock.Now()
		r.appendGroup("a1 b1 a2")
		r.release(r.grant("ses", 9, "a1")...)
		r.release(r.grant("ses", 9, "b1")...) // a1 had its turn
		v := r.grant("ses", 9, "a1")
		r.clock.Advance(time.Second)
		w := r.grant("ses", 9, "b1")
		r.release(v...) // b1 was granted since
		r.grant("ses", 9)
		r.release(w...)
		r.sameDepartures(r.departureTimes("ses", t0, 3), "a1@1s b1@2s a2@3s")
	}},
	{"a lease that ran out returns its job to its queue, at the group's pace", func(r *rig) {
		r.put(groupSpec("p 10/s"))
		r.put(groupSpec("a unlimited", leased(time.Second, 3)))
		r.group("b unlimited")
		t0 := r.clock.Now()
		r.appendGroup("a1 b1")
		r.grant("ses", 1, "a1")
		r.clock.Advance(time.Second)
		r.sameDepartures(r.departureTimes("ses", t0, 2), "b1@1s a1@1.1s")
	}},
	{"lost slots count for the parent, or for the only child that could have departed", func(r *rig) {
		r.group("p 10/s", "a unlimited", "b 1/s")
		r.appendGroup("a1 a2 a3 b1 b2 b3")
		none := map[string]int64{}
		r.lostBy(none, "a1")
		r.clock.Advance(350 * time.Millisecond)
		r.lostBy(map[string]int64{"ses": 2}, "b1") // 250 ms late
		r.clock.Advance(100 * time.Millisecond)
		r.lostBy(none, "a2")
		r.clock.Advance(100 * time.Millisecond)
		r.lostBy(none, "a3")
		r.clock.Advance(3 * time.Second) // b may go on 1 s after b1
		r.lostBy(map[string]int64{"ses.b": 2}, "b2")
		if p, b := r.info("ses"), r.info("ses.b"); p.Lost != 2 || b.Lost != 2 {
			r.Errorf("%d and %d lost, want 2 and 2", p.Lost, b.Lost)
		}
	}},
	{"expired jobs use up nothing", func(r *rig) {
		r.group("p 10/s", "a unlimited", "b unlimited")
		t0 := r.clock.Now()
		r.appendGroup("a1 b1 a2 b2")
		for i := range 50 {
			r.acceptJobs(expiringJob(t0.Add(20*time.Second), "ses.b", fmt.Sprint("x", i)))
		}
		r.acceptJobs(job("ses.b", "b3"))
		r.clock.Set(t0.Add(30 * time.Second))
		r.sameDepartures(r.departureTimes("ses", t0, 5), "a1@30s b1@30.1s a2@30.2s b2@30.3s b3@30.4s")
		if i := r.info("ses.b"); i.TimedOut != 50 {
			r.Errorf("%d timed out", i.TimedOut)
		}
	}},
	{"the watcher is told when a job of the group departs", func(r *rig) {
		r.group("p 1/s", "a unlimited", "b 1/800ms")
		nextIn := func(want time.Duration, granted ...string) {
			r.Helper()
			res := r.reserveAs("client", "ses", 9)
			r.sameIDs(res.Jobs, granted...)
			r.deliver(res.Jobs...)
			if res.Next != want {
				r.Errorf("next in %v, want %v", res.Next, want)
			}
		}
		r.appendGroup("b1 b2")
		nextIn(time.Second-queue.Horizon/2, "b1")
		r.clock.Advance(time.Second)
		nextIn(2*time.Second, "b2")
		r.clock.Advance(100 * time.Millisecond)
		r.appendGroup("a1")
		nextIn(900*time.Millisecond-queue.Horizon/2, []string{}...)
	}},
	{"a parent with children cannot be deleted, even by force", func(r *rig) {
		r.group("p 10/s", "a 1/s")
		r.appendGroup("a1 p1")
		for _, force := range []bool{false, true} {
			r.refuses(r.e.Delete(r.ctx, "ses", queue.AnyRevision, force), queue.ErrHasChildren)
			r.refuses(r.e.Delete(r.ctx, "ses", 12345, force), queue.ErrRevision)
		}
		r.state(queue.Waiting, "ses", "p1")
		r.delete("ses.a")
		r.refuses(r.e.Delete(r.ctx, "ses", queue.AnyRevision, false), queue.ErrNotEmpty)
		r.check(r.e.Delete(r.ctx, "ses", queue.AnyRevision, true))
	}},
	{"deleting and making a parent or child again does not get around its rate", func(r *rig) {
		r.group("p 1/s", "a 1/10s")
		t0 := r.clock.Now()
		r.appendGroup("a1")
		r.deliver(r.grant("ses", 9, "a1")...)
		r.delete("ses.a")
		r.delete("ses")
		r.group("p 1/s", "a 1/10s", "b unlimited")
		r.appendGroup("a2 b1")
		r.sameDepartures(r.departureTimes("ses", t0, 2), "b1@1s a2@10s")
	}},
	{"a queue has at most a thousand children", func(r *rig) {
		r.group("p unlimited")
		for i := range queue.MaxChildren {
			r.put(spec(fmt.Sprint("ses.c", i), "unlimited"))
		}
		over := spec("ses.over", "unlimited")
		var fe *invalid.Error
		if _, err := r.e.Put(r.ctx, over, queue.AnyRevision); !errors.As(err, &fe) || fe.Field != "name" {
			r.Errorf("the 1001st: %v", err)
		}
		_, err := r.e.Put(r.ctx, over, 7)
		r.refuses(err, queue.ErrRevision)
		r.put(spec("ses.c7", "1/s")) // an existing child
		r.put(spec("ses2.over", "unlimited"))
		r.accept("ses.c999", "x")
		r.accept("ses.c0", "y")
		if got := r.reserve("ses", 9); len(got) != 2 {
			r.Errorf("granted %v", ids(got))
		}
		r.delete("ses.c5")
		r.put(over)
	}},
	{"a parent shows its children's state", func(r *rig) {
		r.group("p 10/s", "a unlimited", "b unlimited")
		r.appendGroup("a1*5 a2 b1 p1")
		want := queue.GroupInfo{Children: 2, Members: 3, Weight: 3, Weights: 2, Waiting: 4, MaxCost: 5}
		if i := r.info("ses"); i.Group != want || i.Parent != nil {
			r.Errorf("%+v, parent %v; want %+v", i.Group, i.Parent, want)
		}
		if i := r.info("ses.a"); i.Group != (queue.GroupInfo{}) || i.Parent == nil || i.Parent.Spec.Name != "ses" ||
			i.Parent.Group != want {
			r.Errorf("%+v", i)
		}
		r.put(spec("other", "1/s"))
		if i := r.info("other"); i.Group != (queue.GroupInfo{}) || i.Parent != nil {
			r.Errorf("%+v", i)
		}
	}},
}
