package queuetest

import (
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

// pauses pauses a queue until an instant; 0 means until it is resumed.
func (r *rig) pauses(queueName string, until leaky.Instant, reason string) {
	r.Helper()
	p := queue.Pause{Reason: reason}
	if until != 0 {
		p.Until = until.Time()
	}
	r.check(r.e.Pause(audit.WithNote(r.ctx, "ann@desk"), queueName, p))
}

// checkPause compares the pause in an Info.
func (r *rig) checkPause(want queue.Pause, queueName string) {
	r.Helper()
	got := r.info(queueName).Pause
	if got.By != want.By || got.Note != want.Note || got.Reason != want.Reason ||
		instantOf(got.Since) != instantOf(want.Since) ||
		instantOf(got.Until) != instantOf(want.Until) {
		r.Errorf("%s: got %+v, want %+v", queueName, got, want)
	}
}

// checkDepartures checks that n jobs leave, the first at an instant and the others one interval apart. Only a drainer
// asks, when it is told to.
func (r *rig) checkDepartures(queueName string, n int, first leaky.Instant, interval time.Duration) {
	r.Helper()
	for gone := 0; gone < n; {
		res := r.reserveAs("client", queueName, 9)
		for _, v := range res.Jobs {
			if at, want := r.departure(v), first.Add(time.Duration(gone)*interval); at != want {
				r.Fatalf("%s leaves at %v, want %v", v.ID, at.Time(), want.Time())
			}
			gone++
		}
		if res.Next <= 0 {
			r.Fatalf("next in %v", res.Next)
		}
		r.deliver(res.Jobs...)
		r.clock.Advance(res.Next)
	}
}

var pauseRules = []rule{
	{"a pause shows its actor, reason, start and end, and ends by itself", func(r *rig) {
		q := r.queue("q", "10/s")
		now := r.clock.Now()
		until := now.Add(time.Minute)
		r.pauses(q, until, "maintenance")
		want := queue.Pause{Note: "ann@desk", Reason: "maintenance", Since: now.Time(), Until: until.Time()}
		r.checkPause(want, q)
		r.clock.Set(until - 1)
		r.checkPause(want, q)
		r.clock.Set(until)
		r.checkPause(queue.Pause{}, q)
	}},
	{"from its end the jobs leave at the rate without any call", func(r *rig) {
		for _, tt := range []struct {
			rate     string
			interval time.Duration
		}{{"10/s", 100 * time.Millisecond}, {"1/m", time.Minute}} {
			q := r.queue("q", tt.rate)
			r.accept(q, numbered("j", 8)...)
			until := r.clock.Now().Add(61 * time.Second)
			r.pauses(q, until, "")
			r.checkDepartures(q, 8, until, tt.interval)
			r.delete(q)
		}
	}},
	{"the queue is visited exactly at its end", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a")
		until := r.clock.Now().Add(2500 * time.Millisecond)
		r.pauses(q, until, "")
		for _, want := range []time.Duration{2 * time.Second, 500 * time.Millisecond} {
			if res := r.reserveAs("client", q, 9); res.Next != want || len(res.Jobs) != 0 {
				r.Fatalf("granted %v, next in %v, want %v", ids(res.Jobs), res.Next, want)
			}
			r.clock.Advance(want)
		}
		r.grant(q, 9, "a")
	}},
	{"no more than the burst is saved up", func(r *rig) {
		q := r.queue("q", "10/s", func(s *queue.Spec) { s.Burst = 3 })
		r.accept(q, numbered("j", 20)...)
		r.deliver(r.reserve(q, 9)...)
		until := r.clock.Now().Add(time.Hour)
		r.pauses(q, until, "")
		r.clock.Set(until)
		r.deliver(r.grant(q, 9, "j00004", "j00005", "j00006")...)
		r.clock.Advance(40 * time.Millisecond)
		r.grant(q, 9)
	}},
	{"the watcher is told of a pause that ends before its next look", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a")
		r.awaitWake(q, "w", func(int) {
			r.pauses(q, 0, "")
			r.watching("w", q)
			r.pauses(q, r.clock.Now().Add(time.Millisecond), "")
		})
	}},
	{"a new pause replaces the old one, whether longer, shorter or endless", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a", "b", "c")
		now := r.clock.Now()
		r.pauses(q, now.Add(time.Hour), "long")
		r.pauses(q, now.Add(time.Second), "short")
		r.clock.Set(now.Add(time.Second))
		r.deliver(r.grant(q, 9, "a")...)
		r.pauses(q, now.Add(3*time.Second), "again")
		r.clock.Set(now.Add(2 * time.Second))
		r.pauses(q, 0, "for good")
		r.checkPause(queue.Pause{Note: "ann@desk", Reason: "for good", Since: r.clock.Now().Time()}, q)
		r.clock.Advance(time.Hour)
		r.grant(q, 9)
		r.pauses(q, r.clock.Now().Add(time.Hour), "")
		r.check(r.e.Resume(r.ctx, q))
		r.checkPause(queue.Pause{}, q)
		r.deliver(r.grant(q, 1, "b")...)
		r.clock.Advance(2 * time.Hour)
		r.grant(q, 1, "c")
	}},
	{"an equal pause changes nothing", func(r *rig) {
		q := r.queue("q", "10/s")
		now := r.clock.Now()
		r.pauses(q, now.Add(time.Minute), "x")
		r.clock.Advance(time.Second)
		r.pauses(q, now.Add(time.Minute), "x")
		r.checkPause(queue.Pause{Note: "ann@desk", Reason: "x", Since: now.Time(), Until: now.Add(time.Minute).Time()}, q)
		r.pauses(q, now.Add(time.Minute), "y")
		r.checkPause(
			queue.Pause{Note: "ann@desk", Reason: "y", Since: r.clock.Now().Time(), Until: now.Add(time.Minute).Time()},
			q,
		)
	}},
	{"an end that is past or too far ahead is refused and changes nothing", func(r *rig) {
		q := r.queue("q", "10/s")
		now := r.clock.Now().Time()
		for _, at := range []time.Time{
			now, now.Add(-time.Microsecond), now.Add(999), now.AddDate(-1, 0, 0),
			now.Add(queue.MaxAhead + time.Microsecond),
			time.Unix(0, 0), time.Unix(1, 0), now.AddDate(200_000, 0, 0), now.AddDate(300_000, 0, 0),
		} {
			r.refusesField("until", r.e.Pause(r.ctx, q, queue.Pause{Until: at}))
		}
		r.checkPause(queue.Pause{}, q)
		r.check(r.e.Pause(r.ctx, q, queue.Pause{Until: now.Add(queue.MaxAhead)}))
	}},
	{"an actor has at most 128 bytes of UTF-8 without control characters", func(r *rig) {
		q := r.queue("q", "10/s")
		for _, by := range []string{strings.Repeat("x", 129), "a\nb", "a\x00", "\xff", "a\u0085b"} {
			ctx := audit.WithNote(r.ctx, by)
			r.refusesField("by", r.e.Pause(ctx, q, queue.Pause{}))
			r.refusesField("by", r.e.Resume(ctx, q))
			r.refusesField("by", r.e.Delete(ctx, q, queue.AnyRevision, true))
			_, err := r.e.Put(ctx, spec(q, "1/s"), queue.AnyRevision)
			r.refusesField("by", err)
		}
		if i := r.info(q); i.Pause.On() || i.Spec.Rate != leaky.PerSecond(10) {
			r.Errorf("got %+v", i)
		}
		r.check(r.e.Pause(audit.WithNote(r.ctx, strings.Repeat("ä", 64)), q, queue.Pause{}))
	}},
	{"the authenticated actor and the claimed one are kept apart", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a")
		as := func(name, note string) {
			ctx := audit.WithActor(r.ctx, audit.Actor{Name: name, Note: note, App: "acme", Token: "1", Operation: "pause"})
			r.check(r.e.Pause(ctx, q, queue.Pause{}))
			r.checkPause(queue.Pause{By: name, Note: note, Since: r.clock.Now().Time()}, q)
			r.waitsFor(queue.Why{By: cause.Paused, Who: name, Note: note}, q, "a")
			r.clock.Advance(time.Second)
		}
		for _, name := range []string{"token:1", "", "token:2"} {
			as(name, "ann")
			as(name, "")
		}
	}},
	{"a long reason is cut at a whole character", func(r *rig) {
		q := r.queue("q", "10/s")
		r.pauses(q, 0, strings.Repeat("ä", queue.MaxReasonBytes))
		r.checkPause(
			queue.Pause{
				Note: "ann@desk", Reason: strings.Repeat("ä", queue.MaxReasonBytes/2), Since: r.clock.Now().Time(),
			},
			q,
		)
	}},
	{"jobs that become due during a pause wait for its end", func(r *rig) {
		q := r.queue("q", "10/s")
		now := r.clock.Now()
		r.schedule(later(now.Add(time.Second), q, "a"))
		r.schedule(later(now.Add(2*time.Second), q, "b"))
		until := now.Add(3 * time.Second)
		r.pauses(q, until, "")
		r.clock.Set(until.Add(-time.Second))
		r.grant(q, 9)
		r.checkDepartures(q, 2, until, 100*time.Millisecond)
	}},
	{"a waiting job shows the pause as its reason, with the end", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a")
		until := r.clock.Now().Add(time.Minute)
		r.pauses(q, until, "maintenance")
		r.waitsFor(queue.Why{By: cause.Paused, Until: until.Time(), Reason: "maintenance", Note: "ann@desk"}, q, "a")
		r.pauses(q, 0, "the provider is down")
		r.waitsFor(queue.Why{By: cause.Paused, Reason: "the provider is down", Note: "ann@desk"}, q, "a")
	}},
	{"the eta starts at the end of the pause", func(r *rig) {
		q := r.putWithLanes("q", "10/s", "k1 x1", except(laneX, laneRate("1/s")))
		until := r.clock.Now().Add(time.Minute)
		r.pauses(q, until, "")
		for _, tt := range []struct {
			job queue.Job
			eta time.Duration
		}{
			{job(q, "k2"), 200 * time.Millisecond},
			{jobOfLane(laneX, q, "x2"), time.Second},
			{jobOfLane(laneY, q, "y1"), 200 * time.Millisecond},
		} {
			if a := r.acceptJobs(tt.job)[0]; instantOf(a.ETA.At) != until.Add(tt.eta) || a.ETA.Exact {
				r.Errorf("%s: got %+v", tt.job.ID, a)
			}
			r.isAt(until.Add(tt.eta).Time(), r.job(q, tt.job.ID).ETA.At)
		}
		plain := r.queue("g.plain", "10/s")
		r.pauses(plain, until, "")
		for i, a := range r.accept(plain, numbered("j", 5)...) {
			r.isAt(until.Add(time.Duration(i)*100*time.Millisecond).Time(), a.ETA.At)
		}
		r.quote(plain, "", 3, 2)
	}},
	{"while the end is known, a job that would depart after its deadline is refused", func(r *rig) {
		for _, rate := range []string{"1/s", "unlimited"} {
			q := r.queue("q", rate)
			now := r.clock.Now()
			r.pauses(q, now.Add(time.Minute), "")
			r.lapsed(expiringJob(now.Add(59*time.Second), q, "a"), now.Add(time.Minute))
			r.acceptJobs(expiringJob(now.Add(time.Minute), q, "b"))
			x := expiringJob(now.Add(59*time.Second), q, "c")
			x.Lane = laneX
			if a := r.outcome(queue.Lapsed, x); instantOf(a.ETA.At) < now.Add(time.Minute) {
				r.Errorf("%s: %+v", rate, a)
			}
			r.pauses(q, 0, "")
			r.acceptJobs(expiringJob(now.Add(59*time.Second), q, "a"))
			r.delete(q)
		}
	}},
	{"the eta of deferred jobs starts at the end of the pause", func(r *rig) {
		s := r.overflowOf("q", "10/s", withCapacity(2))
		end := r.clock.Now().Add(time.Minute)
		r.accept(s.q, "a", "b")
		r.pauses(s.q, end, "")
		late := expiringJob(end.Add(199*time.Millisecond), s.q, "late")
		a := r.offer(late, job(s.q, "c"))
		if a[0].Outcome != queue.Lapsed || instantOf(a[0].ETA.At) != end.Add(200*time.Millisecond) {
			r.Errorf("got %+v", a[0])
		}
		if a[1].Outcome != queue.SetAside || instantOf(a[1].ETA.At) != end.Add(200*time.Millisecond) {
			r.Errorf("got %+v", a[1])
		}
		r.isAt(a[1].ETA.At, r.job(s.q, "c").ETA.At)
	}},
	{"slots are lost from its end on", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a", "b")
		until := r.clock.Now().Add(time.Minute)
		r.pauses(q, until, "")
		r.clock.Set(until.Add(time.Second))
		if res := r.reserveAs("client", q, 9); res.Lost[q] != 10 {
			r.Errorf("%d lost in the second since, want 10", res.Lost[q])
		}
	}},
	{"jobs appended after its end leave at once", func(r *rig) {
		q := r.queue("q", "10/s")
		until := r.clock.Now().Add(time.Minute)
		r.pauses(q, until, "")
		r.clock.Set(until.Add(time.Hour))
		if a := r.accept(q, "a")[0]; instantOf(a.ETA.At) != r.clock.Now() || !a.ETA.Exact {
			r.Errorf("got %+v", a)
		}
		r.grant(q, 9, "a")
	}},
	{"a changed spec does not end the pause, and the end is no change of the spec", func(r *rig) {
		q := r.queue("q", "1/h")
		r.accept(q, numbered("j", 5)...)
		until := r.clock.Now().Add(time.Minute)
		r.pauses(q, until, "")
		r.queue(q, "10/s")
		r.checkDepartures(q, 5, until, 100*time.Millisecond)
	}},
}
