package machine

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/unit"
)

// family makes a parent and two children, whose jobs the same drainer takes.
func (b *bench) family(rate string, change ...func(*queue.Spec)) {
	b.Helper()
	hour := func(s *queue.Spec) { s.Lease = unit.Duration(time.Hour) }
	b.MustPut("ses", rate, append(change, hour)...)
	b.MustPut("ses.a", "unlimited", hour)
	b.MustPut("ses.b", "unlimited", hour)
}

// checkGroup checks the counts of a group.
func (b *bench) checkGroup(name string) {
	b.Helper()
	b.Engine.mu.Lock()
	defer b.Engine.mu.Unlock()
	p := b.queues[name]
	g := newGroup(p)
	for _, child := range append(b.childrenOf(name), name) {
		q := b.queues[child]
		if q.group != p.group || q.agendaIndex >= 0 {
			b.Errorf("%s is a member of %p, not %p, and at %d of the agenda", child, q.group, p.group, q.agendaIndex)
		}
		if q.member.in != nil && q.member.in.items[q.member.heapIndex].item != q {
			b.Errorf("%s is not where it sits", child)
		}
		if able := q.runnable() && q.canDepart(q.memberOpens(b.now())) &&
			!q.heldUpByLanes(b.now()); able != (q.member.in != nil) {
			b.Errorf("%s can depart: %v, but it is in a place: %v", child, able, q.member.in != nil)
		}
		g.count(q, 1)
	}
	is := p.group
	if g.waiting != is.waiting || g.membersWaiting != is.membersWaiting || g.incoming != is.incoming ||
		g.weightWaiting != is.weightWaiting || g.weightIncoming != is.weightIncoming ||
		is.children != len(b.childrenOf(name)) {
		b.Errorf(
			"%d wait in %d, %d are coming, to a weight of %d, of %d children; counted %+v", g.waiting, g.membersWaiting,
			g.incoming, g.weightIncoming, len(b.childrenOf(name)), is,
		)
	}
}

// Whatever happens to its jobs, a group counts them correctly, and its members are in the right heaps.
func TestAGroupCountsItsJobs(t *testing.T) {
	b, n := start(t, Options{}), 0
	b.family("1000/s")
	b.MustPut("ses.b", "100/s", func(s *queue.Spec) { s.MaxInFlight = 5 })
	ctx, rnd := context.Background(), rand.New(rand.NewPCG(7, 7))
	queues := []string{"ses", "ses.a", "ses.b"}
	var held []queue.Reservation
	for i := range 400 {
		name := queues[rnd.IntN(3)]
		switch rnd.IntN(12) {
		case 0, 1, 2:
			for range 1 + rnd.IntN(9) {
				j := enginetest.Job(name, n)
				j.Cost = 1 + rnd.Int64N(3)
				j.Lane = []string{"", "", "x", "y"}[rnd.IntN(4)]
				if rnd.IntN(5) == 0 {
					j.NotBefore = b.engineNow().Add(30 * time.Millisecond).Time()
				}
				if rnd.IntN(5) == 0 {
					j.ExpiresAt = b.engineNow().Add(300 * time.Millisecond).Time()
				}
				if _, err := b.Append(ctx, []queue.Job{j}); err != nil {
					t.Fatal(err)
				}
				n++
			}
		case 3:
			_, _ = b.Cancel(ctx, name, enginetest.Job(name, rnd.IntN(n+1)).ID)
		case 4:
			if err := b.Pause(ctx, name, queue.Pause{}); err != nil {
				t.Fatal(err)
			}
		case 5, 6:
			for _, name := range queues {
				if err := b.Resume(ctx, name); err != nil {
					t.Fatal(err)
				}
			}
		case 7:
			b.MustPut(
				name, []string{"1000/s", "unlimited", "50/s"}[i%3],
				func(s *queue.Spec) { s.Lanes.Rate, s.Lanes.MaxInFlight = rateOf(t, "20/s"), int64(i%3) },
			)
		case 8:
			if rnd.IntN(4) == 0 {
				held = nil
				b.reopen()
			}
		case 9:
			for _, h := range held {
				b.MustSettle(queue.Verdict(1+rnd.IntN(4)), []queue.Reservation{h})
			}
			held = nil
		default:
			held = append(held, b.MustReserve(1+rnd.IntN(20))...)
		}
		if b.checkGroup("ses"); t.Failed() {
			t.Fatalf("step %d", i)
		}
		b.Advance(time.Duration(rnd.IntN(20)) * time.Millisecond)
	}
}

// Departures of a group obey the parent's window law over crashes, and departures of a child its own.
func TestWindowLawOfAGroupOverCrashes(t *testing.T) {
	b := start(t, Options{})
	b.family("100/s", func(s *queue.Spec) { s.Burst = 2 })
	b.MustPut("ses.b", "20/s", func(s *queue.Spec) { s.Lease = unit.Duration(time.Hour) })
	rnd := rand.New(rand.NewPCG(1, 5))
	var all, child []law.Start
	id := 0
	for range 400 {
		switch rnd.IntN(12) {
		case 0:
			b.crash()
		case 1:
			b.reopen()
		case 2, 3:
			for range 1 + rnd.IntN(20) {
				j := enginetest.Job([]string{"ses", "ses.a", "ses.b"}[rnd.IntN(3)], id)
				j.Cost = 1 + rnd.Int64N(3)
				if _, err := b.Append(context.Background(), []queue.Job{j}); err != nil {
					t.Fatal(err)
				}
				id++
			}
		default:
			b.Advance(time.Duration(rnd.Int64N(int64(90 * time.Millisecond))))
		}
		now := b.engineNow()
		got := b.MustReserve(20)
		for _, r := range got {
			s := law.Start{At: since(now.Add(r.In)), Cost: r.Cost}
			all = append(all, s)
			if r.Queue == "ses.b" {
				child = append(child, s)
			}
		}
		b.MustSettle(queue.Deliver, got)
	}
	for _, c := range []struct {
		rate   string
		burst  int64
		starts []law.Start
	}{{"100/s", 2, all}, {"20/s", 1, child}} {
		if v := (law.Law{
			Rate: rateOf(t, c.rate), Burst: c.burst, MaxCost: 3, Slack: time.Microsecond,
		}).Judge(c.starts); !v.Held {
			t.Errorf("%d starts: %+v", len(c.starts), v)
		}
	}
	if len(all) < 200 || len(child) < 30 {
		t.Errorf("only %d departures, %d of the child", len(all), len(child))
	}
}

// The append of a child's job brings the parent's ceiling along, so that its grant needs no commit.
func TestCommitsOfAGroupsGrants(t *testing.T) {
	commits := 0
	b := start(t, Options{synced: func() { commits++ }})
	b.family("5/s")
	for n := range 3 {
		before := commits
		b.AppendTo("ses.a", n, 1)
		b.Advance(3 * time.Millisecond)
		if got := b.MustReserve(1); len(got) != 1 || commits != before+1 {
			t.Errorf("%d granted, after %d commits", len(got), commits-before)
		}
		b.Advance(time.Minute)
	}
}

// A parent remembers the cost of its children's costliest job over a crash.
func TestAParentKnowsTheCostsOfItsChildren(t *testing.T) {
	b := start(t, Options{})
	b.family("unlimited")
	j := enginetest.Job("ses.a", 1)
	j.Cost = 7
	b.MustAppend(j)
	b.crash()
	if i := b.MustGet("ses"); i.Group.MaxCost != 7 ||
		i.Group != (queue.GroupInfo{Children: 2, Weights: 2, Members: 1, Weight: 1, Waiting: 1, MaxCost: 7}) {
		t.Errorf("%+v", i.Group)
	}
}

// A change that fails leaves the group as it was.
func TestAGroupsChangesCanFail(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault})
	ctx := context.Background()
	b.MustPut("ses.a", "unlimited")
	b.AppendTo("ses.a", 0, 3)
	fails := func(what, name string, f func() error) {
		t.Helper()
		before := b.MustGet(name)
		n.all.Store(true)
		if err := f(); !errors.Is(err, queue.ErrStoreFull) {
			t.Errorf("%s: %v", what, err)
		}
		n.all.Store(false)
		b.forgive()
		if after := b.MustGet(name); before.Group != after.Group || (before.Parent == nil) != (after.Parent == nil) {
			t.Errorf("%s: %+v became %+v", what, before, after)
		}
	}
	spec := func(name string) queue.Spec { return queue.Spec{Name: name, Rate: rateOf(t, "10/s")} }
	fails("a parent", "ses.a", func() error { return second(b.Put(ctx, spec("ses"), 0)) })
	b.MustPut("ses", "10/s")
	b.checkGroup("ses")
	fails("a child", "ses", func() error { return second(b.Put(ctx, spec("ses.b"), 0)) })
	fails("a deletion", "ses", func() error { return b.Delete(ctx, "ses.a", queue.AnyRevision, true) })
	b.checkGroup("ses")
	if err := b.Delete(ctx, "ses", queue.AnyRevision, true); !errors.Is(err, queue.ErrHasChildren) {
		t.Errorf("a parent was deleted under its children: %v", err)
	}
	if err := b.Delete(ctx, "ses.a", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	b.AppendTo("ses", 0, 2)
	b.Advance(time.Minute)
	if got := b.MustReserve(9); len(got) != 1 {
		t.Errorf("a parent without children granted %d", len(got))
	}
	if err := b.Delete(ctx, "ses", queue.AnyRevision, true); err != nil {
		t.Error(err)
	}
	if len(b.children) != 0 {
		t.Errorf("children are counted of queues that are gone: %v", b.children)
	}
}

// A queue can have up to the maximum number of children, including new ones.
func TestTooManyChildren(t *testing.T) {
	b := start(t, Options{})
	ctx := context.Background()
	for i := range queue.MaxChildren {
		b.MustPut("g."+strconv.Itoa(i), "unlimited")
	}
	_, err := b.Put(ctx, queue.Spec{Name: "g.more"}, queue.AnyRevision)
	if e := new(invalid.Error); !errors.As(err, &e) || e.Field != "name" {
		t.Errorf("one more: %v", err)
	}
	b.MustPut("g", "1000/s")
	for i := range queue.MaxChildren {
		b.AppendTo("g."+strconv.Itoa(i), i, 1)
	}
	b.checkGroup("g")
	granted := 0
	for range 400 {
		got := b.MustReserve(500)
		granted += len(got)
		b.MustSettle(queue.Deliver, got)
		b.Advance(5 * time.Millisecond)
	}
	if granted != queue.MaxChildren {
		t.Errorf("%d of %d left", granted, queue.MaxChildren)
	}
	b.checkGroup("g")
}

// Members take turns by the cost of their jobs, and an idle member saves up nothing.
func TestMembersTakeTurns(t *testing.T) {
	b := start(t, Options{})
	b.family("100/s")
	costly := func(name string, from, n int, cost int64) {
		for i := range n {
			j := enginetest.Job(name, from+i)
			j.Cost = cost
			b.MustAppend(j)
		}
	}
	costly("ses.a", 0, 20, 2)
	order := func(n int) (left []string) {
		for len(left) < n {
			for _, r := range b.MustReserve(1) {
				left = append(left, r.Queue)
			}
			b.Advance(10 * time.Millisecond)
		}
		return left
	}
	if got := order(4); slices.ContainsFunc(got, func(s string) bool { return s != "ses.a" }) {
		t.Fatal(got)
	}
	costly("ses.b", 100, 20, 1)
	costly("ses", 200, 20, 1)
	count := map[string]int{}
	for _, name := range order(22) {
		count[name]++
	}
	if count["ses.a"] != 4 || count["ses.b"] != 9 || count["ses"] != 9 {
		t.Errorf("%v", count)
	}
}

// A parent whose rate is raised during a child's grant has a ceiling on file that is high enough and not far ahead.
func TestPutOfAParentDuringReserve(t *testing.T) {
	b := start(t, Options{})
	b.family("1/h")
	b.AppendTo("ses.a", 0, 2)
	got := b.MustReserve(9)
	b.MustPut("ses", "100/s")
	q := b.queues["ses"]
	if need, is := tat(q.bucket), q.ceiling.durable.tat; len(got) != 1 || is < need || is.Sub(need) > ceilingAhead {
		t.Errorf("%d granted, the ceiling is at %v, the bucket at %v", len(got), since(is), since(need))
	}
}
