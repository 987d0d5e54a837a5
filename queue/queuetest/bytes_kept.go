package queuetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/internal/jobsize"
	"github.com/penstock/penstock/queue/unit"
)

func rejectsForDead(s *queue.Spec) { s.Retention.Full = queue.Reject }

func maxDeferredBytes(most unit.Bytes) func(*queue.Spec) {
	return func(s *queue.Spec) { s.Deferred.MaxBytes = most }
}

// keeps checks the bytes of a queue's jobs: in the queue, dead, and deferred.
func (r *rig) keeps(queueName string, in, dead, deferred int64) {
	r.Helper()
	if i := r.info(queueName); i.Bytes != in || i.DeadBytes != dead || i.DeferredBytes != deferred {
		r.Errorf("%s: %d bytes in the queue, %d dead, %d deferred; want %d, %d, %d", queueName, i.Bytes, i.DeadBytes,
			i.DeferredBytes, in, dead, deferred)
	}
}

// die buries jobs of 1000 bytes each, a second apart.
func (r *rig) die(queueName string, ids ...string) {
	r.Helper()
	for _, id := range ids {
		r.buried("refused", kilo(queueName, id)...)
		r.clock.Advance(time.Second)
	}
}

var bytesKeptRules = []rule{
	{"jobs that die in a loop never exceed max_bytes", func(r *rig) {
		q := r.queue("q", "unlimited", maxBytes(10_000))
		for n := range 50 {
			r.die(q, fmt.Sprintf("j%02d", n))
		}
		r.keeps(q, 0, 10_000, 0)
		if i := r.info(q); i.Dead != 10 || i.Died != 50 || i.Dropped != 40 {
			r.Errorf("%d dead, %d died, %d dropped", i.Dead, i.Died, i.Dropped)
		}
		r.dead(q, "j40 j41 j42 j43 j44 j45 j46 j47 j48 j49")
		_, err := r.e.Job(r.ctx, q, "j39")
		r.refuses(err, queue.ErrUnknownJob)
		r.acceptJobs(kilo(q, "j39")...) // nothing remains
	}},
	{"an accepted job drops as many dead jobs as it needs and no more", func(r *rig) {
		q := r.queue("q", "unlimited", maxBytes(5000))
		r.die(q, "a", "b", "c", "d")
		r.acceptJobs(sized("", q, "x", 1000))
		r.keeps(q, 1000, 4000, 0)
		r.acceptJobs(sized("", q, "y", 1001))
		r.keeps(q, 2001, 2000, 0)
		r.dead(q, "c d")
		r.outOfBytes(queue.Full, sized("", q, "z", 3000), queue.ByteBound{Held: 2001, Max: 5000, Needs: 3000})
		r.dead(q, "c d") // it would not fit without them either
		r.outcomes(r.append(kilo(q, "1", "2", "3")...), queue.Accepted, queue.Accepted, queue.Full)
		r.keeps(q, 4001, 0, 0)
	}},
	{"room is made once a call, after all ids are compared", func(r *rig) {
		q := r.queue("q", "unlimited", maxBytes(3000))
		r.die(q, "a", "b", "c")
		r.outcomes(r.append(kilo(q, "d")[0], job(q, "a")), queue.Accepted, queue.Conflict)
		r.dead(q, "b c")
		r.acceptJobs(job(q, "a"))
	}},
	{"with retention.full reject, jobs are refused and no dead job is dropped", func(r *rig) {
		q := r.queue("q", "unlimited", maxBytes(3000), rejectsForDead)
		r.die(q, "a", "b")
		r.acceptJobs(kilo(q, "c")...)
		bound := queue.ByteBound{Held: 3000, Max: 3000, Needs: 1000}
		r.outOfBytes(queue.Full, kilo(q, "d")[0], bound)
		r.settled(queue.Dead, settlement(queue.Bury, r.grant(q, 1, "c")[0]))
		r.outOfBytes(queue.Full, kilo(q, "d")[0], bound)
		r.keeps(q, 0, 3000, 0)
		r.replays(q, []string{"a"}, queue.Replayed) // moves its bytes
		r.keeps(q, 1000, 2000, 0)
		r.outOfBytes(queue.Full, kilo(q, "d")[0], bound)
		r.forgets(q, []string{"b"}, true)
		r.acceptJobs(kilo(q, "d")...)
		r.keeps(q, 2000, 1000, 0)
		if i := r.info(q); i.Dropped != 0 || i.Refused != 3 {
			r.Errorf("%d dropped, %d refused", i.Dropped, i.Refused)
		}
	}},
	{"dead jobs beyond retention.max are counted as dropped, jobs past their retention are not", func(r *rig) {
		q := r.queue("q", "unlimited", kept(time.Minute, 2))
		r.die(q, "a", "b", "c")
		r.keeps(q, 0, 2000, 0)
		r.clock.Advance(2 * time.Minute)
		r.keeps(q, 0, 0, 0)
		if i := r.info(q); i.Dropped != 1 || i.Dead != 0 {
			r.Errorf("%d dropped, %d dead", i.Dropped, i.Dead)
		}
	}},
	{"dead jobs past their retention that make room are not counted as dropped", func(r *rig) {
		names := []string{"g.a", "g.b", "g.c"}
		for _, q := range names {
			r.queue(q, "unlimited", maxBytes(3000), kept(time.Minute, 9))
			r.die(q, "a", "b", "c")
		}
		r.clock.Advance(2 * time.Minute)
		for _, q := range slices.Backward(names) { // engines trim one name a call
			r.acceptJobs(kilo(q, "d")...)
			if i := r.info(q); i.Dropped != 0 {
				r.Errorf("%d dropped from %s", i.Dropped, q)
			}
		}
	}},
	{"with retention.full reject, dead jobs past their retention take no room", func(r *rig) {
		names := []string{"g.a", "g.b", "g.c"}
		for _, q := range names {
			r.queue(q, "unlimited", maxBytes(3000), kept(time.Minute, 9), rejectsForDead)
			r.die(q, "a", "b", "c")
		}
		r.clock.Advance(2 * time.Minute)
		for _, q := range slices.Backward(names) { // engines trim one name a call
			r.acceptJobs(kilo(q, "d")...)
			r.outOfBytes(queue.Full, sized("", q, "e", 2001), queue.ByteBound{Held: 1000, Max: 3000, Needs: 2001})
		}
	}},
	{"with retention.full reject, many dead jobs past their retention take no room", func(r *rig) {
		const many = 150 // more than engines drop at once
		q := r.queue("q", "unlimited", maxBytes(1000*(many+1)), kept(time.Minute, 2*many), rejectsForDead)
		r.buried("", kilo(q, numbered("j", many)...)...)
		r.clock.Advance(time.Minute)
		r.die(q, "young")
		r.outcomes(r.append(sized("", q, "large", 1000*many), sized("", q, "more", 1000)), queue.Accepted, queue.Full)
		r.dead(q, "young")
	}},
	{"dead jobs of a deleted queue count toward its successor", func(r *rig) {
		q := r.queue("q", "unlimited", maxBytes(3000), rejectsForDead)
		r.die(q, "a", "b", "c")
		r.delete(q)
		list := r.deadQueues()
		if len(list) != 1 || list[0].Bytes != 3000 || !list[0].Gone {
			r.Errorf("got %+v", list)
		}
		r.forgets(q, []string{"a"}, true)
		if list := r.deadQueues(); len(list) != 1 || list[0].Bytes != 2000 {
			r.Errorf("got %+v", list)
		}
		r.queue(q, "unlimited", maxBytes(3000), rejectsForDead)
		r.keeps(q, 0, 2000, 0)
		r.outcomes(r.append(kilo(q, "d", "e")...), queue.Accepted, queue.Full)
		r.settled(queue.Dead, settlement(queue.Bury, r.grant(q, 1, "d")[0]))
		r.clock.Advance(time.Second)
		r.queue(q, "unlimited", maxBytes(3000))
		r.buried("again", sized("", q, "b", 600)) // replaces the former b
		r.keeps(q, 0, 2600, 0)
	}},
	{"an id that dies again counts once", func(r *rig) {
		q := r.queue("q", "unlimited", maxBytes(10_000))
		r.die(q, "a")
		r.delete(q)
		r.queue(q, "unlimited", maxBytes(10_000))
		r.buried("again", sized("", q, "a", 700))
		r.keeps(q, 0, 700, 0)
		r.replays(q, []string{"a"}, queue.Replayed)
		r.keeps(q, 700, 0, 0)
	}},
	{"deferred jobs count toward max_bytes", func(r *rig) {
		s := r.overflowOf("q", "unlimited", maxBytes(4000), withCapacity(2))
		r.acceptJobs(kilo(s.q, "a", "b")...)
		s.asideJobs(kilo(s.q, "c", "d")...)
		r.keeps(s.q, 2000, 0, 2000)
		r.offered(queue.OverflowFull, kilo(s.q, "e")[0])
		r.deliver(r.drainable(s.q)...)
		r.keeps(s.q, 0, 0, 2000)
		s.asideJobs(kilo(s.q, "f", "g")...) // behind the others
		r.offered(queue.OverflowFull, kilo(s.q, "h")[0])
		s.takes(readmit.Returned, readmit.NotYet, readmit.NotYet, readmit.NotYet)
		r.keeps(s.q, 1000, 0, 3000)
		r.offered(queue.OverflowFull, kilo(s.q, "h")[0])
		r.cancels(queue.Cancelled, s.q, "d")
		r.keeps(s.q, 1000, 0, 2000)
		s.asideJobs(kilo(s.q, "h")...)
	}},
	{"deferred jobs have the bound deferred.max_bytes instead", func(r *rig) {
		s := r.overflowOf("q", "unlimited", maxBytes(2000), maxDeferredBytes(3000))
		r.acceptJobs(kilo(s.q, "a", "b")...)
		s.asideJobs(kilo(s.q, "c", "d", "e")...)
		r.offered(queue.OverflowFull, kilo(s.q, "f")[0])
		r.keeps(s.q, 2000, 0, 3000)
		r.deliver(r.drainable(s.q)...)
		s.takes(readmit.Returned, readmit.NotYet, readmit.NotYet)
		r.keeps(s.q, 1000, 0, 2000)
		s.asideJobs(kilo(s.q, "f")...)
	}},
	{"a deferral that is withdrawn, or dies, takes its bytes along", func(r *rig) {
		s := r.overflowOf("q", "unlimited", maxBytes(4000), withCapacity(1), deferredFor(time.Minute, time.Hour))
		r.acceptJobs(kilo(s.q, "a")...)
		a := r.offered(queue.SetAside, kilo(s.q, "b")[0])
		r.keeps(s.q, 1000, 0, 1000)
		r.withdrawsOne(ticketed(a, s.q))
		r.keeps(s.q, 1000, 0, 0)
		s.asideJobs(kilo(s.q, "c")...)
		r.clock.Advance(2 * time.Minute)
		s.takes(readmit.TooOld)
		r.keeps(s.q, 1000, 1000, 0)
	}},
	{"ended jobs are forgotten for lack of room, except for some", func(r *rig) {
		most := unit.Bytes(100 * jobsize.Overhead)
		q := r.queue("q", "unlimited", maxBytes(most))
		free := jobsize.Remembered(int64(most))
		ids := numbered("j", int(free)+50)
		for _, id := range ids {
			r.accept(q, id)
			r.deliver(r.grant(q, 1, id)...)
		}
		r.state(queue.Delivered, q, ids[0]) // there is room
		r.acceptJobs(sized("", q, "large", int64(most)))
		_, err := r.e.Job(r.ctx, q, ids[49])
		r.refuses(err, queue.ErrUnknownJob)
		r.state(queue.Delivered, q, ids[50])
		r.outcome(queue.Duplicate, job(q, ids[50]))
	}},
	{"a moved queue keeps its bytes", func(r *rig) {
		q := r.queue("q", "unlimited", maxBytes(5000))
		r.die(q, "a", "b")
		r.acceptJobs(kilo(q, "c")...)
		r.move(r.export(q))
		r.keeps(q, 1000, 2000, 0)
		r.acceptJobs(kilo(q, "d", "e", "f")...)
		r.keeps(q, 4000, 1000, 0)
	}},
	{"max_bytes lowered below use refuses more and drops nothing", func(r *rig) {
		q := r.queue("q", "unlimited", maxBytes(5000), rejectsForDead)
		r.die(q, "a", "b")
		r.acceptJobs(kilo(q, "c", "d")...)
		r.queue(q, "unlimited", maxBytes(2000), rejectsForDead)
		r.keeps(q, 2000, 2000, 0)
		r.outOfBytes(queue.Full, kilo(q, "e")[0], queue.ByteBound{Held: 4000, Max: 2000, Needs: 1000})
		r.deliver(r.drainable(q)...)
		r.outOfBytes(queue.Full, kilo(q, "e")[0], queue.ByteBound{Held: 2000, Max: 2000, Needs: 1000})
		r.queue(q, "unlimited", maxBytes(2000))
		r.keeps(q, 0, 2000, 0)
		r.acceptJobs(kilo(q, "e")...)
		r.keeps(q, 1000, 1000, 0)
	}},
}
