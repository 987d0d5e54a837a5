package machine

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
)

// Lanes, priorities and schedules are the same after reopening.
func TestLanesAreTheSameAfterReopening(t *testing.T) {
	look := func(b *bench) (all []queue.JobInfo) {
		for n := range 60 {
			j, err := b.Job(context.Background(), "q", enginetest.Job("q", n).ID)
			if err != nil {
				t.Fatal(err)
			}
			if j.State == queue.Delivered {
				j.Timeline = nil // which is in memory alone
			}
			all = append(all, j)
		}
		return all
	}
	var orders [2][]string
	for i := range orders {
		b := start(t, Options{})
		b.MustPut("q", "unlimited", func(s *queue.Spec) { s.Retry.MaxAttempts = 2 })
		b.MustAppend(odds("q", 0, 60)...)
		got := b.MustReserve(8)
		b.MustSettle(queue.Release, got[:2])
		b.MustSettle(queue.Fail, got[2:5])
		b.MustSettle(queue.Bury, got[5:7])
		b.MustSettle(queue.Deliver, got[7:])
		before, info := look(b), b.MustGet("q")
		if info.Lanes != 4 || info.Scheduled < 10 || info.Dead != 2 {
			t.Fatalf("%+v", info)
		}
		if i == 1 {
			b.reopen()
			if after := look(b); !reflect.DeepEqual(before, after) {
				for n := range before {
					if !reflect.DeepEqual(before[n], after[n]) {
						t.Errorf("before %+v\nafter  %+v", before[n], after[n])
					}
				}
			}
			after := b.MustGet("q")
			after.Bucket.Last = info.Bucket.Last // as late as a grant can have been
			info.Asked = time.Time{}             // nobody asked this process yet
			if after.Outflow = info.Outflow; !reflect.DeepEqual(info, after) {
				t.Errorf("before %+v\nafter  %+v", info, after)
			}
		}
		b.Advance(2 * time.Minute)
		for _, r := range b.MustReserve(100) { // turns are not on file: compare lane by lane
			orders[i] = append(orders[i], fmt.Sprint(r.Lane, " ", r.Priority, " ", r.ID))
		}
		slices.SortStableFunc(orders[i], func(a, b string) int { return int(a[0]) - int(b[0]) })
	}
	if len(orders[0]) < 50 || !slices.Equal(orders[0], orders[1]) {
		t.Errorf("lane by lane departed\n%v, and after a reopening\n%v", orders[0], orders[1])
	}
}

// A job whose not-before passed while the file was closed waits; a job whose not-before is still to come is scheduled,
// at its turn.
func TestScheduledJobsComeBackScheduled(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "unlimited")
	for i, after := range []time.Duration{time.Hour, time.Minute, 0} {
		j := enginetest.Job("q", i)
		j.NotBefore = noon.Add(after).Time()
		b.MustAppend(j)
	}
	b.reopen()
	b.Advance(time.Minute)
	b.reopen()
	if i := b.MustGet("q"); i.Waiting != 2 || i.Scheduled != 1 {
		t.Fatalf("%+v", i)
	}
	got := b.MustReserve(9)
	if len(got) != 2 || got[0].ID != enginetest.Job("q", 1).ID {
		t.Fatalf("%+v", got)
	}
	b.MustSettle(queue.Deliver, got)
	b.Advance(time.Hour - time.Minute)
	if got := b.MustReserve(9); len(got) != 1 || got[0].ID != enginetest.Job("q", 0).ID {
		t.Fatalf("%+v", got)
	}
	b.Engine.mu.Lock()
	defer b.Engine.mu.Unlock()
	if ls := b.queues["q"].jobs[enginetest.Job("q", 0).ID].lease; ls == nil || ls.attempts != 0 {
		t.Errorf("%+v", ls)
	}
}

// Buckets of lanes are not on file. After reopening, a lane is held as if it had just granted its costliest job, unless
// this process created its queue.
func TestLanesAreHeldOverAReopening(t *testing.T) {
	b := start(t, Options{})
	second := laned(queue.LaneRule{Rate: rateOf(t, "1/s")})
	b.MustPut("old", "unlimited", second)
	pair := func(name string, from int) []queue.Job {
		list := []queue.Job{enginetest.Job(name, from), enginetest.Job(name, from+1)}
		list[0].Lane, list[1].Lane = "a", "a"
		list[0].Cost = 2
		return list
	}
	b.MustAppend(pair("old", 0)...)
	if got := b.MustReserve(9); len(got) != 1 {
		t.Fatalf("a file that this process made was held: %d granted", len(got))
	}
	b.reopen()
	b.MustPut("new", "unlimited", second)
	b.MustAppend(pair("new", 0)...)
	if got := b.MustReserve(9); len(got) != 1 || got[0].Queue != "new" {
		t.Fatalf("%+v", got)
	}
	b.Advance(queue.Horizon + 2*time.Second - time.Microsecond)
	for _, r := range b.MustReserve(9) {
		if r.Queue == "old" {
			t.Errorf("%s was granted a microsecond too early", r.ID)
		}
	}
	b.Advance(time.Microsecond)
	if got := b.MustReserve(9); len(got) != 1 || got[0].Queue != "old" {
		t.Errorf("%+v", got)
	}
}

// A lane is delayed for the costliest job known when the store was opened. A costlier job is held itself, since one as
// costly may have left before; it holds no other lane.
func TestACostlyJobHoldsItsOwnLane(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "unlimited", laned(queue.LaneRule{Rate: rateOf(t, "1/s"), Burst: 2}))
	b.MustPut("old", "unlimited", laned(queue.LaneRule{Rate: rateOf(t, "1/m")}))
	b.reopen()
	begun := b.engineNow()
	of := func(name, lane, id string, cost int64) queue.Job {
		return queue.Job{Queue: name, ID: id, Lane: lane, Cost: cost, Payload: []byte("{}")}
	}
	b.MustAppend(
		of("q", "a", "a1", 1), of("q", "a", "a2", 10), of("q", "a", "a3", 10), of("q", "b", "b1", 1),
		of("q", "b", "b2", 3),
	)
	got := map[string]time.Duration{}
	for len(got) < 5 {
		list := b.MustReserve(9)
		for _, r := range list {
			got[r.ID] = b.engineNow().Sub(begun) + r.In
		}
		b.MustSettle(queue.Deliver, list)
		b.Advance(50 * time.Millisecond)
		if b.engineNow().Sub(begun) > time.Minute {
			t.Fatal(got)
		}
	}
	const first = time.Second + queue.Horizon // held for a job of cost 1
	want := map[string]time.Duration{
		"a1": first, "b1": first,
		"a2": first + time.Second + 9*time.Second, "a3": first + 20*time.Second,
		"b2": first + time.Second + 2*time.Second,
	}
	for id, at := range want {
		if got[id].Round(50*time.Millisecond) != at.Round(50*time.Millisecond) {
			t.Errorf("%s left at %v, want %v", id, got[id], at)
		}
	}

	b.Advance(2 * time.Hour) // long after the opening
	b.MustAppend(of("old", "a", "a1", 1), of("old", "b", "b1", 1000), of("old", "c", "c1", 1), of("old", "d", "d1", 100))
	var ids []string
	list := b.MustReserve(9)
	for _, r := range list {
		ids = append(ids, r.ID)
	}
	b.MustSettle(queue.Deliver, list)
	slices.Sort(ids)
	if !slices.Equal(ids, []string{"a1", "c1", "d1"}) {
		t.Errorf("granted %v two hours after the opening", ids)
	}
	b.Advance(begun.Add(queue.Horizon+1000*time.Minute).Sub(b.engineNow()) - time.Microsecond)
	if got := b.MustReserve(9); len(got) != 0 {
		t.Errorf("%s was granted a microsecond too early", got[0].ID)
	}
	b.Advance(time.Microsecond)
	if got := b.MustReserve(9); len(got) != 1 || got[0].ID != "b1" {
		t.Errorf("granted %v when nothing that may have been lost can matter", got)
	}
}

// A job that backs off in an ordered queue keeps its lane busy over a reopening.
func TestOrderedLanesStayBusyOverAReopening(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "unlimited", func(s *queue.Spec) { s.Ordered = true })
	for i, lane := range []string{"a", "a", "", ""} {
		j := enginetest.Job("q", i)
		j.Lane = lane
		b.MustAppend(j)
	}
	b.MustSettle(queue.Fail, b.MustReserve(9)) // the first of each, for a minute
	b.reopen()
	if got := b.MustReserve(9); len(got) != 0 {
		t.Fatalf("%s overtook what backs off", got[0].ID)
	}
	b.Advance(time.Minute)
	var ids []string
	for range 2 {
		got := b.MustReserve(9)
		for _, r := range got {
			ids = append(ids, r.ID)
		}
		b.MustSettle(queue.Deliver, got)
	}
	slices.Sort(ids[:2])
	slices.Sort(ids[2:])
	if want := []string{
		enginetest.Job("q", 0).ID, enginetest.Job("q", 2).ID, enginetest.Job("q", 1).ID, enginetest.Job("q", 3).ID,
	}; !slices.Equal(ids, want) {
		t.Errorf("granted %v, want %v", ids, want)
	}
}

// empty checks that nothing is left of the lanes of a queue.
func (b *bench) empty(name string) {
	b.Helper()
	b.Engine.mu.Lock()
	defer b.Engine.mu.Unlock()
	q := b.queues[name]
	t := q.laneTurns
	if len(q.lanes) != 0 || b.idleLanes.len() != 0 || q.lanesWaiting != 0 || q.incoming.sum() != [5]int64{} ||
		q.ensureDefaultLane().size != 0 || q.defaultLane.inFlight != 0 || q.defaultLane.waiting.len() != 0 {
		b.Errorf(
			"%d lanes, %d idle, %d with jobs, incoming %v, without a key %+v", len(q.lanes), b.idleLanes.len(),
			q.lanesWaiting, q.incoming.sum(), q.defaultLane,
		)
	}
	if t.ready.len() != 0 || t.resting.len() != 0 || t.recalling() {
		b.Errorf("%d ready, %d rest, %d after a change", t.ready.len(), t.resting.len(), t.changed.len())
	}
	if n := cap(t.ready.items) + cap(t.resting.items) + cap(b.idleLanes.items); n > 3*256 || q.lanesPeak > smallMap {
		b.Errorf("memory is kept for %d lanes in heaps, and %d in the map", n, q.lanesPeak)
	}
}

// Limits of lanes in other units hold over a reopening: their bursts count as used up, and debts are on file until they
// are paid.
func TestDebtsOfLanesSurviveAReopening(t *testing.T) {
	b := start(t, Options{})
	limits := queue.LimitLane(queue.Limit{Unit: "tokens", Rate: rateOf(t, "10/s"), Burst: 20})
	b.MustPut("q", "unlimited", laned(queue.LaneRule{Limits: limits}), func(s *queue.Spec) { s.Lease = 3600e9 })
	add := func(n int, lane string, tokens int64) {
		j := enginetest.Job("q", n)
		j.Lane, j.Costs = lane, map[string]int64{"tokens": tokens}
		b.MustAppend(j)
	}
	add(1, "debt", 120) // of 10 s beyond the burst
	add(2, "small", 5)
	add(3, "late", 5)
	got := b.MustReserve(9)
	if len(got) != 3 {
		t.Fatalf("%+v", got)
	}
	settlements := enginetest.Settlements(queue.Deliver, got)
	for i, r := range got {
		if r.Lane == "late" {
			settlements[i].Actual = map[string]int64{"tokens": 220}
		}
	}
	if out, err := b.Settle(context.Background(), settlements); err != nil || out[0].Err != nil {
		t.Fatal(out, err)
	}
	if n := b.records(laneDebtsTable); n != 2 {
		t.Errorf("%d lanes with debts are on file", n)
	}
	b.reopen()
	add(11, "debt", 10)
	add(12, "small", 10)
	add(13, "late", 10)
	add(14, "other", 20)
	begun, left := b.Now(), map[string]time.Duration{}
	for range 250 {
		for _, r := range b.MustReserve(9) {
			left[r.Lane] = b.Now().Add(r.In).Sub(begun)
			b.MustSettle(queue.Deliver, []queue.Reservation{r})
		}
		b.Advance(100 * time.Millisecond)
	}
	for lane, seconds := range map[string]int{"debt": 11, "small": 1, "late": 21, "other": 2} {
		want := time.Duration(seconds) * time.Second
		if at := left[lane]; at < want || at > want+500*time.Millisecond {
			t.Errorf("%s leaves after %v, want %v", lane, at, want)
		}
	}
	b.Advance(time.Minute)
	b.MustReserve(9)
	b.sweep()
	b.MustPut("q", "unlimited") // writes a commit
	if n := b.records(laneDebtsTable); n != 0 {
		t.Errorf("%d lanes are still on file", n)
	}
}
