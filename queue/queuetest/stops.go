package queuetest

import (
	"time"

	"github.com/penstock/penstock/queue"
)

// says settles a job with a verdict that the receiver gave.
func (r *rig) says(verdict queue.Verdict, reason string, after time.Duration, v queue.Reservation) queue.Effect {
	r.Helper()
	s := settlement(verdict, v)
	s.Reason, s.After = reason, after
	got := r.settle(s)[0]
	if got.Stale || got.Err != nil {
		r.Fatalf("%v of %s: %+v", verdict, v.ID, got)
	}
	return got.Effect
}

var stopRules = []rule{
	{"a job that the receiver would not look at waits at its turn, and spends no attempt", func(r *rig) {
		for verdict, how := range map[queue.Verdict]queue.AttemptOutcome{queue.Throttle: queue.AttemptThrottled, queue.Down: queue.AttemptDown} {
			q := r.queue("q", "unlimited", leased(time.Minute, 2))
			r.accept(q, "a", "b")
			t0 := r.clock.Now().Time()
			v := r.grant(q, 1, "a")
			r.clock.Advance(time.Second)
			s := settlement(verdict, v[0])
			s.Reason = "not now"
			r.settled(queue.Waiting, s)
			if i := r.job(q, "a"); i.State != queue.Waiting || i.Attempts != 0 || i.Position != 1 {
				r.Errorf("it is %+v", i)
			}
			r.timeline(t0, q, "a", told{0, 1, "client@bench", how, "not now"})
			r.settled(queue.Waiting, s)
			if i := r.info(q); i.Throttled+i.Down != 1 || (i.Down == 1) != (verdict == queue.Down) || i.Released+i.Retried != 0 || i.Waiting != 2 || i.Leased != 0 {
				r.Errorf("%v counted %+v", verdict, i)
			}
			v = r.grant(q, 2, "a", "b")
			if v[0].Attempt != 1 {
				r.Errorf("it is attempt %d", v[0].Attempt)
			}
			r.deliver(v...)
			r.delete(q)
		}
	}},
	{"its slot was used", func(r *rig) {
		for _, verdict := range []queue.Verdict{queue.Throttle, queue.Down} {
			q := r.queue("q", "1/m", limited("quota 2/h"))
			r.accept(q, "a")
			t0 := r.clock.Now()
			r.says(verdict, "", 0, r.grant(q, 1, "a")[0])
			if at := r.info(q).Next; instant(at) != t0.Add(time.Minute) {
				r.Errorf("%v: the next may leave at %v, want a minute after %v", verdict, at, t0.Time())
			}
			r.clock.Advance(time.Minute)
			r.says(verdict, "", 0, r.grant(q, 1, "a")[0])
			if used := r.info(q).Limits[0].Window.Used; used != 2 {
				r.Errorf("%v: %d are used", verdict, used)
			}
			r.check(r.e.Delete(r.ctx, q, queue.AnyRevision, true))
			r.clock.Advance(24 * time.Hour)
		}
	}},
}
