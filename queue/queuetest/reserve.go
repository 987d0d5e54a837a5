package queuetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

var reserveRules = []rule{
	{"a grant has all that a drainer needs", func(r *rig) {
		t0 := r.clock.Now()
		s := spec("q", "20/s", func(s *queue.Spec) { s.Lease = unit.Duration(7 * time.Second) })
		rev := r.put(s).Revision
		j := job(s.Name, "a")
		j.Cost, j.Headers, j.ContentType = 2, map[string]string{"X": "y"}, "text/plain"
		r.acceptJobs(j)
		r.clock.Advance(time.Second)
		r.accept(s.Name, "b")
		v := r.grant(s.Name, 2, "a")[0]
		if v.Queue != "q" || v.In != 0 || v.Lease != 7*time.Second || v.Attempt != 1 || v.Revision != rev ||
			!v.AppendedAt.Equal(t0.Time()) || v.Age != time.Second ||
			v.Cost != 2 || v.Headers["X"] != "y" || v.ContentType != "text/plain" ||
			string(v.Payload) != string(j.Payload) {
			r.Errorf("got %+v", v)
		}
		r.clock.Advance(80 * time.Millisecond)
		w := r.grant(s.Name, 2, "b")[0]
		if w.In != 20*time.Millisecond || w.Fence == v.Fence || !w.AppendedAt.Equal(t0.Add(time.Second).Time()) ||
			w.Age != 80*time.Millisecond {
			r.Errorf("got %+v", w)
		}
	}},
	{"at most max jobs are granted, without sleep while more is due", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, numbered("j", 7)...)
		for _, want := range [][]string{{"j00001", "j00002", "j00003"}, {"j00004", "j00005", "j00006"}} {
			res := r.reserveAs("client", q, 3)
			r.sameIDs(res.Jobs, want...)
			if res.Next != 0 {
				r.Errorf("next in %v while more is due", res.Next)
			}
		}
		res := r.reserveAs("client", q, 3)
		r.sameIDs(res.Jobs, "j00007")
		if res.Next <= 0 {
			r.Errorf("next in %v with nothing due", res.Next)
		}
	}},
	{"max has an upper limit", func(r *rig) {
		q := r.queue("q", "unlimited")
		want := numbered("j", queue.MaxReserve+1)
		r.accept(q, want...)
		r.grant(q, queue.MaxReserve, want[:queue.MaxReserve]...)
		r.grant(q, queue.MaxReserve, want[queue.MaxReserve])
	}},
	{"the payload is bounded by the reply, but one job is always granted", func(r *rig) {
		q := r.queue("q", "unlimited")
		const each = queue.MaxPayloadBytes
		for _, id := range numbered("j", 9) {
			j := job(q, id)
			j.Payload = make([]byte, each)
			r.acceptJobs(j)
		}
		most := queue.MaxReserveBytes / each
		for n := 0; n < 9; {
			res := r.reserveAs("client", q, 100)
			if len(res.Jobs) == 0 || len(res.Jobs) > most || (len(res.Jobs) < most-1 && n+len(res.Jobs) < 9) {
				r.Fatalf(
					"%d jobs of %d bytes in one reply, the limit is %d", len(res.Jobs), each, queue.MaxReserveBytes,
				)
			}
			n += len(res.Jobs)
			if (res.Next == 0) != (n < 9) {
				r.Errorf("%d of 9 granted: next in %v", n, res.Next)
			}
		}
	}},
	{"a lost reply is given again", func(r *rig) {
		q := r.queue("q", "20/s")
		r.accept(q, "a", "b", "c", "d")
		req := r.request("client", q, 2)
		first := r.do(req)
		r.sameIDs(first.Jobs, "a", "b")
		same := func(want ...queue.Reservation) {
			r.Helper()
			again := r.do(req)
			r.sameIDs(again.Jobs, ids(want)...)
			for i, v := range again.Jobs {
				if v.Fence != want[i].Fence || v.Attempt != want[i].Attempt ||
					string(v.Payload) != string(want[i].Payload) || v.In != want[i].In {
					r.Errorf("again: %+v, want %+v", v, want[i])
				}
			}
		}
		same(first.Jobs...)
		r.clock.Advance(30 * time.Millisecond)
		for i := range first.Jobs {
			first.Jobs[i].In -= 30 * time.Millisecond
		}
		same(first.Jobs...)
		r.clock.Advance(time.Second)
		for i := range first.Jobs {
			first.Jobs[i].In -= time.Second
		}
		same(first.Jobs...)
		r.deliver(first.Jobs[0])
		same(first.Jobs[1])
		r.release(first.Jobs[1])
		same()
		r.grant(q, 1, "b")
		if i := r.info(q); i.Leased != 1 || i.Waiting != 2 {
			r.Errorf("%d leased, %d waiting", i.Leased, i.Waiting)
		}
	}},
	{"an overtaken request grants nothing", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a", "b", "c")
		fifth, sixth := r.request("client", q, 1), r.request("client", q, 1)
		fifth.Number, sixth.Number = 5, 6
		r.sameIDs(r.do(fifth).Jobs, "a")
		first := r.do(sixth).Jobs
		r.sameIDs(first, "b")
		r.sameIDs(r.do(fifth).Jobs)
		again := r.do(sixth).Jobs
		r.sameIDs(again, "b")
		if again[0].Fence != first[0].Fence {
			r.Errorf("again under the fence %s, not %s", again[0].Fence, first[0].Fence)
		}
		if i := r.info(q); i.Leased != 2 || i.Waiting != 1 {
			r.Errorf("%d leased, %d waiting", i.Leased, i.Waiting)
		}
	}},
	{"a repeated request that was granted nothing is granted nothing again", func(r *rig) {
		q := r.queue("q", "unlimited")
		req := r.request("client", q, 9)
		r.sameIDs(r.do(req).Jobs)
		r.accept(q, "a")
		for range 3 {
			r.sameIDs(r.do(req).Jobs)
			r.clock.Advance(time.Second)
		}
		r.state(queue.Waiting, q, "a")
		r.grant(q, 9, "a")
	}},
	{"a lost reply is not given to another client", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a")
		req := r.request("one", q, 9)
		r.sameIDs(r.do(req).Jobs, "a")
		r.sameIDs(r.reserveAs("two", q, 9).Jobs)
		r.sameIDs(r.do(req).Jobs, "a")
	}},
	{"a repeated answer leaves out lost leases", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a", "b")
		req := r.request("one", q, 9)
		v := r.do(req).Jobs
		r.sameIDs(v, "a", "b")
		r.clock.Advance(20 * time.Second)
		r.extend(v[1], queue.DefaultLease)
		r.clock.Advance(11 * time.Second)
		r.sameIDs(r.reserveAs("two", q, 9).Jobs, "a")
		r.sameIDs(r.do(req).Jobs, "b")
	}},
	{"queues depart in the order in which they became ready, ties by age", func(r *rig) {
		names := []string{"g.c", "g.a", "g.b", "g.d"}
		for _, q := range names {
			r.queue(q, "unlimited")
		}
		from := func(most int, want ...string) {
			r.Helper()
			got := r.reserve(names[0], most)
			have := make([]string, len(got))
			for i, v := range got {
				have[i] = v.Queue[2:] + v.ID
			}
			if !slices.Equal(have, want) {
				r.Errorf("granted %v, want %v", have, want)
			}
			r.deliver(got...)
		}
		r.accept("g.b", "1", "2", "3")
		r.clock.Advance(time.Millisecond)
		r.accept("g.a", "1", "2")
		r.clock.Advance(time.Millisecond)
		r.accept("g.c", "1")
		r.accept("g.d", "1")
		r.clock.Advance(time.Millisecond)
		from(4, "b1", "b2", "b3", "a1")
		r.clock.Advance(time.Millisecond)
		from(2, "c1", "d1") // the rest of a has been ready since a millisecond later
		from(2, "a2")
		r.accept("g.d", "2")
		r.accept("g.b", "4")
		r.accept("g.a", "3")
		r.accept("g.c", "2")
		from(9, "c2", "a3", "b4", "d2") // all have been ready since now: in the order in which they were made
	}},
	{"a queue that is always due does not starve another", func(r *rig) {
		for i := range 5 {
			q := r.queue(fmt.Sprint("g.q", i), "unlimited")
			r.accept(q, numbered("j", 20)...)
		}
		seen := map[string]int{}
		for range 5 {
			r.clock.Advance(time.Millisecond)
			for _, v := range r.reserve("g.q0", 7) {
				seen[v.Queue]++
			}
		}
		if len(seen) < 2 {
			r.Errorf("35 departures were all of %v", seen)
		}
		for len(r.reserve("g.q0", 100)) > 0 {
			r.clock.Advance(time.Millisecond)
		}
		for i := range 5 {
			if i := r.info(fmt.Sprint("g.q", i)); i.Waiting != 0 {
				r.Errorf("%s: %d left behind", i.Spec.Name, i.Waiting)
			}
		}
	}},
	{"a thousand queues are all drained", func(r *rig) {
		const n = 1000
		var list []queue.Job
		for i := range n {
			q := r.queue(fmt.Sprintf("q%03d.x", i), "10/s")
			list = append(list, job(q, "a"), job(q, "b"))
		}
		r.acceptJobs(list...)
		if got, err := r.e.Totals(r.ctx); err != nil || got.Queues != n || got.Waiting != 2*n {
			r.Fatalf("totals %+v, %v", got, err)
		}
		left, number := 2*n, uint64(0)
		at := map[string]leaky.Instant{}
		for rounds := 0; left > 0; rounds++ {
			if rounds > 200 {
				r.Fatalf("%d jobs are left after %d rounds", left, rounds)
			}
			for p := range r.e.Partitions() {
				number++
				res := r.do(queue.ReserveRequest{
					Partition: p, Client: queue.Client{ID: "c"}, Number: number, Max: queue.MaxReserve,
				})
				var done []queue.Settlement
				for _, v := range res.Jobs {
					left--
					d := r.departure(v)
					if before, ok := at[v.Queue]; ok && (d.Sub(before) < 100*time.Millisecond || v.ID != "b") {
						r.Fatalf("%s/%s departs %v after the one before", v.Queue, v.ID, d.Sub(before))
					}
					at[v.Queue] = d
					done = append(done, settlement(queue.Deliver, v))
				}
				for _, s := range r.settle(done...) {
					if s.State != queue.Delivered {
						r.Fatalf("%+v", s)
					}
				}
			}
			r.clock.Advance(10 * time.Millisecond)
		}
		if len(at) != n {
			r.Errorf("%d queues of %d departed", len(at), n)
		}
	}},
}
