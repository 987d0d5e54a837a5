package queuetest

import (
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// duplicate appends a job that must be known already.
func (r *rig) duplicate(j queue.Job, state queue.State, position int64) {
	r.Helper()
	if a := r.outcome(queue.Duplicate, j); a.State != state || a.Position != position || a.Err != nil {
		r.Errorf("%s: a duplicate in state %v at %d, want %v at %d", j.ID, a.State, a.Position, state, position)
	}
}

func remember(d time.Duration) func(*queue.Spec) {
	return func(s *queue.Spec) { s.Retention.For = unit.Duration(d) }
}

var onceRules = []rule{
	{"the same job again is a duplicate in any state", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a", "b", "c")
		b := job(q, "b")
		r.duplicate(b, queue.Waiting, 2)
		r.deliver(r.grant(q, 1, "a")...)
		r.duplicate(b, queue.Waiting, 1)
		v := r.grant(q, 1, "b")
		r.duplicate(b, queue.Leased, 0)
		r.fail(time.Minute, v...)
		r.duplicate(b, queue.Scheduled, 0)
		r.clock.Advance(time.Minute)
		v = r.grant(q, 1, "b")
		r.deliver(v...)
		r.duplicate(b, queue.Delivered, 0)
		r.settled(queue.Dead, settlement(queue.Bury, r.grant(q, 1, "c")[0]))
		r.duplicate(job(q, "c"), queue.Dead, 0)
		if i := r.info(q); i.Appended != 3 || i.Size() != 0 {
			r.Errorf("%d counted, %d held", i.Appended, i.Size())
		}
	}},
	{"another job with the same id is a conflict and changes nothing", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a")
		changes := map[string]func(*queue.Job){
			"payload":      func(j *queue.Job) { j.Payload = append([]byte(" "), j.Payload...) },
			"content type": func(j *queue.Job) { j.ContentType = "text/plain" },
			"cost":         func(j *queue.Job) { j.Cost = 2 },
		}
		conflicts := func() {
			r.Helper()
			for what, change := range changes {
				j := job(q, "a")
				change(&j)
				if a := r.append(j)[0]; a.Outcome != queue.Conflict {
					r.Errorf("another %s: %v", what, a.Outcome)
				}
			}
		}
		conflicts()
		v := r.grant(q, 1, "a")
		conflicts()
		if string(v[0].Payload) != string(job(q, "a").Payload) || v[0].Cost != 1 {
			r.Errorf("a conflict changed the job: %+v", v[0])
		}
		r.deliver(v...)
		conflicts()
		r.duplicate(job(q, "a"), queue.Delivered, 0)
	}},
	{"explicit defaults make the same job, and headers do not count", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a")
		j := job(q, "a")
		j.ContentType, j.Cost, j.Headers = queue.DefaultContentType, 1, map[string]string{"X-Trace": "2"}
		r.duplicate(j, queue.Waiting, 1)
		if v := r.grant(q, 1, "a"); len(v[0].Headers) != 0 {
			r.Errorf("a duplicate's headers came in: %v", v[0].Headers)
		}
	}},
	{"duplicates are found within one call too", func(r *rig) {
		q := r.queue("q", "unlimited")
		other := job(q, "a")
		other.Payload = []byte("other")
		a := r.append(job(q, "a"), job(q, "b"), job(q, "a"), other, job(q, "b"))
		want := []queue.AppendOutcome{queue.Accepted, queue.Accepted, queue.Duplicate, queue.Conflict, queue.Duplicate}
		for i := range a {
			if a[i].Outcome != want[i] {
				r.Errorf("job %d: %v, want %v", i, a[i].Outcome, want[i])
			}
		}
		if a[2].Position != 1 || a[4].Position != 2 {
			r.Errorf("duplicates at %d and %d, want 1 and 2", a[2].Position, a[4].Position)
		}
		r.sameIDs(r.drain(q), "a", "b")
	}},
	{"two queues may have the same id", func(r *rig) {
		p, q := r.queue("g.p", "unlimited"), r.queue("g.q", "unlimited")
		other := job(q, "a")
		other.Payload = []byte("other")
		r.acceptJobs(job(p, "a"), other)
		v := r.grant(p, 2, "a", "a")
		if v[0].Queue != p || v[1].Queue != q || string(v[1].Payload) != "other" {
			r.Fatalf("granted %+v", v)
		}
		r.deliver(v[0])
		r.state(queue.Delivered, p, "a")
		r.state(queue.Leased, q, "a")
		swapped := settlement(queue.Deliver, v[1])
		swapped.Queue = p
		r.stale(swapped)
		r.deliver(v[1])
	}},
	{"an id is known for the retention, then forgotten", func(r *rig) {
		q := r.queue("q", "unlimited", remember(time.Minute))
		r.accept(q, "a", "b")
		v := r.grant(q, 2, "a", "b")
		r.deliver(v[0])
		r.settled(queue.Dead, settlement(queue.Bury, v[1]))
		other := job(q, "a")
		other.Payload = []byte("other")
		r.clock.Advance(time.Minute - time.Microsecond)
		r.duplicate(job(q, "a"), queue.Delivered, 0)
		r.duplicate(job(q, "b"), queue.Dead, 0)
		r.outcome(queue.Conflict, other)
		r.clock.Advance(time.Microsecond)
		r.outcome(queue.Accepted, other)
		r.outcome(queue.Accepted, job(q, "b"))
		for i, v := range r.drain(q) {
			if want := []string{"other", `{"job":"b"}`}[i]; string(v.Payload) != want || v.Attempt != 1 {
				r.Errorf("%s: %s at attempt %d, want %s at 1", v.ID, v.Payload, v.Attempt, want)
			}
		}
	}},
	{"the retention counts from the end, not from the append", func(r *rig) {
		q := r.queue("q", "unlimited", remember(time.Minute))
		r.accept(q, "a")
		r.clock.Advance(10 * time.Minute)
		r.duplicate(job(q, "a"), queue.Waiting, 1)
		v := r.grant(q, 1, "a")
		r.clock.Advance(20 * time.Second)
		r.deliver(v...)
		r.clock.Advance(59 * time.Second)
		r.duplicate(job(q, "a"), queue.Delivered, 0)
	}},
	{"beyond the retained number the oldest are forgotten, delivered and dead apart", func(r *rig) {
		q := r.queue("q", "unlimited", func(s *queue.Spec) { s.Retention.Max = 3 })
		end := func(verdict queue.Verdict, want queue.State, list ...string) {
			r.accept(q, list...)
			for _, v := range r.grant(q, 9, list...) {
				r.clock.Advance(time.Millisecond)
				r.settled(want, settlement(verdict, v))
			}
		}
		end(queue.Deliver, queue.Delivered, "a1", "a2")
		end(queue.Bury, queue.Dead, "d1", "d2")
		end(queue.Deliver, queue.Delivered, "a3", "a4", "a5")
		end(queue.Bury, queue.Dead, "d3", "d4")
		r.reserve(q, 1) // gives the engine an occasion
		for _, id := range []string{"a3", "a4", "a5"} {
			r.duplicate(job(q, id), queue.Delivered, 0)
		}
		for _, id := range []string{"d2", "d3", "d4"} {
			r.duplicate(job(q, id), queue.Dead, 0)
		}
		if i := r.info(q); i.Dead != 3 || i.Died != 4 {
			r.Errorf("%d dead kept of %d", i.Dead, i.Died)
		}
		for _, id := range []string{"a1", "a2", "d1"} {
			r.outcome(queue.Accepted, job(q, id))
		}
	}},
	{"many callers with the same jobs append each job once", func(r *rig) {
		q := r.queue("q", "unlimited")
		list := numbered("j", 200)
		accepted, _ := r.crowd(8, func(int) (n int) {
			for i := 0; i < len(list); i += 10 {
				a, err := r.e.Append(r.ctx, jobs(q, list[i:i+10]...))
				if err != nil {
					r.Errorf("append: %v", err)
				}
				for _, a := range a {
					if a.Outcome == queue.Accepted {
						n++
					} else if a.Outcome != queue.Duplicate {
						r.Errorf("%s: %v, %v", a.ID, a.Outcome, a.Err)
					}
				}
			}
			return n
		})
		if i := r.info(q); accepted != len(list) || i.Waiting != int64(len(list)) {
			r.Errorf("%d accepted, %d waiting, of %d", accepted, i.Waiting, len(list))
		}
		if got := r.drain(q); len(got) != len(list) {
			r.Errorf("%d came out, of %d", len(got), len(list))
		}
	}},
}
