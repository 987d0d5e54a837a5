package queuetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// inBatch returns jobs with the label of a batch.
func inBatch(label, queueName string, ids ...string) []queue.Job {
	list := jobs(queueName, ids...)
	for i := range list {
		list[i].Batch = label
	}
	return list
}

func (r *rig) batches(req queue.BatchesRequest) []queue.Batch {
	r.Helper()
	if req.Limit == 0 {
		req.Limit = queue.MaxPage
	}
	list, err := r.e.Batches(r.ctx, req)
	if err != nil {
		r.Fatalf("batches %+v: %v", req, err)
	}
	return list
}

// batch checks the counts of a batch, and that it ended if no job remains.
func (r *rig) batch(queueName string, want queue.Batch) queue.Batch {
	r.Helper()
	list := r.batches(queue.BatchesRequest{Queue: queueName, Label: want.Label})
	if len(list) != 1 {
		r.Fatalf("%d batches with the label %q", len(list), want.Label)
	}
	got := list[0]
	if (got.Remaining() == 0) != !got.EndedAt.IsZero() {
		r.Errorf("%d jobs remain: %+v", got.Remaining(), got)
	}
	short := got
	short.FirstAt, short.LastAt, short.EndedAt, short.Lasts = time.Time{}, time.Time{}, time.Time{}, nil
	if a, b := fmt.Sprintf("%+v", short), fmt.Sprintf("%+v", want); a != b {
		r.Errorf("got  %s\nwant %s", a, b)
	}
	return got
}

// lasts checks the last jobs of a batch.
func (r *rig) lasts(queueName, label string, want ...string) {
	r.Helper()
	got := r.batches(queue.BatchesRequest{Queue: queueName, Label: label})[0].Lasts
	if slices.Sort(got); !slices.Equal(got, want) {
		r.Errorf("the last jobs of %s are %v, want %v", label, got, want)
	}
}

var batchRules = []rule{
	{"a batch counts each job once, however it ends", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 1))
		t0 := r.clock.Now()
		a := inBatch("sale", q, "a", "b", "c", "d", "e", "f")
		a[4].ExpiresAt = t0.Add(time.Minute).Time()
		r.acceptJobs(a...)
		r.append(a...) // duplicates
		r.accept(q, "x")
		r.batch(q, queue.Batch{Label: "sale", Accepted: 6})
		got := r.grant(q, 2, "a", "b")
		s := settlement(queue.Deliver, got[0])
		r.settle(s, s)
		r.settled(queue.Delivered, s)
		r.settled(queue.Dead, settlement(queue.Bury, got[1]))
		r.cancels(queue.Cancelled, q, "c")
		r.cancels(queue.Cancelled, q, "c")
		if b := r.job(q, "d").Batch; b != "sale" {
			r.Errorf("the batch of d is %q", b)
		}
		if b := r.job(q, "b").Batch; b != "sale" {
			r.Errorf("the batch of b, which is dead, is %q", b)
		}
		r.batch(q, queue.Batch{Label: "sale", Accepted: 6, Delivered: 1, Dead: 1, Cancelled: 1})
		r.cancels(queue.Cancelled, q, "x")
		lost := r.grant(q, 1, "d") // its lease runs out, and it dies
		r.clock.Advance(2 * time.Minute)
		r.reserve(q, 0)
		r.stale(settlement(queue.Deliver, lost[0]))
		r.batch(q, queue.Batch{Label: "sale", Accepted: 6, Delivered: 1, Dead: 2, Cancelled: 1, Expired: 1})
		_, err := r.e.Purge(r.ctx, queue.PurgeRequest{Queue: q, State: queue.Waiting, Limit: 10})
		r.check(err)
		b := r.batch(q, queue.Batch{Label: "sale", Accepted: 6, Delivered: 1, Dead: 2, Cancelled: 2, Expired: 1})
		r.isAt(b.FirstAt, t0.Time())
		r.isAt(b.LastAt, t0.Time())
		r.isAt(b.EndedAt, r.clock.Now().Time())
		r.clock.Advance(time.Second)
		r.replays(q, []string{"b", "d"}, queue.Replayed, queue.Replayed)
		r.batch(q, queue.Batch{Label: "sale", Accepted: 6, Delivered: 1, Cancelled: 2, Expired: 1})
		r.drain(q)
		b = r.batch(q, queue.Batch{Label: "sale", Accepted: 6, Delivered: 3, Cancelled: 2, Expired: 1})
		r.isAt(b.LastAt, t0.Add(2*time.Minute+time.Second).Time())
	}},
	{"held jobs remain until a person decides", func(r *rig) {
		q := r.queue("q", "unlimited", func(s *queue.Spec) { s.OnUnknown = queue.UnknownHold })
		r.acceptJobs(inBatch("b", q, "a", "b", "c")...)
		r.hold("unknown", r.grant(q, 3, "a", "b", "c")...)
		r.batch(q, queue.Batch{Label: "b", Accepted: 3})
		r.decides(q, "a", queue.Deliver, "", queue.Delivered)
		r.decides(q, "b", queue.Bury, "", queue.Dead)
		r.decides(q, "c", queue.Release, "", queue.Waiting)
		r.batch(q, queue.Batch{Label: "b", Accepted: 3, Delivered: 1, Dead: 1})
	}},
	{"a deferred job is counted once, and keeps its batch", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(1), func(s *queue.Spec) { s.Overflow = queue.Defer })
		r.acceptJobs(inBatch("b", s.q, "a")...)
		list := inBatch("b", s.q, "c", "d", "e", "f")
		answers := r.offer(list...)
		for i, j := range list[:3] {
			s.store(j, answers[i])
		}
		r.batch(s.q, queue.Batch{Label: "b", Accepted: 5})
		r.withdrawsOne(queue.Ticketed{Queue: s.q, ID: "f", Ticket: answers[3].Ticket})
		r.batch(s.q, queue.Batch{Label: "b", Accepted: 4})
		r.cancels(queue.Cancelled, s.q, "d")
		r.batch(s.q, queue.Batch{Label: "b", Accepted: 4, Cancelled: 1})
		r.drain(s.q)
		s.takes(readmit.Returned, readmit.Passed, readmit.NotYet)
		if b := r.job(s.q, "c").Batch; b != "b" {
			r.Errorf("the batch of c is %q", b)
		}
		r.batch(s.q, queue.Batch{Label: "b", Accepted: 4, Delivered: 1, Cancelled: 1})
		r.drain(s.q)
		s.takes(readmit.Returned)
		r.drain(s.q)
		r.batch(s.q, queue.Batch{Label: "b", Accepted: 4, Delivered: 3, Cancelled: 1})
	}},
	{"a job that comes back after its deferral was given up is not counted twice", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		s.full()
		list := inBatch("b", s.q, "a", "late", "lost")
		answers := r.offer(list...)
		r.drain(s.q)
		s.generation()
		r.clock.Advance(queue.OrphanAfter + time.Microsecond)
		s.givesUp(3)
		r.batch(s.q, queue.Batch{Label: "b", Accepted: 3, Missing: 3})
		s.store(list[0], answers[0])
		s.takes(readmit.Returned)
		r.batch(s.q, queue.Batch{Label: "b", Accepted: 3, Missing: 2})
		r.drain(s.q)
		r.clock.Advance(s.info(s.q).Spec.Deferred.MaxAge.D())
		s.store(list[1], answers[1])
		s.takes(readmit.TooOld)
		r.beside[s.q] = 2
		r.batch(s.q, queue.Batch{Label: "b", Accepted: 3, Delivered: 1, Dead: 1, Missing: 1})
	}},
	{"a copy that was deferred under another batch counts in the batch of the last append", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(1), func(s *queue.Spec) { s.Overflow = queue.Defer })
		r.acceptJobs(jobs(s.q, "full")...)
		first := inBatch("first", s.q, "a")
		deferred := r.offer(first...)[0]
		s.store(first[0], deferred) // and its caller, who was not told, withdraws it
		r.withdrawsOne(queue.Ticketed{Queue: s.q, ID: "a", Ticket: deferred.Ticket})
		r.offer(inBatch("the second", s.q, "a")...)
		r.drain(s.q)
		s.takes(readmit.Returned)
		if b := r.job(s.q, "a").Batch; b != "the second" {
			r.Errorf("its batch is %q", b)
		}
		r.drain(s.q)
		r.batch(s.q, queue.Batch{Label: "the second", Accepted: 1, Delivered: 1})
	}},
	{"the last job of each lane is known", func(r *rig) {
		q := r.queue("q", "1/s")
		list := inBatch("b", q, "a1", "a2", "b1", "none", "later", "urgent")
		for i, lane := range []string{"a", "a", "b", "", "b", "a"} {
			list[i].Lane = lane
		}
		list[4].NotBefore, list[5].Priority = r.clock.Now().Time().Add(time.Hour), 5
		r.append(list...)
		r.lasts(q, "b", "a2", "later", "none")
		more := inBatch("b", q, "b2", "none2")
		more[0].Lane = "b"
		r.append(more...)
		r.lasts(q, "b", "a2", "later", "none2")
		r.cancels(queue.Cancelled, q, "a2")
		r.lasts(q, "b", "later", "none2")
		many := inBatch("many", q, numbered("m", queue.MaxBatchLanes+1)...)
		for i := range many {
			many[i].Lane = fmt.Sprint("lane", i)
		}
		r.append(many...)
		if b := r.batches(queue.BatchesRequest{Queue: q, Label: "many"})[0]; len(b.Lasts) != queue.MaxBatchLanes ||
			!b.MoreLanes {
			r.Errorf("got %+v", b)
		}
	}},
	{"a queue has a bounded number of batches; finished ones make room", func(r *rig) {
		q := r.queue("q", "unlimited", withCapacity(3*queue.MaxBatches))
		var list []queue.Job
		for i, id := range numbered("j", queue.MaxBatches) {
			list = append(list, inBatch(fmt.Sprintf("b%04d", i), q, id)...)
		}
		r.acceptJobs(list[:500]...)
		r.acceptJobs(list[500:]...)
		r.acceptJobs(inBatch("one more", q, "x")...)
		if b := r.job(q, "x").Batch; b != "" {
			r.Errorf("it is in the batch %q, for which there is no room", b)
		}
		r.acceptJobs(inBatch("b0003", q, "y")...) // known
		r.deliver(r.grant(q, 3, "j00001", "j00002", "j00003")...)
		r.acceptJobs(inBatch("two more", q, "z")...)
		r.batch(q, queue.Batch{Label: "two more", Accepted: 1})
		if got := r.batches(queue.BatchesRequest{Queue: q, Limit: 2}); len(got) != 2 || got[0].Label != "b0001" ||
			got[1].Label != "b0002" {
			r.Errorf("the first batches are %+v", got)
		}
		got := r.batches(queue.BatchesRequest{Queue: q, After: "b0997"})
		if len(got) != 3 || got[2].Label != "two more" {
			r.Errorf("the last batches are %+v", got)
		}
	}},
	{"a finished batch is forgotten after its time, and its dead jobs begin it anew", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 1), func(s *queue.Spec) {
			s.Retention.For = unit.Duration(30 * 24 * time.Hour)
		})
		r.acceptJobs(inBatch("b", q, "a", "b")...)
		for _, v := range r.grant(q, 2, "a", "b") {
			r.settled(queue.Dead, settlement(queue.Bury, v))
		}
		r.clock.Advance(queue.KeepBatches - time.Microsecond)
		r.batch(q, queue.Batch{Label: "b", Accepted: 2, Dead: 2})
		r.clock.Advance(time.Microsecond)
		if got := r.batches(queue.BatchesRequest{Queue: q}); len(got) != 0 {
			r.Errorf("got %+v", got)
		}
		r.acceptJobs(inBatch("b", q, "c")...)
		r.batch(q, queue.Batch{Label: "b", Accepted: 1})
		r.settled(queue.Dead, settlement(queue.Bury, r.grant(q, 1, "c")[0]))
		r.replays(q, []string{"a"}, queue.Replayed)
		r.batch(q, queue.Batch{Label: "b", Accepted: 2, Dead: 1})
		r.replays(q, []string{"c"}, queue.Replayed)
		r.batch(q, queue.Batch{Label: "b", Accepted: 2})
	}},
	{"a queue takes its batches with it", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 1))
		r.acceptJobs(inBatch("b", q, "a", "b")...)
		r.settled(queue.Dead, settlement(queue.Bury, r.grant(q, 1, "a")[0]))
		r.check(r.e.Delete(r.ctx, q, queue.AnyRevision, true))
		_, err := r.e.Batches(r.ctx, queue.BatchesRequest{Queue: q, Limit: 1})
		r.refuses(err, queue.ErrUnknownQueue)
		r.queue("q", "unlimited", leased(time.Minute, 1))
		r.sweeps(q)
		if got := r.batches(queue.BatchesRequest{Queue: q}); len(got) != 0 {
			r.Errorf("got %+v", got)
		}
		r.replays(q, []string{"a"}, queue.Replayed)
		r.batch(q, queue.Batch{Label: "b", Accepted: 1})
	}},
	{"an import counts the jobs that it brings", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 1))
		r.acceptJobs(inBatch("b", q, "a", "b", "c")...)
		got := r.grant(q, 2, "a", "b")
		r.settled(queue.Dead, settlement(queue.Bury, got[0]))
		r.deliver(got[1])
		r.move(r.export(q))
		r.batch(q, queue.Batch{Label: "b", Accepted: 2, Dead: 1})
		r.lasts(q, "b", "c")
		r.drain(q)
		r.batch(q, queue.Batch{Label: "b", Accepted: 2, Dead: 1, Delivered: 1})
	}},
	{"a label is text", func(r *rig) {
		q := r.queue("q", "unlimited")
		for _, label := range []string{".", "..", "a\nb", "\xff", strings.Repeat("x", queue.MaxBatchBytes+1)} {
			j := job(q, "a")
			j.Batch = label
			r.notAField(r.outcome(queue.Invalid, j).Err, "batch")
			_, err := r.e.Batches(r.ctx, queue.BatchesRequest{Queue: q, Label: label, Limit: 1})
			r.notAField(err, "batch")
		}
		for _, limit := range []int{0, -1, queue.MaxPage + 1} {
			_, err := r.e.Batches(r.ctx, queue.BatchesRequest{Queue: q, Limit: limit})
			r.notAField(err, "limit")
		}
		long := strings.Repeat("é", queue.MaxBatchBytes/2)
		r.acceptJobs(inBatch("Frühling ☀ / 100%", q, "b")...)
		r.acceptJobs(inBatch(long, q, "c")...)
		r.batch(q, queue.Batch{Label: "Frühling ☀ / 100%", Accepted: 1})
		r.drain(q)
		r.batch(q, queue.Batch{Label: long, Accepted: 1, Delivered: 1})
	}},
}
