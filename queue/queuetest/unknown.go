package queuetest

import (
	"slices"
	"time"

	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/queue"
)

var unknownRules = []rule{
	{"a job whose lease ran out is held", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 1), onUnknown(queue.UnknownHold))
		r.accept(q, "a", "b")
		t0 := r.clock.Now()
		v := r.grant(q, 1, "a")
		r.clock.Advance(time.Minute)
		if res := r.reserveAs("other", q, 1); !slices.Equal(res.Expired, []string{q}) || len(res.Jobs) != 1 ||
			res.Jobs[0].ID != "b" {
			r.Errorf("got %+v", res)
		}
		if j := r.job(q, "a"); j.State != queue.Held || j.Attempts != 1 || j.Reason != mayHaveBeenSent ||
			instantOf(j.HeldAt) != r.clock.Now() {
			r.Errorf("got %+v", j)
		}
		r.timeline(t0.Time(), q, "a", wantAttempt{0, 60, "client@bench", queue.AttemptUnknown, ""})
		if i := r.info(q); i.Expired != 1 || i.Held != 1 || i.Leased != 1 || len(i.Errors) != 1 ||
			i.Errors[0].Reason != mayHaveBeenSent {
			r.Errorf("got %+v", i)
		}
		r.stale(settlement(queue.Deliver, v[0]))
		r.stale(settlement(queue.Hold, v[0]))
		r.extend(v[0], 0)
		r.decides(q, "a", queue.Deliver, "", queue.Delivered)
		r.stale(settlement(queue.Deliver, v[0]))
	}},
	{"or it is dead", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 9), onUnknown(queue.UnknownDead))
		r.accept(q, "a")
		t0 := r.clock.Now()
		r.grant(q, 1, "a")
		r.clock.Advance(time.Minute)
		r.grant(q, 1)
		if j := r.job(q, "a"); j.State != queue.Dead || j.Attempts != 1 || j.Reason != mayHaveBeenSent {
			r.Errorf("got %+v", j)
		}
		r.timeline(t0.Time(), q, "a", wantAttempt{0, 60, "client@bench", queue.AttemptDied, ""})
		r.tallies(q, tally{appended: 1, died: 1, dead: 1, ran: 1})
	}},
	{"or it waits again, where it may be sent twice", func(r *rig) {
		for _, s := range []string{"", queue.UnknownRetry} {
			q := r.queue("q", "unlimited", leased(time.Minute, 2), onUnknown(s))
			r.accept(q, "a")
			r.grant(q, 1, "a")
			r.clock.Advance(time.Minute)
			r.grant(q, 1, "a")
			r.clock.Advance(time.Minute)
			r.grant(q, 1)
			r.state(queue.Dead, q, "a")
			r.erase(q)
		}
	}},
	{"the spec counts as it is when the lease is taken back", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 9))
		r.accept(q, "a", "b")
		r.grant(q, 1, "a")
		r.queue(q, "unlimited", leased(time.Minute, 9), onUnknown(queue.UnknownHold))
		r.clock.Advance(time.Minute)
		r.grant(q, 1, "b")
		r.state(queue.Held, q, "a")
		r.queue(q, "unlimited", leased(time.Minute, 9), onUnknown(queue.UnknownRetry))
		r.clock.Advance(time.Minute)
		r.deliver(r.grant(q, 9, "b")...)
		r.state(queue.Held, q, "a")
		r.drainHeld(q)
	}},
	{"an explicit settlement decides for itself", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 9), onUnknown(queue.UnknownHold))
		r.accept(q, "a", "b", "c", "d")
		v := r.grant(q, 9, "a", "b", "c", "d")
		r.release(v[0])
		r.fail(time.Hour, v[1])
		r.settled(queue.Dead, settlement(queue.Bury, v[2]))
		r.deliver(v[3])
		r.release(v[0]) // settled again
		r.clock.Advance(time.Hour)
		r.deliver(r.grant(q, 9, "a", "b")...)
		r.tallies(q, tally{appended: 4, delivered: 3, died: 1, dead: 1, retried: 1})
	}},
	{"an extended lease is not taken back", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 9), onUnknown(queue.UnknownHold))
		r.accept(q, "a")
		v := r.grant(q, 9, "a")
		r.clock.Advance(50 * time.Second)
		r.extend(v[0], time.Minute)
		r.clock.Advance(50 * time.Second)
		r.grant(q, 9)
		r.deliver(v...)
	}},
	{"a lane or queue continues when one of its jobs is held", func(r *rig) {
		for _, change := range []func(*queue.Spec){ordered, everyLane(queue.LaneRule{MaxInFlight: 1}), maxInFlight(1)} {
			q := r.queue("q", "unlimited", change, leased(time.Second, 9), onUnknown(queue.UnknownHold))
			r.acceptJobs(jobsOfLane("x", q, "a", "b")...)
			r.grant(q, 9, "a")
			r.clock.Advance(time.Second)
			r.deliver(r.grant(q, 9, "b")...)
			r.decides(q, "a", queue.Deliver, "", queue.Delivered)
			r.delete(q)
		}
	}},
	{"an export treats leases like a restart", func(r *rig) {
		for on, want := range map[string]queue.State{
			queue.UnknownHold: queue.Held, queue.UnknownDead: queue.Dead, queue.UnknownRetry: queue.Waiting,
		} {
			q := r.queue("q", "unlimited", leased(10*time.Second, 9), onUnknown(on))
			r.accept(q, "a", "b")
			r.grant(q, 1, "a")
			r.clock.Advance(9 * time.Second)
			r.grant(q, 1, "b")
			r.clock.Advance(time.Second)
			for i, j := range r.exportState(q, queue.Leased) {
				lease := []move.Lease{move.LeaseOver, move.LeaseHeld}[i]
				spent, reason := 1, mayHaveBeenSent
				switch {
				case want != queue.Waiting:
				case i == 0:
					reason = "the lease ran out"
				default:
					spent, reason = 0, ""
				}
				if j.State != want || j.Lease != lease || j.Attempts != spent || j.Reason != reason ||
					(want != queue.Waiting) == j.At.IsZero() {
					r.Errorf("%s, %s: exported %+v", on, j.ID, j)
				}
			}
			r.delete(q)
		}
	}},
}

var patienceRules = []rule{
	{"a job that would be retried too late is dead", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 9), patience(time.Minute))
		r.accept(q, "a", "b")
		t0 := r.clock.Now()
		r.fail(time.Minute, r.grant(q, 1, "a")...)
		s := settlement(queue.Fail, r.grant(q, 1, "b")[0])
		s.After, s.Reason = time.Minute+time.Microsecond, "421"
		r.settled(queue.Dead, s)
		r.settled(queue.Dead, s) // settled again
		r.timeline(t0.Time(), q, "b", wantAttempt{0, 0, "client@bench", queue.AttemptDied, "421"})
		r.clock.Advance(time.Minute)
		s = settlement(queue.Fail, r.grant(q, 9, "a")[0])
		r.settled(queue.Scheduled, s)
		r.clock.Advance(time.Microsecond)
		r.settled(queue.Dead, settlement(queue.Fail, r.grant(q, 9, "a")[0]))
		r.tallies(q, tally{appended: 2, died: 2, dead: 2, retried: 2})
	}},
	{"the deadline counts from the append, or from the replay", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 9), patience(time.Minute))
		r.accept(q, "a")
		r.clock.Advance(time.Hour)
		r.settled(queue.Dead, settlement(queue.Fail, r.grant(q, 9, "a")[0]))
		r.replays(q, []string{"a"}, queue.Replayed)
		r.fail(time.Minute, r.grant(q, 9, "a")...)
	}},
	{"released, held and lost jobs may have any age", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 9), patience(time.Second))
		r.accept(q, "a")
		r.clock.Advance(time.Hour)
		r.release(r.grant(q, 9, "a")...)
		r.hold("", r.grant(q, 9, "a")...)
		r.decides(q, "a", queue.Release, "", queue.Waiting)
		r.grant(q, 9, "a")
		r.clock.Advance(time.Minute)
		r.deliver(r.grant(q, 9, "a")...)
	}},
	{"a changed deadline applies to jobs under way", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 9), patience(time.Second))
		r.accept(q, "a", "b")
		r.clock.Advance(time.Hour)
		v := r.grant(q, 9, "a", "b")
		r.queue(q, "unlimited", leased(time.Minute, 9))
		r.fail(time.Hour, v[0])
		r.queue(q, "unlimited", leased(time.Minute, 9), patience(time.Minute))
		r.settled(queue.Dead, settlement(queue.Fail, v[1]))
	}},
}
