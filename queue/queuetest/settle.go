package queuetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/queue"
)

var settleRules = []rule{
	{"a delivered job has ended", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a")
		v := r.grant(q, 1, "a")
		r.deliver(v...)
		r.clock.Advance(time.Hour)
		r.grant(q, 9)
		if i := r.info(q); i.Delivered != 1 || i.Size() != 0 || i.Dead != 0 {
			r.Errorf("counted %+v", i)
		}
	}},
	{"a buried job is dead at once", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a")
		s := settlement(queue.Bury, r.grant(q, 1, "a")[0])
		s.Reason = "no such mailbox"
		r.settled(queue.Dead, s)
		r.clock.Advance(time.Hour)
		r.grant(q, 9)
		if i := r.info(q); i.Died != 1 || i.Dead != 1 || i.Size() != 0 {
			r.Errorf("counted %+v", i)
		}
		if j := r.job(q, "a"); j.State != queue.Dead || j.Reason != "no such mailbox" || j.Attempts != 1 {
			r.Errorf("got %+v", j)
		}
	}},
	{"a failed job backs off for the given time and keeps its turn", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a", "b", "c")
		t0 := r.clock.Now()
		r.fail(time.Minute, r.grant(q, 1, "a")...)
		r.deliver(r.grant(q, 1, "b")...)
		r.clock.Set(t0.Add(time.Minute - time.Microsecond))
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		r.grant(q, 9)
		r.check(r.e.Resume(r.ctx, q))
		r.state(queue.Scheduled, q, "a")
		r.clock.Advance(time.Microsecond)
		v := r.grant(q, 9, "a", "c")
		if v[0].Attempt != 2 || v[1].Attempt != 1 {
			r.Errorf("attempts %d and %d", v[0].Attempt, v[1].Attempt)
		}
		if i := r.info(q); i.Retried != 1 || i.Leased != 2 {
			r.Errorf("counted %+v", i)
		}
	}},
	{"a scheduled job does not hold up the jobs behind it", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a", "b", "c")
		r.fail(250*time.Millisecond, r.grant(q, 1, "a")...)
		var order []string
		for range 100 {
			for _, v := range r.reserve(q, 9) {
				r.deliver(v)
				order = append(order, v.ID)
			}
			r.clock.Advance(10 * time.Millisecond)
		}
		r.sameDepartures(strings.Join(order, " "), "b c a")
	}},
	{"a due job waits, whatever the pace", func(r *rig) {
		q := r.queue("q", "1/h")
		r.accept(q, "a", "b")
		r.fail(time.Minute, r.grant(q, 1, "a")...)
		r.clock.Advance(time.Minute)
		r.grant(q, 9)
		if j := r.job(q, "a"); j.State != queue.Waiting || j.Position != 1 || j.Attempts != 1 {
			r.Errorf("got %+v", j)
		}
		r.clock.Advance(time.Hour - time.Minute)
		r.deliver(r.grant(q, 9, "a")...)
		r.grant(q, 9)
		r.clock.Advance(time.Hour)
		r.sameIDs(r.drain(q), "b")
	}},
	{"a hundred jobs become due a visit, all of them eventually, each at its turn", func(r *rig) {
		q := r.queue("q", "unlimited")
		want := numbered("j", 250)
		r.accept(q, want...)
		v := r.grant(q, 500, want...)
		for i := range v {
			r.fail(time.Duration(250-i)*time.Millisecond, v[i])
		}
		r.clock.Advance(time.Second)
		seen := map[string]bool{}
		for _, v := range r.drain(q) {
			seen[v.ID] = true
			if v.Attempt != 2 {
				r.Errorf("%s at attempt %d", v.ID, v.Attempt)
			}
		}
		if len(seen) != len(want) {
			r.Errorf("%d of %d came back", len(seen), len(want))
		}
	}},
	{"the last failure ends the job", func(r *rig) {
		q := r.queue("q", "unlimited", leased(10*time.Second, 3))
		r.accept(q, "a")
		for attempt := 1; attempt <= 3; attempt++ {
			v := r.grant(q, 9, "a")
			if v[0].Attempt != attempt {
				r.Errorf("attempt %d, want %d", v[0].Attempt, attempt)
			}
			s := settlement(queue.Fail, v[0])
			s.After, s.Reason = time.Second, fmt.Sprint("failure ", attempt)
			if attempt < 3 {
				r.settled(queue.Scheduled, s)
			} else {
				r.settled(queue.Dead, s)
				r.settled(queue.Dead, s) // settled again
			}
			r.clock.Advance(time.Second)
		}
		r.grant(q, 9)
		if j := r.job(q, "a"); j.State != queue.Dead || j.Attempts != 3 || j.Reason != "failure 3" {
			r.Errorf("got %+v", j)
		}
		if i := r.info(q); i.Retried != 2 || i.Died != 1 {
			r.Errorf("counted %+v", i)
		}
	}},
	{"with one attempt, the first failure ends the job", func(r *rig) {
		q := r.queue("q", "unlimited", leased(10*time.Second, 1))
		r.accept(q, "a")
		r.settled(queue.Dead, settlement(queue.Fail, r.grant(q, 9, "a")[0]))
	}},
	{"a lowered number of attempts applies to jobs under way", func(r *rig) {
		q := r.queue("q", "unlimited", leased(10*time.Second, 8))
		r.accept(q, "a")
		r.fail(0, r.grant(q, 9, "a")...)
		v := r.grant(q, 9, "a")
		r.queue(q, "unlimited", leased(10*time.Second, 2))
		r.settled(queue.Dead, settlement(queue.Fail, v[0]))
	}},
	{"a repeated settlement gets the same answer and has no further effect", func(r *rig) {
		q := r.queue("q", "unlimited")
		for verdict, want := range map[queue.Verdict]queue.State{
			queue.Deliver: queue.Delivered, queue.Bury: queue.Dead, queue.Fail: queue.Scheduled,
			queue.Release:  queue.Waiting,
			queue.Throttle: queue.Waiting, queue.Down: queue.Waiting,
		} {
			id := verdict.String()
			r.accept(q, id)
			s := settlement(verdict, r.grant(q, 9, id)[0])
			// The queue would stop by this.
			if s.After = time.Minute; verdict == queue.Throttle || verdict == queue.Deliver {
				s.After = 0
			}
			r.settled(want, s)
			before := r.info(q)
			r.clock.Advance(10 * time.Second)
			r.settled(want, s)
			for _, other := range []queue.Verdict{
				queue.Deliver, queue.Bury, queue.Fail, queue.Release, queue.Throttle, queue.Down,
			} {
				if o := s; other != verdict {
					o.Verdict = other
					r.stale(o)
				}
			}
			r.state(want, q, id)
			after := r.info(q)
			if after.Delivered != before.Delivered || after.Died != before.Died || after.Retried != before.Retried ||
				after.Released != before.Released || after.Throttled != before.Throttled || after.Down != before.Down ||
				after.Size() != before.Size() {
				r.Errorf("%v, repeated, counted again: %+v, before %+v", verdict, after, before)
			}
			if verdict == queue.Fail {
				r.clock.Advance(50*time.Second - time.Microsecond)
				r.grant(q, 9)
				r.clock.Advance(time.Microsecond)
			}
			if want == queue.Scheduled || want == queue.Waiting {
				v := r.grant(q, 9, id)
				r.settled(want, s) // the last accepted settlement, although the job is leased again
				r.deliver(v...)
				r.stale(s)
			}
		}
	}},
	{"of two verdicts in one call, the first counts", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a", "b")
		v := r.grant(q, 9, "a", "b")
		out := r.settle(settlement(queue.Deliver, v[0]), settlement(queue.Deliver, v[0]), settlement(queue.Fail, v[0]),
			settlement(queue.Release, v[1]), settlement(queue.Deliver, v[1]), settlement(queue.Release, v[1]))
		for i, want := range []queue.Settled{
			{State: queue.Delivered},
			{State: queue.Delivered},
			{Stale: true},
			{State: queue.Waiting},
			{Stale: true},
			{State: queue.Waiting},
		} {
			if out[i] != want {
				r.Errorf("settlement %d: %+v, want %+v", i, out[i], want)
			}
		}
	}},
	{"a stale fence cannot settle", func(r *rig) {
		q := r.queue("q", "unlimited", leased(10*time.Second, 100))
		r.accept(q, "a", "b", "c")
		old := r.grant(q, 2, "a", "b")
		r.clock.Advance(10 * time.Second)
		young := r.grant(q, 2, "a", "b")
		for _, verdict := range []queue.Verdict{
			queue.Deliver, queue.Fail, queue.Bury, queue.Release, queue.Throttle, queue.Down,
		} {
			r.stale(settlement(verdict, old[0]))
			swapped := settlement(verdict, young[0])
			swapped.Fence = young[1].Fence
			r.stale(swapped)
			for _, fence := range []queue.Fence{
				"", "x", "1", "00000000-1", "\x00", "99999999999999999999999999", "-",
				queue.Fence(strings.Repeat("9", 10_000)),
			} {
				planted := settlement(verdict, young[0])
				planted.Fence = fence
				r.stale(planted)
			}
			for _, nowhere := range []queue.Lease{
				{Queue: q, ID: "c", Fence: young[0].Fence},
				{Queue: q, ID: "nobody", Fence: young[0].Fence},
				{Queue: "nobody", ID: "a", Fence: young[0].Fence},
				{Queue: "not a name", ID: "a b", Fence: "x"},
				{},
			} {
				r.stale(queue.Settlement{Lease: nowhere, Verdict: verdict})
			}
		}
		r.deliver(young...)
		r.stale(settlement(queue.Deliver, old[0]))
	}},
	{"a settlement is remembered as long as its job", func(r *rig) {
		q := r.queue("q", "unlimited", remember(time.Minute))
		r.accept(q, "a", "b")
		v := r.grant(q, 2, "a", "b")
		r.deliver(v[0])
		r.settled(queue.Dead, settlement(queue.Bury, v[1]))
		r.clock.Advance(time.Minute - time.Microsecond)
		r.deliver(v[0])
		r.settled(queue.Dead, settlement(queue.Bury, v[1]))
		r.clock.Advance(time.Microsecond)
		r.stale(settlement(queue.Deliver, v[0]))
		r.stale(settlement(queue.Bury, v[1]))
	}},
	{"a lease taken back is stale even before the job is granted again", func(r *rig) {
		q := r.queue("q", "1/h", leased(10*time.Second, 100))
		r.accept(q, "a")
		v := r.grant(q, 9, "a")
		r.clock.Advance(10 * time.Second)
		r.grant(q, 9)
		r.state(queue.Waiting, q, "a")
		r.stale(settlement(queue.Deliver, v[0]))
	}},
	{"one call may settle jobs of many queues", func(r *rig) {
		var all []queue.Reservation
		for i := range 12 {
			q := r.queue(fmt.Sprint("q", i), "unlimited")
			r.accept(q, numbered("j", 100)...)
			all = append(all, r.reserve(q, 100)...)
		}
		var list []queue.Settlement
		for i := range all {
			list = append(list, settlement(queue.Deliver, all[i*7%len(all)]))
		}
		for i, s := range r.settle(list...) {
			if s.State != queue.Delivered || s.Stale || s.Err != nil {
				r.Fatalf("settlement %d: %+v", i, s)
			}
		}
		if out := r.settle(); len(out) != 0 {
			r.Errorf("settling nothing: %v", out)
		}
	}},
	{"the last ten failures are kept, with shortened reasons", func(r *rig) {
		q := r.queue("q", "unlimited")
		list := numbered("j", 13)
		r.accept(q, list...)
		long := strings.Repeat("0123456789", 100)
		var at []time.Time
		for i, v := range r.grant(q, 99, list...) {
			r.clock.Advance(time.Millisecond)
			at = append(at, r.clock.Now().Time())
			s := settlement(queue.Fail, v)
			s.After, s.Reason = time.Hour, fmt.Sprint("failure ", i+1, " ", long)
			if i%3 == 0 {
				s.Verdict = queue.Bury
			}
			if out := r.settle(s)[0]; out.Stale {
				r.Fatal("stale")
			}
		}
		errs := r.info(q).Errors
		if len(errs) != 10 {
			r.Fatalf("%d failures kept", len(errs))
		}
		for k, e := range errs {
			i := 12 - k
			want := fmt.Sprint("failure ", i+1, " ", long)[:queue.MaxReasonBytes]
			if e.ID != list[i] || !e.At.Equal(at[i]) || e.Reason != want {
				r.Errorf("failure %d: %s at %v, %.30q of %d bytes", k, e.ID, e.At, e.Reason, len(e.Reason))
			}
		}
		for _, id := range list[:2] {
			if j := r.job(q, id); len(j.Reason) != queue.MaxReasonBytes {
				r.Errorf("%s keeps %d bytes of its reason", id, len(j.Reason))
			}
		}
	}},
}
