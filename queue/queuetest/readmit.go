package queuetest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

var readmitRules = []rule{
	{"jobs return in the order of the overflow, behind the waiting jobs", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(10))
		s.empties(numbered("j", 8)...)
		r.accept(s.q, "x")
		res := s.takes(
			readmit.Returned, readmit.Returned, readmit.Returned, readmit.Returned, readmit.Returned,
			readmit.NotYet, readmit.NotYet,
		)
		r.found(res, readmitState{room: 0, batch: 2, deferred: 3})
		r.accept(s.q, "y")
		r.tallies(s.q, tally{waiting: 7, deferred: 3, appended: 17, setAside: 8, returned: 5, delivered: 10})
		for i, id := range []string{"x", "j00001", "j00002", "j00003", "j00004", "j00005", "y"} {
			if j := r.job(s.q, id); j.Position != int64(i+1) {
				r.Errorf("%s is at %d, want %d", id, j.Position, i+1)
			}
		}
		r.sameIDs(r.drain(s.q), "x", "j00001", "j00002", "j00003", "j00004", "j00005", "y")
		s.takes(readmit.Returned, readmit.Returned, readmit.Returned)
		r.sameIDs(r.drain(s.q), "j00006", "j00007", "j00008")
		r.tallies(s.q, tally{appended: 20, setAside: 8, returned: 8, delivered: 20})
	}},
	{"a job returns as it was offered, without attempts", func(r *rig) {
		s := r.overflowOf("q", "1000/s", withCapacity(20))
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		many := map[string]string{}
		for i := range queue.MaxHeaders {
			many[fmt.Sprint("X-Header-", i)] = strings.Repeat("v", i)
		}
		list := []queue.Job{
			{ID: "nil"},
			{ID: "bytes", Payload: every, ContentType: "application/octet-stream"},
			{ID: "large", Payload: bytes.Repeat(every, queue.MaxPayloadBytes/256)},
			{
				ID: "headers", Payload: []byte("x"), Headers: many,
				ContentType: strings.Repeat("c", queue.MaxContentTypeBytes),
			},
			{ID: "costly", Headers: map[string]string{"X-Trace": ""}, Cost: leaky.MaxCost},
			{ID: "until", Payload: []byte("{}"), ExpiresAt: time.Date(2199, 12, 31, 23, 59, 59, 999_999_999, time.UTC)},
			{ID: strings.Repeat("i", names.MaxIDBytes)},
			{ID: "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"},
		}
		for i := range list {
			list[i].Queue = s.q
		}
		s.full()
		s.asideJobs(list...)
		r.drain(s.q)
		r.clock.Advance(time.Hour)
		came := r.clock.Now().Time()
		s.takes(
			readmit.Returned, readmit.Returned, readmit.Returned, readmit.Returned, readmit.Returned, readmit.Returned,
			readmit.Returned, readmit.Returned,
		)
		for i, v := range r.drain(s.q) {
			want := list[i]
			want.Normalize()
			if v.ID != want.ID || !bytes.Equal(v.Payload, want.Payload) || v.ContentType != want.ContentType ||
				!maps.Equal(v.Headers, want.Headers) ||
				v.Cost != want.Cost || !v.ExpiresAt.Equal(want.ExpiresAt.Truncate(time.Microsecond)) {
				r.Errorf(
					"%.40s came out changed: %d bytes, %.80q, %v, cost %d, until %v", want.ID, len(v.Payload),
					v.ContentType, v.Headers, v.Cost, v.ExpiresAt,
				)
			}
			if v.Attempt != 1 || !v.AppendedAt.Equal(came) {
				r.Errorf("%.40s: attempt %d, appended at %v, want 1, %v", want.ID, v.Attempt, v.AppendedAt, came)
			}
		}
	}},
	{"returning jobs keep the pace", func(r *rig) {
		s := r.overflowOf("q", "14/s", withCapacity(40), func(s *queue.Spec) { s.Burst = 3 })
		m := mirrorOf(r.info(s.q).Spec)
		s.full()
		var list []queue.Job
		for i, id := range numbered("j", 15) {
			list = append(list, costing(int64(1+i%3), s.q, id))
		}
		s.asideJobs(list...)
		r.follow(m, s.q, 40)
		if n := s.fills(); n != 15 {
			r.Fatalf("%d came back", n)
		}
		r.follow(m, s.q, 15)
	}},
	{"the answer has the room, and how much room makes another call worthwhile", func(r *rig) {
		for i, tt := range []struct{ capacity, mark, batch int64 }{
			{1, 1, 1},
			{2, 1, 1},
			{8, 4, 1},
			{10, 5, 2},
			{16, 8, 2},
			{18, 9, 3},
			{100, 50, 13},
			{3992, 1996, 499},
			{3994, 1997, 500},
			{4000, 2000, 500},
			{100_000, 50_000, 500},
			{queue.MaxCapacity, queue.MaxCapacity / 2, 500},
		} {
			s := r.overflowOf(fmt.Sprint("q", i), "unlimited", withCapacity(tt.capacity))
			r.found(r.readmit(s.request(0)), readmitState{room: tt.mark, batch: tt.batch})
			req := s.request(0)
			req.Closed = true
			r.found(r.readmit(req), readmitState{room: tt.mark, batch: tt.batch})
		}
	}},
	{"there is room below both the mark and the capacity", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(6))
		room := func(want int64) {
			r.Helper()
			if res := r.readmit(s.request(0)); res.Room != want {
				r.Errorf("room for %d, want %d", res.Room, want)
			}
		}
		room(3)
		s.full(numbered("j", 9)...)
		room(0)
		v := r.reserve(s.q, 6)
		room(0)
		r.deliver(v[:2]...)
		room(2)
		r.deliver(v[2:]...)
		room(3)
		s.takes(readmit.Returned, readmit.Returned)
		room(1)
		s.takes(readmit.Returned, readmit.NotYet)
		room(0)
		r.deliver(r.grant(s.q, 1, "j00001")...)
		room(1)
	}},
	{"a full queue readmits nothing, however few have returned", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		s.full("a")
		s.takes(readmit.NotYet)
		v := r.reserve(s.q, 4)
		s.takes(readmit.NotYet)
		r.deliver(v[0])
		s.takes(readmit.Returned)
	}},
	{"a call takes as many jobs as its limit", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(1001), lowWater(0.7))
		list := numbered("j", queue.MaxReadmit+100)
		s.empties(list...)
		res := s.takes(repeat(readmit.Returned, queue.MaxReadmit)...)
		r.found(res, readmitState{room: 201, batch: 176, deferred: 100})
		s.takes(repeat(readmit.Returned, 100)...)
		r.sameIDs(r.drain(s.q), list...)
	}},
	{"neither a ticket nor a record is needed: jobs stored while the engine was away return too", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		s.addUnknown("a", "b", "c")
		s.takes(readmit.Returned, readmit.Returned, readmit.NotYet)
		r.tallies(s.q, tally{waiting: 2, deferred: 1, appended: 2, returned: 2})
		r.drain(s.q)
		s.takes(readmit.Returned)
		r.beside[s.q] = 3
		r.sameIDs(r.drain(s.q), "c")
		r.tallies(s.q, tally{appended: 3, returned: 3, delivered: 3})
	}},
	{"a paused queue readmits up to its room", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4))
		s.empties("a", "b", "c")
		r.check(r.e.Pause(r.ctx, s.q, queue.Pause{}))
		s.takes(readmit.Returned, readmit.Returned, readmit.NotYet)
		r.grant(s.q, 9)
		r.check(r.e.Resume(r.ctx, s.q))
		r.sameIDs(r.drain(s.q), "a", "b")
	}},
	{"a returning job wakes the watcher", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(2))
		s.empties()
		r.awaitWake(s.q, "w", func(i int) {
			r.deliver(r.watching("w", s.q)...)
			s.addUnknown(fmt.Sprint("j", i))
			s.takes(readmit.Returned)
			r.beside[s.q]++
		})
	}},
	{"a job that returns behind others hides no lost slot", func(r *rig) {
		s := r.overflowOf("q", "10/s", withCapacity(2))
		s.full("a")
		r.deliver(r.grant(s.q, 1, "full00001")...)
		s.takes(readmit.Returned)
		r.clock.Advance(10 * time.Second)
		if res := r.reserveAs("client", s.q, 9); res.Lost[s.q] != 99 { // since the second job could leave
			r.Errorf("%d slots lost, want 99", res.Lost[s.q])
		}
	}},
	{"a known job is passed over, whatever its state", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(20), leased(time.Hour, 8))
		soon := job(s.q, "expired")
		soon.ExpiresAt = r.clock.Now().Add(time.Second).Time()
		r.acceptJobs(soon)
		r.clock.Advance(time.Minute)
		r.accept(s.q, "delivered", "dead", "scheduled", "leased", "cancelled", "waiting")
		v := r.grant(s.q, 4, "delivered", "dead", "scheduled", "leased")
		r.deliver(v[0])
		r.settled(queue.Dead, settlement(queue.Bury, v[1]))
		r.fail(time.Hour, v[2])
		r.cancels(queue.Cancelled, s.q, "cancelled")
		states := []queue.State{
			queue.Delivered, queue.Dead, queue.Scheduled, queue.Leased, queue.Cancelled, queue.Waiting,
		}
		ids := []string{"delivered", "dead", "scheduled", "leased", "cancelled", "waiting"}
		before := r.info(s.q)
		s.addUnknown(ids...)
		s.store(soon, queue.Appended{At: r.clock.Now().Time()})
		s.takes(repeat(readmit.Passed, 7)...)
		for i, id := range ids {
			r.state(states[i], s.q, id)
		}
		r.state(queue.Expired, s.q, "expired")
		if i := r.info(s.q); i.Appended != before.Appended || i.Returned != 0 || i.Size() != before.Size() ||
			i.Died != before.Died {
			r.Errorf("counted %+v, before %+v", i, before)
		}
	}},
	{"a forgotten job returns once more", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(4), deferredFor(time.Minute, time.Minute))
		r.accept(s.q, "a")
		r.deliver(r.grant(s.q, 1, "a")...)
		r.clock.Advance(time.Minute - time.Microsecond)
		s.addUnknown("a")
		s.takes(readmit.Passed)
		s.addUnknown("a")
		r.clock.Advance(time.Microsecond)
		s.takes(readmit.Returned)
		r.beside[s.q]++
	}},
	{"a second copy is dropped, whichever comes first", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(6))
		first := s.empties("a", "b", "a2")
		again := r.offer(job(s.q, "a"), job(s.q, "b"))
		s.store(job(s.q, "b"), again[1])
		s.store(job(s.q, "a"), again[0])
		s.store(job(s.q, "b"), queue.Appended{At: first[1].At})
		s.takes(readmit.Returned, readmit.Returned, readmit.Returned, readmit.Passed)
		r.deliver(r.grant(s.q, 1, "a")...)
		s.takes(readmit.Passed, readmit.Passed)
		r.tallies(s.q, tally{waiting: 2, appended: 9, setAside: 3, returned: 3, delivered: 7})
		r.sameIDs(r.drain(s.q), "b", "a2")
	}},
}

func repeat(o readmit.Outcome, n int) []readmit.Outcome {
	return slices.Repeat([]readmit.Outcome{o}, n)
}
