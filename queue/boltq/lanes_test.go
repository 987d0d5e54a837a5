package boltq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// sum is what is coming, in numbers.
func (c *coming) sum() [5]int64 {
	return [...]int64{c.all, c.waiting, c.cost, int64(c.lanes), c.scheduled()}
}

// accept appends jobs that all come in.
func (b *bench) accept(jobs ...queue.Job) {
	b.Helper()
	answers, err := b.Append(context.Background(), jobs)
	if err != nil {
		b.Fatal(err)
	}
	for _, a := range answers {
		if a.Outcome != queue.Accepted {
			b.Fatalf("%s: %v, %v", a.ID, a.Outcome, a.Err)
		}
	}
}

// odds returns jobs of several lanes and priorities, some of them scheduled.
func odds(name string, from, n int) []queue.Job {
	list := make([]queue.Job, n)
	for i := range list {
		k := from + i
		list[i] = jobOf(name, k)
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

// What lanes, priorities and schedules make of jobs is the same after a reopening.
func TestLanesAreTheSameAfterReopening(t *testing.T) {
	look := func(b *bench) (all []queue.JobInfo) {
		for n := range 60 {
			j, err := b.Job(context.Background(), "q", jobOf("q", n).ID)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, j)
		}
		return all
	}
	var orders [2][]string
	for i := range orders {
		b := start(t, Options{})
		b.put("q", "unlimited", func(s *queue.Spec) { s.Retry.MaxAttempts = 2 })
		b.accept(odds("q", 0, 60)...)
		got := b.reserve(8)
		b.settleAll(queue.Release, got[:2])
		b.settleAll(queue.Fail, got[2:5])
		b.settleAll(queue.Bury, got[5:7])
		b.settleAll(queue.Deliver, got[7:])
		before, info := look(b), b.info("q")
		if info.Lanes != 4 || info.Scheduled < 10 || info.Dead != 2 {
			t.Fatalf("%+v", info)
		}
		if i == 1 {
			b.reopen()
			if after := look(b); !reflect.DeepEqual(before, after) {
				for n := range before {
					if before[n] != after[n] {
						t.Errorf("before %+v\nafter  %+v", before[n], after[n])
					}
				}
			}
			after := b.info("q")
			after.Bucket.Last = info.Bucket.Last // as late as a grant can have been
			if after.Outflow = info.Outflow; !reflect.DeepEqual(info, after) {
				t.Errorf("before %+v\nafter  %+v", info, after)
			}
		}
		b.advance(2 * time.Minute)
		for _, r := range b.reserve(100) { // whose turn it is is not on file: lane by lane
			orders[i] = append(orders[i], fmt.Sprint(r.Lane, " ", r.Priority, " ", r.ID))
		}
		slices.SortStableFunc(orders[i], func(a, b string) int { return int(a[0]) - int(b[0]) })
	}
	if len(orders[0]) < 50 || !slices.Equal(orders[0], orders[1]) {
		t.Errorf("lane by lane departed\n%v, and after a reopening\n%v", orders[0], orders[1])
	}
}

// A job whose not-before passed while the file was closed waits, and one that is still to
// come is scheduled, at its turn.
func TestScheduledJobsComeBackScheduled(t *testing.T) {
	b := start(t, Options{})
	b.put("q", "unlimited")
	for i, after := range []time.Duration{time.Hour, time.Minute, 0} {
		j := jobOf("q", i)
		j.NotBefore = noon.Add(after).Time()
		b.accept(j)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b.advance(time.Minute)
	b.open(b.path)
	if i := b.info("q"); i.Waiting != 2 || i.Scheduled != 1 {
		t.Fatalf("%+v", i)
	}
	got := b.reserve(9)
	if len(got) != 2 || got[0].ID != jobOf("q", 1).ID {
		t.Fatalf("%+v", got)
	}
	b.settleAll(queue.Deliver, got)
	b.advance(time.Hour - time.Minute)
	if got := b.reserve(9); len(got) != 1 || got[0].ID != jobOf("q", 0).ID {
		t.Fatalf("%+v", got)
	}
	b.Engine.mu.Lock()
	defer b.Engine.mu.Unlock()
	if f := b.lines["q"].jobs[jobOf("q", 0).ID].flight; f == nil || f.attempts != 0 {
		t.Errorf("%+v", f)
	}
}

// Buckets of lanes are not on file: after a reopening a lane is held as if it had just
// granted its dearest job, but not one of a queue that this process made.
func TestLanesAreHeldOverAReopening(t *testing.T) {
	b := start(t, Options{})
	second := laned(queue.LaneRule{Rate: rateOf(t, "1/s")})
	b.put("old", "unlimited", second)
	pair := func(name string, from int) []queue.Job {
		list := []queue.Job{jobOf(name, from), jobOf(name, from+1)}
		list[0].Lane, list[1].Lane = "a", "a"
		list[0].Cost = 2
		return list
	}
	b.accept(pair("old", 0)...)
	if got := b.reserve(9); len(got) != 1 {
		t.Fatalf("a file that this process made was held: %d granted", len(got))
	}
	b.reopen()
	b.put("new", "unlimited", second)
	b.accept(pair("new", 0)...)
	if got := b.reserve(9); len(got) != 1 || got[0].Queue != "new" {
		t.Fatalf("%+v", got)
	}
	b.advance(queue.Horizon + 2*time.Second - time.Microsecond)
	for _, r := range b.reserve(9) {
		if r.Queue == "old" {
			t.Errorf("%s was granted a microsecond too early", r.ID)
		}
	}
	b.advance(time.Microsecond)
	if got := b.reserve(9); len(got) != 1 || got[0].Queue != "old" {
		t.Errorf("%+v", got)
	}
}

// A lane is held for the dearest job that was known when the store was opened. One that
// costs more is held for itself, while one as costly may have left before; it holds no
// other lane.
func TestACostlyJobHoldsItsOwnLane(t *testing.T) {
	b := start(t, Options{})
	b.put("q", "unlimited", laned(queue.LaneRule{Rate: rateOf(t, "1/s"), Burst: 2}))
	b.put("old", "unlimited", laned(queue.LaneRule{Rate: rateOf(t, "1/m")}))
	b.reopen()
	begun := b.engineNow()
	of := func(name, lane, id string, cost int64) queue.Job {
		return queue.Job{Queue: name, ID: id, Lane: lane, Cost: cost, Payload: []byte("{}")}
	}
	b.accept(of("q", "a", "a1", 1), of("q", "a", "a2", 10), of("q", "a", "a3", 10), of("q", "b", "b1", 1), of("q", "b", "b2", 3))
	got := map[string]time.Duration{}
	for len(got) < 5 {
		list := b.reserve(9)
		for _, r := range list {
			got[r.ID] = b.engineNow().Sub(begun) + r.In
		}
		b.settleAll(queue.Deliver, list)
		b.advance(50 * time.Millisecond)
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

	b.advance(2 * time.Hour) // long after the opening
	b.accept(of("old", "a", "a1", 1), of("old", "b", "b1", 1000), of("old", "c", "c1", 1), of("old", "d", "d1", 100))
	var ids []string
	list := b.reserve(9)
	for _, r := range list {
		ids = append(ids, r.ID)
	}
	b.settleAll(queue.Deliver, list)
	slices.Sort(ids)
	if !slices.Equal(ids, []string{"a1", "c1", "d1"}) {
		t.Errorf("granted %v two hours after the opening", ids)
	}
	b.advance(begun.Add(queue.Horizon+1000*time.Minute).Sub(b.engineNow()) - time.Microsecond)
	if got := b.reserve(9); len(got) != 0 {
		t.Errorf("%s was granted a microsecond too early", got[0].ID)
	}
	b.advance(time.Microsecond)
	if got := b.reserve(9); len(got) != 1 || got[0].ID != "b1" {
		t.Errorf("granted %v when nothing that may have been lost can matter", got)
	}
}

// What backs off in an ordered queue keeps its lane busy over a reopening.
func TestOrderedLanesStayBusyOverAReopening(t *testing.T) {
	b := start(t, Options{})
	b.put("q", "unlimited", func(s *queue.Spec) { s.Ordered = true })
	for i, lane := range []string{"a", "a", "", ""} {
		j := jobOf("q", i)
		j.Lane = lane
		b.accept(j)
	}
	b.settleAll(queue.Fail, b.reserve(9)) // the first of each, for a minute
	b.reopen()
	if got := b.reserve(9); len(got) != 0 {
		t.Fatalf("%s overtook what backs off", got[0].ID)
	}
	b.advance(time.Minute)
	var ids []string
	for range 2 {
		got := b.reserve(9)
		for _, r := range got {
			ids = append(ids, r.ID)
		}
		b.settleAll(queue.Deliver, got)
	}
	slices.Sort(ids[:2])
	slices.Sort(ids[2:])
	if want := []string{jobOf("q", 0).ID, jobOf("q", 2).ID, jobOf("q", 1).ID, jobOf("q", 3).ID}; !slices.Equal(ids, want) {
		t.Errorf("granted %v, want %v", ids, want)
	}
}

// empty checks that nothing is left of the lanes of a queue.
func (b *bench) empty(name string) {
	b.Helper()
	b.Engine.mu.Lock()
	defer b.Engine.mu.Unlock()
	l := b.lines[name]
	t := l.turns
	if len(l.lanes) != 0 || b.fading.len() != 0 || l.peopled != 0 || l.coming.sum() != [5]int64{} || l.bare.held != 0 || l.bare.flying != 0 || l.bare.fifo.len() != 0 {
		b.Errorf("%d lanes, %d fade, %d with jobs, coming %v, without a key %+v", len(l.lanes), b.fading.len(), l.peopled, l.coming.sum(), l.bare)
	}
	if t.ready.len() != 0 || t.resting.len() != 0 || t.changing() {
		b.Errorf("%d ready, %d rest, %d after a change", t.ready.len(), t.resting.len(), t.changed.len())
	}
	if n := cap(t.ready.items) + cap(t.resting.items) + cap(b.fading.items); n > 3*256 || l.mostLanes > fewLanes {
		b.Errorf("memory is kept for %d lanes in heaps, and %d in the map", n, l.mostLanes)
	}
}

// Any number of lanes leave nothing behind, be it because they have no rate, or when
// their buckets have run out, in whatever way their jobs go.
func TestLanesLeaveNothingBehind(t *testing.T) {
	const n = 5000
	for _, rate := range []string{"unlimited", "1/m"} {
		b := start(t, Options{})
		b.put("q", "unlimited", func(s *queue.Spec) { s.Retention.Max = 1 }, laned(queue.LaneRule{Rate: rateOf(t, rate), MaxInFlight: 1}))
		for from := 0; from < n; from += 1000 {
			list := make([]queue.Job, 1000)
			for i := range list {
				list[i] = jobOf("q", from+i)
				list[i].Lane = fmt.Sprint("lane ", from+i)
				list[i].Priority = i % 10
				if i%3 == 0 {
					list[i].NotBefore = noon.Add(time.Second).Time()
				}
			}
			b.accept(list...)
		}
		if i := b.info("q"); i.Lanes+i.Scheduled != n {
			t.Fatalf("%+v", i)
		}
		for i := range 100 {
			if s := b.cancelJob("q", i); s != queue.Cancelled {
				t.Fatal(s)
			}
		}
		b.advance(time.Second)
		for left := n - 100; left > 0; {
			got := b.reserve(queue.MaxReserve)
			if left -= len(got); len(got) == 0 {
				b.advance(queue.Horizon)
			}
			b.settleAll(queue.Deliver, got)
		}
		if rate == "1/m" {
			b.Engine.mu.Lock()
			fading := b.fading.len()
			b.Engine.mu.Unlock()
			if fading != n-100 {
				t.Errorf("%d buckets are kept, want %d", fading, n-100)
			}
			b.advance(2 * time.Minute)
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

// A queue that is deleted takes its lanes along, those that fade too.
func TestDeletedLanesLeaveNothingBehind(t *testing.T) {
	b := start(t, Options{})
	b.put("q", "unlimited", laned(queue.LaneRule{Rate: rateOf(t, "1/h")}))
	b.accept(odds("q", 0, 60)...)
	for _, r := range b.reserve(1) {
		b.settleAll(queue.Deliver, []queue.Reservation{r})
	}
	b.accept(queue.Job{Queue: "q", ID: "alone", Lane: "alone"})
	for len(b.reserve(9)) > 0 {
		b.advance(time.Millisecond)
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
	fading := b.fading.len()
	b.Engine.mu.Unlock()
	if fading != 0 {
		t.Errorf("%d lanes of a deleted queue fade", fading)
	}
	b.reopen()
	b.Engine.mu.Lock()
	defer b.Engine.mu.Unlock()
	if len(b.garbage) != 0 {
		t.Errorf("jobs of the deleted queue are still in the file: %+v", b.garbage[0])
	}
}

// Whatever a deleted queue had is gone through in pieces, not at once.
func TestADeletedQueueIsClearedInPieces(t *testing.T) {
	const n = 2*fadeMax + 1
	e := &Engine{fading: newLanes(byFading)}
	l := newLine(1, queue.Spec{Name: "q"})
	for i := range n {
		key := fmt.Sprint("lane ", i)
		ln := l.lane(key, queue.DigestLane(key))
		j := &job{id: key, lane: ln, seq: uint64(i + 1), turn: firstTurn + int64(i), cost: 1, state: queue.Waiting}
		l.board(ln)
		if i%3 == 0 { // a third of the lanes fade
			ln.bucket.TAT = noon
			e.alight(ln, 0)
			j.lane = &l.bare
		}
		l.jobs[j.id] = j
		l.place(j.lane, l.stand(j), 0)
		l.ended.add(&ended{id: fmt.Sprint("ended ", i), key: uint64(i + 1), at: leaky.Instant(i), state: queue.Delivered + queue.State(i%2)})
	}
	fading, seqs, keys := e.fading.len(), map[uint64]bool{}, map[uint64]bool{}
	e.discard(l)
	if e.fading.len() != fading {
		t.Errorf("%d of %d lanes that fade were taken out at once", fading-e.fading.len(), fading)
	}
	for e.fade(noon, 10); !e.garbage[0].empty(); { // some of which are over meanwhile
		before := e.fading.len()
		taken := e.garbage[0].take(sweepMax)
		e.garbage[0].unfade(fadeMax)
		if some := len(taken.jobs) + len(taken.ended); some > sweepMax || before-e.fading.len() > fadeMax {
			t.Fatalf("%d records and %d lanes in a piece", some, before-e.fading.len())
		}
		for _, seq := range taken.jobs {
			seqs[seq] = true
		}
		for _, d := range taken.ended {
			keys[d.key] = true
		}
	}
	if len(seqs) != n || len(keys) != n || e.fading.len() != 0 {
		t.Errorf("%d jobs and %d ended ones were freed of %d, %d lanes fade", len(seqs), len(keys), n, e.fading.len())
	}
}

// What an append, a cancellation or the expiry of a job in a lane has taken it gives back
// when its commit fails.
func TestChangesOfLanesCanFail(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault})
	ctx := context.Background()
	b.put("q", "unlimited", func(s *queue.Spec) { s.MaxScheduled = 3 }, laned(queue.LaneRule{Capacity: 2}))
	b.accept(odds("q", 0, 4)...)
	fails := func(what string, f func() error) {
		t.Helper()
		before := b.standing("q")
		n.all.Store(true)
		if err := f(); !errors.Is(err, queue.ErrStoreFull) {
			t.Errorf("%s: %v", what, err)
		}
		n.all.Store(false)
		b.forgive()
		if after := b.standing("q"); before != after {
			t.Errorf("%s changed\n%s\ninto\n%s", what, before, after)
		}
	}
	steps := []func() error{
		func() error { return failure(b.Append(ctx, odds("q", 4, 4))) },
		func() error {
			return failure(b.Append(ctx, []queue.Job{{Queue: "q", ID: "x", Lane: "new", Priority: 3}}))
		},
		func() error { _, err := b.Cancel(ctx, "q", jobOf("q", 0).ID); return err },
		func() error { _, err := b.Cancel(ctx, "q", jobOf("q", 1).ID); return err },
	}
	for i, s := range steps {
		fails(fmt.Sprint("step ", i), s)
	}
	b.put("alone", "unlimited")
	b.accept(queue.Job{Queue: "alone", ID: "x", Lane: "a"})
	n.all.Store(true)
	if _, err := b.Cancel(ctx, "alone", "x"); !errors.Is(err, queue.ErrStoreFull) {
		t.Error(err)
	}
	n.all.Store(false)
	b.forgive()
	b.number++
	if r, err := b.Reserve(ctx, queue.ReserveRequest{Client: queue.Client{ID: "c"}, Number: b.number, Max: 100}); err != nil || len(r.Jobs) == 0 || r.Jobs[len(r.Jobs)-1].Queue != "alone" {
		t.Errorf("a lane whose job was to be cancelled is lost: %+v, %v", r.Jobs, err)
	} else {
		b.settleAll(queue.Release, r.Jobs)
	}
	for i, s := range steps {
		if err := s(); err != nil {
			t.Errorf("step %d: %v", i, err)
		}
	}
	b.advance(time.Hour)
	for got := b.reserve(100); len(got) > 0; got = b.reserve(100) {
		b.settleAll(queue.Deliver, got)
	}
	b.empty("q")
}

// failure is the error of the first job that could not be decided.
func failure(answers []queue.Appended, err error) error {
	for _, a := range answers {
		if err == nil && a.Outcome == queue.Failed {
			err = a.Err
		}
	}
	return err
}

func TestTiersAgainstASortedList(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 9))
	var f tiers
	var list []*job
	base, sides := int64(firstTurn), 0
	find := func(turn int64) int {
		at, _ := slices.BinarySearchFunc(list, turn, func(j *job, turn int64) int {
			if j.turn < turn {
				return -1
			}
			return 1
		})
		return at
	}
	var away []*job // which come back later, to any place
	for range 40_000 {
		switch op := rnd.IntN(10); {
		case op < 1 && len(away) > 0:
			at := rnd.IntN(len(away))
			j := away[at]
			away = slices.Delete(away, at, at+1)
			if at = find(j.turn); f.search(j.turn) != at {
				t.Fatalf("%d before turn %d, want %d", f.search(j.turn), j.turn, at)
			}
			list = slices.Insert(list, at, j)
			f.insert(j)
			if got := f.rank(j); got != at {
				t.Fatalf("rank %d of one that came back, want %d", got, at)
			}
			if aside := f.more != nil && f.more.side.len() > 0; aside {
				sides++
			}
		case op < 6 && len(list) < 2000 || len(list) == 0:
			base += 1 + rnd.Int64N(3)
			j := &job{turn: turnOf(base, rnd.IntN(3)*rnd.IntN(5))}
			if j.base() != base {
				t.Fatalf("the base of turn %d is %d, want %d", j.turn, j.base(), base)
			}
			at := find(j.turn)
			if got := f.search(j.turn); got != at {
				t.Fatalf("%d before turn %d, want %d", got, j.turn, at)
			}
			list = slices.Insert(list, at, j)
			f.insert(j)
			if got := f.rank(j); got != at {
				t.Fatalf("rank %d, want %d", got, at)
			}
		case op < 8: // the middle
			at := rnd.IntN(len(list))
			if f.remove(list[at]); rnd.IntN(2) == 0 {
				away = append(away, list[at])
			}
			list = slices.Delete(list, at, at+1)
		default:
			if f.front() != list[0] {
				t.Fatalf("turn %d is at the front, want %d", f.front().turn, list[0].turn)
			}
			f.remove(list[0])
			list = list[1:]
		}
		if f.len() != len(list) {
			t.Fatalf("%d in it, want %d", f.len(), len(list))
		}
		if rnd.IntN(500) > 0 || len(list) == 0 {
			continue
		}
		at := rnd.IntN(len(list))
		if got := slices.Collect(f.from(list[at].turn)); !slices.Equal(got, list[at:]) {
			t.Fatalf("%d jobs from turn %d on, want %d", len(got), list[at].turn, len(list)-at)
		}
		until, old := list[at].base(), slices.Clone(list)
		old = slices.DeleteFunc(old, func(j *job) bool { return j.base() >= until })
		if got := slices.Collect(f.before(until)); !slices.Equal(got, old) {
			t.Fatalf("%d jobs before %d, want %d", len(got), until, len(old))
		}
	}
	if sides < 500 {
		t.Errorf("only %d times some stood aside", sides)
	}
	for _, j := range list {
		f.remove(j)
	}
	if f.len() != 0 || f.more != nil || len(f.low.ring) > 64 {
		t.Errorf("%d are left, with room for %d, %+v", f.len(), len(f.low.ring), f.more)
	}
}

// What comes back into the middle of many is put in without moving them.
func TestComingBackMovesFewJobs(t *testing.T) {
	const n = 100_000
	var f tiers
	for i := range int64(n) {
		f.insert(&job{turn: firstTurn + 2*i})
	}
	ring := slices.Clone(f.low.ring)
	for i := range int64(n / 10) {
		f.insert(&job{turn: firstTurn + n/2 + 2*i + 1})
	}
	moved := 0
	for i, j := range f.low.ring {
		if ring[i] != j {
			moved++
		}
	}
	if moved != 0 || f.len() != n+n/10 {
		t.Errorf("%d of %d were moved", moved, f.len())
	}
	if got := f.rank(f.low.at(n - 1)); got != f.len()-1 {
		t.Errorf("the last has rank %d of %d", got, f.len())
	}
}
