package queuetest

import (
	"errors"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/internal/jobsize"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/unit"
)

// sized returns a job that counts as this many bytes toward max_bytes.
func sized(lane, queueName, id string, bytes int64) queue.Job {
	j := queue.Job{Queue: queueName, ID: id, Lane: lane}
	j.Payload = []byte(strings.Repeat("x", int(bytes-sizeOf(j))))
	return j
}

func sizeOf(j queue.Job) int64 {
	j.Normalize()
	return jobsize.Of(j.ID, len(jobrecord.Pack(&j)))
}

// kilo returns jobs of 1000 bytes each.
func kilo(queueName string, ids ...string) (list []queue.Job) {
	for _, id := range ids {
		list = append(list, sized("", queueName, id, 1000))
	}
	return list
}

func maxBytes(most unit.Bytes) func(*queue.Spec) { return func(s *queue.Spec) { s.MaxBytes = most } }

// checkBytes checks how many bytes a queue holds.
func (r *rig) checkBytes(queueName string, want int64) {
	r.Helper()
	if got := r.info(queueName).Bytes; got != want {
		r.Errorf("%s holds %d bytes, want %d", queueName, got, want)
	}
}

// outOfBytes appends a job that must be refused for lack of bytes.
func (r *rig) outOfBytes(want queue.AppendOutcome, j queue.Job, bound queue.ByteBound) queue.Appended {
	r.Helper()
	a := r.outcome(want, j)
	if a.Bytes != bound || a.Err != nil || a.RetryAfter <= 0 {
		r.Errorf("%s: %+v, want it refused by %+v", j.ID, a, bound)
	}
	return a
}

// neverFits appends, or offers, a job that must be refused permanently.
func (r *rig) neverFits(j queue.Job, of string) {
	r.Helper()
	for _, a := range [][]queue.Appended{r.append(j), r.offer(j)} {
		var field *invalid.Error
		if a[0].Outcome != queue.Invalid || !errors.As(a[0].Err, &field) || field.Field != "payload" ||
			!strings.Contains(field.Reason, of+" of the queue is") {
			r.Errorf("%s: %+v", j.ID, a[0])
		}
	}
}

var bytesRules = []rule{
	{"every job with a place counts its bytes until it ends", func(r *rig) {
		q := r.queue("q", "unlimited", maxBytes(3500), func(s *queue.Spec) { s.Retry.MaxAttempts = 2 })
		r.acceptJobs(kilo(q, "a", "b", "c")...)
		r.checkBytes(q, 3000)
		bound := queue.ByteBound{Held: 3000, Max: 3500, Needs: 1000}
		r.outOfBytes(queue.Full, kilo(q, "d")[0], bound)
		v := r.grant(q, 3, "a", "b", "c")
		r.outOfBytes(queue.Full, kilo(q, "d")[0], bound)
		r.fail(time.Hour, v[0])
		r.release(v[1])
		r.hold("who knows", v[2])
		r.outOfBytes(queue.Full, kilo(q, "d")[0], bound)
		r.cancels(queue.Cancelled, q, "a")
		r.checkBytes(q, 2000)
		r.acceptJobs(kilo(q, "d")...)
		r.decides(q, "c", queue.Bury, "", queue.Dead)
		r.checkBytes(q, 2000)
		r.deliver(r.grant(q, 2, "b", "d")...)
		r.checkBytes(q, 0)
		if i := r.info(q); i.MaxBytes != 3500 || i.Refused != 3 {
			r.Errorf("at most %d, %d refused", i.MaxBytes, i.Refused)
		}
		r.replays(q, []string{"c"}, queue.Replayed)
		r.checkBytes(q, 1000)
		r.settled(queue.Dead, settlement(queue.Bury, r.grant(q, 1, "c")[0]))
		r.checkBytes(q, 0)
	}},
	{"the limit is exact to the byte, also within one call", func(r *rig) {
		q := r.queue("q", "unlimited", maxBytes(2600))
		a := r.append(
			kilo(q, "a")[0], kilo(q, "b")[0], kilo(q, "c")[0], sized("", q, "d", 700), sized("", q, "e", 600),
			kilo(q, "a")[0],
		)
		r.outcomes(a, queue.Accepted, queue.Accepted, queue.Full, queue.Full, queue.Accepted, queue.Duplicate)
		r.checkBytes(q, 2600)
		r.outOfBytes(queue.Full, sized("", q, "f", 600), queue.ByteBound{Held: 2600, Max: 2600, Needs: 600})
	}},
	{"jobs of every kind count the same", func(r *rig) {
		q := r.queue("q", "unlimited", maxBytes(1<<20))
		in := r.clock.Now().Time().Add(time.Minute)
		list := []queue.Job{
			job(q, "plain"), job(q, "expires"), job(q, "scheduled"), job(q, "urgent"), job(q, "lane"),
			job(q, "headers"),
		}
		list[1].ExpiresAt, list[2].NotBefore, list[3].Priority, list[4].Lane = in, in, 3, "x"
		list[5].Headers, list[5].ContentType = map[string]string{"X-A": "b"}, "text/plain"
		var sum int64
		for _, j := range list {
			sum += sizeOf(j)
		}
		r.outcomes(
			r.append(list...), queue.Accepted, queue.Accepted, queue.Accepted, queue.Accepted, queue.Accepted,
			queue.Accepted,
		)
		r.checkBytes(q, sum)
		r.clock.Advance(2 * time.Minute) // one expires
		r.deliver(r.drainable(q)...)
		r.checkBytes(q, 0)
	}},
	{"a job larger than the limit is refused permanently", func(r *rig) {
		q := r.queue("q", "unlimited", maxBytes(2000), everyLane(queue.LaneRule{MaxBytes: 1500}), defers)
		r.acceptJobs(sized("", q, "a", 2000))
		r.neverFits(sized("", q, "b", 2001), "max_bytes")
		r.neverFits(sized("x", q, "b", 1501), "lanes.max_bytes")
		r.deliver(r.grant(q, 1, "a")...)
		r.acceptJobs(sized("x", q, "b", 1500))
		if i := r.info(q); i.Refused != 0 {
			r.Errorf("%d refused for lack of room", i.Refused)
		}
	}},
	{"a lane has its own limit of bytes", func(r *rig) {
		q := r.queue(
			"q", "10/s", everyLane(queue.LaneRule{MaxBytes: 2500}), except("vip", queue.LaneRule{MaxBytes: 4000}),
		)
		r.acceptJobs(sized("x", q, "x1", 1000), sized("x", q, "x2", 1000))
		a := r.outOfBytes(queue.LaneFull, sized("x", q, "x3", 1000), queue.ByteBound{
			Held: 2000, Max: 2500, Needs: 1000,
		})
		if a.RetryAfter != 100*time.Millisecond { // one of two must leave, and the other lane takes a turn
			r.Errorf("retry after %v, want 100ms", a.RetryAfter)
		}
		if a := r.outOfBytes(queue.LaneFull, sized("x", q, "x3", 2000), queue.ByteBound{
			Held: 2000, Max: 2500, Needs: 2000,
		}); a.RetryAfter != 200*time.Millisecond {
			r.Errorf("retry after %v", a.RetryAfter)
		}
		r.acceptJobs(sized("y", q, "y1", 1000), sized("vip", q, "v1", 4000), sized("", q, "n1", 5000))
		r.seesLane(q, "x", queue.LaneInfo{Waiting: 2, Size: 2, Bytes: 2000})
		r.cancels(queue.Cancelled, q, "x1")
		r.seesLane(q, "x", queue.LaneInfo{Waiting: 1, Size: 1, Bytes: 1000})
		r.acceptJobs(sized("x", q, "x3", 1500))
		r.drain(q)
		r.seesLane(q, "x", queue.LaneInfo{})
		r.checkBytes(q, 0)
	}},
	{"a lane whose jobs expire gives their bytes back", func(r *rig) {
		q := r.queue("q", "unlimited", everyLane(queue.LaneRule{MaxBytes: 2000}))
		j := sized("x", q, "a", 900)
		j.ExpiresAt = r.clock.Now().Time().Add(time.Second)
		bare := sizeOf(queue.Job{Queue: q, ID: "a", Lane: "x"})
		j.Payload = j.Payload[:900-bare]
		r.acceptJobs(j, sized("x", q, "b", 900))
		r.clock.Advance(2 * time.Second)
		r.reserve(q, 0+1)
		r.seesLane(q, "x", queue.LaneInfo{Size: 1, Bytes: 900})
	}},
	{"a refusal promises when enough bytes are free", func(r *rig) {
		q := r.queue("q", "10/s", maxBytes(10_000))
		r.acceptJobs(kilo(q, numbered("j", 10)...)...)
		for _, c := range []struct {
			bytes int64
			ms    int
		}{{1000, 1}, {1000, 100}, {5000, 200 + 400}, {10_000, 300 + 900}} {
			a := r.outOfBytes(queue.Full, sized("", q, "x", c.bytes), queue.ByteBound{
				Held: 10_000, Max: 10_000, Needs: c.bytes,
			})
			if a.RetryAfter != time.Duration(c.ms)*time.Millisecond {
				r.Errorf("%d bytes: after %v, want %d ms", c.bytes, a.RetryAfter, c.ms)
			}
		}
	}},
	{"a lowered limit drops nothing, and jobs still come back", func(r *rig) {
		q := r.queue("q", "unlimited", maxBytes(5000))
		r.acceptJobs(kilo(q, "a", "b", "c", "d")...)
		r.queue(q, "unlimited", maxBytes(1500))
		v := r.grant(q, 4, "a", "b", "c", "d")
		r.fail(time.Second, v[0])
		r.release(v[1])
		r.deliver(v[2])
		r.outOfBytes(queue.Full, kilo(q, "x")[0], queue.ByteBound{Held: 3000, Max: 1500, Needs: 1000})
		r.deliver(v[3])
		r.deliver(r.grant(q, 1, "b")...)
		r.outOfBytes(queue.Full, kilo(q, "x")[0], queue.ByteBound{Held: 1000, Max: 1500, Needs: 1000})
		r.cancels(queue.Cancelled, q, "a")
		r.acceptJobs(kilo(q, "x")...)
		r.queue(q, "unlimited", maxBytes(3000))
		r.acceptJobs(kilo(q, "y", "z")...)
	}},
	{"without a limit a queue has a share of the store", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a")
		space, err := r.e.Space(r.ctx)
		r.check(err)
		if i := r.info(q); space.Limit <= 0 || space.Full() || i.MaxBytes <= 0 ||
			i.MaxBytes > space.Limit/jobsize.StoreShare+space.Limit/100 {
			r.Errorf("%d of a store of %+v", i.MaxBytes, space)
		}
	}},
	{"a purge frees the bytes it removes", func(r *rig) {
		q := r.queue("q", "unlimited", maxBytes(1<<20))
		r.acceptJobs(kilo(q, "a", "b")...)
		r.acceptJobs(sized("x", q, "c", 700), sized("x", q, "d", 800))
		r.purges(queue.PurgeRequest{Queue: q, State: queue.Waiting}, 10, 4, nil)
		r.checkBytes(q, 0)
		r.seesLane(q, "x", queue.LaneInfo{})
	}},
	{"a replay is refused for lack of bytes", func(r *rig) {
		lanes := everyLane(queue.LaneRule{MaxBytes: 1500})
		q := r.queue("q", "unlimited", maxBytes(3000), lanes)
		r.acceptJobs(sized("x", q, "a", 1000))
		r.settled(queue.Dead, settlement(queue.Bury, r.grant(q, 1, "a")[0]))
		r.acceptJobs(sized("x", q, "b", 1000))
		r.replays(q, []string{"a"}, queue.NoRoom) // its lane is full
		r.deliver(r.grant(q, 1, "b")...)
		r.acceptJobs(kilo(q, "c", "d")...)
		r.queue(q, "unlimited", maxBytes(2500), lanes)
		r.replays(q, []string{"a"}, queue.NoRoom)
		r.deliver(r.grant(q, 1, "c")...)
		r.replays(q, []string{"a"}, queue.Replayed)
		r.checkBytes(q, 2000)
	}},
	{"a moved job counts the same bytes", func(r *rig) {
		q := r.queue("q", "unlimited", maxBytes(5000), everyLane(queue.LaneRule{MaxBytes: 3000}))
		r.acceptJobs(sized("x", q, "a", 1000), sized("x", q, "b", 1000), sized("", q, "c", 1000))
		m := r.export(q)
		r.move(m)
		r.checkBytes(q, 3000)
		r.seesLane(q, "x", queue.LaneInfo{Waiting: 2, Size: 2, Bytes: 2000})
		r.deliver(r.drainable(q)...)
		r.checkBytes(q, 0)
		r.seesLane(q, "x", queue.LaneInfo{})
	}},
}

var bytesOverflowRules = []rule{
	{"a job without enough bytes waits on the overflow and comes back when it fits", func(r *rig) {
		s := r.overflowOf("q", "unlimited", maxBytes(4000), maxDeferredBytes(100_000), lowWater(0.5))
		r.acceptJobs(kilo(s.q, "a", "b", "c", "d")...)
		s.asideJobs(sized("", s.q, "large", 1800), sized("", s.q, "e", 1000))
		ear := r.listenRoom()
		defer ear.cancel()
		if res := s.takes(readmit.NotYet, readmit.NotYet); res.Room != 0 {
			r.Errorf("room for %d", res.Room)
		}
		r.deliver(r.grant(s.q, 1, "a")...) // not enough for the first
		if ear.until(s.q) != nil {
			r.Error("the room announced is too little")
		}
		if res := s.takes(readmit.NotYet, readmit.NotYet); res.Room != 0 {
			r.Errorf("room for %d", res.Room)
		}
		r.clock.Advance(2 * time.Second)
		r.deliver(r.grant(s.q, 1, "b")...)
		if ear.until(s.q) == nil {
			r.Error("the room was not announced")
		}
		s.takes(readmit.Returned, readmit.NotYet)
		r.checkBytes(s.q, 3800)
		r.deliver(r.drainable(s.q)...)
		s.takes(readmit.Returned)
		r.checkBytes(s.q, 1000)
		r.deliver(r.drainable(s.q)...)
		r.checkBytes(s.q, 0)
	}},
	{"during a backlog neither returning jobs nor new ones starve", func(r *rig) {
		s := r.overflowOf("q", "unlimited", maxBytes(4000), maxDeferredBytes(100_000), lowWater(0.5))
		r.acceptJobs(kilo(s.q, "a", "b", "c", "d")...)
		s.asideJobs(kilo(s.q, "e", "f", "g", "h")...)
		r.deliver(r.drainable(s.q)...)
		s.takes(readmit.Returned, readmit.Returned, readmit.NotYet, readmit.NotYet) // up to the low-water mark
		others := func(id string) queue.Job {
			j := kilo(s.q, id)[0]
			j.Overflow = queue.Reject
			return j
		}
		r.offered(queue.Accepted, others("x"))
		r.offered(queue.Accepted, others("y"))
		r.offered(queue.Full, others("z"))
		r.checkBytes(s.q, 4000)
		r.deliver(r.grant(s.q, 1, "e")...)
		r.offered(queue.Full, others("z")) // those places are for returning jobs
		s.takes(readmit.Returned, readmit.NotYet)
		r.deliver(r.drainable(s.q)...)
		s.takes(readmit.Returned)
		r.offered(queue.Accepted, others("z"))
	}},
	{"a job larger than the low-water mark still gets its turn", func(r *rig) {
		s := r.overflowOf("q", "unlimited", maxBytes(4000), maxDeferredBytes(100_000), lowWater(0.25))
		r.acceptJobs(kilo(s.q, "a", "b", "c", "d")...)
		s.asideJobs(sized("", s.q, "large", 3500))
		s.takes(readmit.NotYet)
		reject := func(id string) queue.Job {
			j := kilo(s.q, id)[0]
			j.Overflow = queue.Reject
			return j
		}
		for _, id := range []string{"a", "b", "c"} {
			r.deliver(r.grant(s.q, 1, id)...)
			r.offered(queue.Full, reject("x")) // it would block the returning job
			s.takes(readmit.NotYet)
		}
		r.deliver(r.grant(s.q, 1, "d")...)
		s.takes(readmit.Returned)
		r.checkBytes(s.q, 3500)
	}},
	{"a job that can never come back is dead", func(r *rig) {
		s := r.overflowOf("q", "unlimited", maxBytes(4000), maxDeferredBytes(100_000))
		r.acceptJobs(kilo(s.q, "a", "b", "c", "d")...)
		s.asideJobs(sized("", s.q, "large", 3000), sized("", s.q, "e", 1000))
		r.queue(s.q, "unlimited", defers, maxBytes(2000), maxDeferredBytes(100_000))
		s.takes(readmit.TooLarge, readmit.NotYet)
		i := r.job(s.q, "large")
		if i.State != queue.Dead || i.Reason != "takes 3000 bytes, more than the max_bytes 2000 of its queue" {
			r.Errorf("%v, %q", i.State, i.Reason)
		}
		r.deliver(r.drainable(s.q)...)
		s.takes(readmit.Returned)
	}},
}

// drainable reserves all jobs that may depart now.
func (r *rig) drainable(queueName string) []queue.Reservation {
	r.Helper()
	return r.reserve(queueName, 100)
}
