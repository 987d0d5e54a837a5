package machine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// sum returns the counts of incoming jobs.
func (c *incoming) sum() [5]int64 {
	return [...]int64{c.all, c.waiting, c.cost, int64(c.lanes), c.scheduled()}
}

// odds returns jobs of several lanes and priorities, some of them scheduled.
func odds(name string, from, n int) []queue.Job {
	list := make([]queue.Job, n)
	for i := range list {
		k := from + i
		list[i] = enginetest.Job(name, k)
		list[i].Lane = []string{"", "a", "b", "c"}[k%4]
		list[i].Priority = k * 7 % 10
		list[i].Cost = int64(1 + k%3)
		if k%5 == 0 {
			list[i].NotBefore = noon.Add(time.Duration(k) * time.Second).Time()
		}
	}
	return list
}

func laned(rule queue.LaneRule) func(*queue.Spec) {
	return func(s *queue.Spec) { s.Lanes.LaneRule = rule }
}

func rateOf(t testing.TB, s string) leaky.Rate {
	r, err := leaky.ParseRate(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Lanes leave nothing behind, whether they had no rate or their buckets ran out, and however their jobs end.
func TestLanesLeaveNothingBehind(t *testing.T) {
	const n = 5000
	for _, rate := range []string{"unlimited", "1/m"} {
		b := start(t, Options{})
		b.MustPut(
			"q", "unlimited", func(s *queue.Spec) { s.Retention.Max = 1 },
			laned(queue.LaneRule{Rate: rateOf(t, rate), MaxInFlight: 1}),
		)
		for from := 0; from < n; from += 1000 {
			list := make([]queue.Job, 1000)
			for i := range list {
				list[i] = enginetest.Job("q", from+i)
				list[i].Lane = fmt.Sprint("lane ", from+i)
				list[i].Priority = i % 10
				if i%3 == 0 {
					list[i].NotBefore = noon.Add(time.Second).Time()
				}
			}
			b.MustAppend(list...)
		}
		if i := b.MustGet("q"); i.Lanes+i.Scheduled != n {
			t.Fatalf("%+v", i)
		}
		for i := range 100 {
			if s := b.cancelJob("q", i); s != queue.Cancelled {
				t.Fatal(s)
			}
		}
		b.Advance(time.Second)
		for left := n - 100; left > 0; {
			got := b.MustReserve(queue.MaxReserve)
			if left -= len(got); len(got) == 0 {
				b.Advance(queue.Horizon)
			}
			b.MustSettle(queue.Deliver, got)
		}
		if rate == "1/m" {
			b.Engine.mu.Lock()
			idle := b.idleLanes.len()
			b.Engine.mu.Unlock()
			if idle != n-100 {
				t.Errorf("%d buckets are kept, want %d", idle, n-100)
			}
			b.Advance(2 * time.Minute)
			for more, sweeps := true, 0; more; sweeps++ {
				var err error
				if more, err = b.Sweep(context.Background(), 0); err != nil || sweeps > 100 {
					t.Fatal(more, err, sweeps)
				}
			}
		}
		b.empty("q")
	}
}

// Deleting a queue removes its lanes, including idle ones.
func TestDeletedLanesLeaveNothingBehind(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "unlimited", laned(queue.LaneRule{Rate: rateOf(t, "1/h")}))
	b.MustAppend(odds("q", 0, 60)...)
	for _, r := range b.MustReserve(1) {
		b.MustSettle(queue.Deliver, []queue.Reservation{r})
	}
	b.MustAppend(queue.Job{Queue: "q", ID: "alone", Lane: "alone"})
	for len(b.MustReserve(9)) > 0 {
		b.Advance(time.Millisecond)
	}
	if err := b.Delete(context.Background(), "q", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		var err error
		if more, err = b.Sweep(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
	}
	b.Engine.mu.Lock()
	idle := b.idleLanes.len()
	b.Engine.mu.Unlock()
	if idle != 0 {
		t.Errorf("%d lanes of a deleted queue are idle", idle)
	}
	b.reopen()
	b.Engine.mu.Lock()
	defer b.Engine.mu.Unlock()
	if len(b.garbage) != 0 {
		t.Errorf("jobs of the deleted queue are still in the file: %+v", b.garbage[0])
	}
}

// A deleted queue is cleared in pieces, not at once.
func TestADeletedQueueIsClearedInPieces(t *testing.T) {
	const n = 2*forgetLanesMax + 1
	e := New(1)
	q := e.newQueueState(1, queue.Spec{Name: "q"})
	for i := range n {
		key := fmt.Sprint("lane ", i)
		ln := q.lane(key, queue.DigestLane(key))
		j := &job{id: key, lane: ln, seq: uint64(i + 1), turn: firstTurn + int64(i), cost: 1, state: queue.Waiting}
		q.addToLane(j)
		if i%3 == 0 { // a third of the lanes are idle
			ln.pace = &lanePace{paces: paces{bucket: leaky.Bucket{TAT: noon}}}
			e.removeFromLane(j, 0)
			j.lane = q.lane("", queue.LaneDigest{})
		}
		q.addJob(j)
		q.placeLane(j.lane, q.pushWaiting(j), 0)
		q.endedJobs.add(&endedJob{
			id: fmt.Sprint("ended ", i), key: uint64(i + 1), at: leaky.Instant(i), state: queue.Delivered,
		})
	}
	idle, seqs, keys := e.idleLanes.len(), map[uint64]bool{}, map[uint64]bool{}
	e.discardQueue(q)
	if e.idleLanes.len() != idle {
		t.Errorf("%d of %d idle lanes were taken out at once", idle-e.idleLanes.len(), idle)
	}
	for e.forgetIdleLanes(noon, 10); !e.garbage[0].empty(); { // some lanes are forgotten meanwhile
		before := e.idleLanes.len()
		taken := e.garbage[0].take(sweepMax)
		e.garbage[0].dropLanes(e, forgetLanesMax)
		if some := len(taken.jobs) + len(taken.ended); some > sweepMax || before-e.idleLanes.len() > forgetLanesMax {
			t.Fatalf("%d records and %d lanes in a piece", some, before-e.idleLanes.len())
		}
		for _, seq := range taken.jobs {
			seqs[seq] = true
		}
		for _, d := range taken.ended {
			keys[d.key] = true
		}
	}
	if len(seqs) != n || len(keys) != n || e.idleLanes.len() != 0 {
		t.Errorf(
			"%d jobs and %d ended ones were freed of %d, %d idle lanes", len(seqs), len(keys), n, e.idleLanes.len(),
		)
	}
}

// When the commit of an append, a cancellation or an expiry in a lane fails, everything it took is given back.
func TestChangesOfLanesCanFail(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault})
	ctx := context.Background()
	b.MustPut("q", "unlimited", func(s *queue.Spec) { s.MaxScheduled = 3 }, laned(queue.LaneRule{Capacity: 2}))
	b.MustAppend(odds("q", 0, 4)...)
	fails := func(what string, f func() error) {
		t.Helper()
		n.refuse(b, what, f)
	}
	steps := []func() error{
		func() error { return failure(b.Append(ctx, odds("q", 4, 4))) },
		func() error {
			return failure(b.Append(ctx, []queue.Job{{Queue: "q", ID: "x", Lane: "new", Priority: 3}}))
		},
		func() error { _, err := b.Cancel(ctx, "q", enginetest.Job("q", 0).ID); return err },
		func() error { _, err := b.Cancel(ctx, "q", enginetest.Job("q", 1).ID); return err },
	}
	for i, s := range steps {
		fails(fmt.Sprint("step ", i), s)
	}
	b.MustPut("alone", "unlimited")
	b.MustAppend(queue.Job{Queue: "alone", ID: "x", Lane: "a"})
	n.all.Store(true)
	if _, err := b.Cancel(ctx, "alone", "x"); !errors.Is(err, queue.ErrStoreFull) {
		t.Error(err)
	}
	n.all.Store(false)
	b.forgive()
	b.Number++
	r, err := b.Reserve(ctx, queue.ReserveRequest{Client: queue.Client{ID: "c"}, Number: b.Number, Max: 100})
	if err != nil ||
		len(r.Jobs) == 0 || r.Jobs[len(r.Jobs)-1].Queue != "alone" {
		t.Errorf("a lane whose job was to be cancelled is lost: %+v, %v", r.Jobs, err)
	} else {
		b.MustSettle(queue.Release, r.Jobs)
	}
	for i, s := range steps {
		if err := s(); err != nil {
			t.Errorf("step %d: %v", i, err)
		}
	}
	b.Advance(time.Hour)
	for got := b.MustReserve(100); len(got) > 0; got = b.MustReserve(100) {
		b.MustSettle(queue.Deliver, got)
	}
	b.empty("q")
}

// failure returns the error of the first job that could not be decided.
func failure(answers []queue.Appended, err error) error {
	for _, a := range answers {
		if err == nil && a.Outcome == queue.Failed {
			err = a.Err
		}
	}
	return err
}

// A rule that changes while lanes are still being judged after an earlier change does not visit any lane at once, and
// only a few per visit.
func TestAChangedRuleGoesThroughNoLanes(t *testing.T) {
	const n = 1000
	q := New(1).newQueueState(1, queue.Spec{Name: "q"})
	turns, moves := q.takeTurns(), 0
	for _, h := range []*heap[*lane]{turns.resting, turns.changed, &turns.ready} {
		moved := h.moved
		h.moved = func(ln *lane, i int) { moved(ln, i); moves++ }
	}
	for i := range n {
		ln := &lane{queue: q, heapIndex: -1, key: "x"}
		ln.waiting.insert(&job{lane: ln, cost: 1, turn: firstTurn})
		turns.rest(ln, leaky.Instant(i))
	}
	turns.rulesChanged()
	turns.recall(&laneBudget{}, 0)
	for turns.ready.len() > 0 {
		turns.rest(turns.ready.top(), never)
	}
	moves = 0
	turns.rulesChanged()
	turns.rulesChanged()
	if moves != 0 {
		t.Errorf("%d moves of lanes at once", moves)
	}
	for visits := 0; turns.recalling(); visits++ {
		before := turns.ready.len()
		if turns.recall(&laneBudget{}, 0); turns.ready.len() > before+recallLanesMax || visits > 2*n/recallLanesMax {
			t.Fatalf("%d ready, then %d, after %d visits", before, turns.ready.len(), visits)
		}
	}
	if turns.ready.len() != n {
		t.Errorf("%d lanes will be judged, want all %d", turns.ready.len(), n)
	}
}
