package machine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
)

func (b *bench) cancelJob(name string, n int) queue.State {
	b.Helper()
	s, err := b.Cancel(context.Background(), name, enginetest.Job(name, n).ID)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// The state of an overflow survives an orderly restart.
func TestTheOverflowSurvivesReopening(t *testing.T) {
	b := start(t, Options{})
	ctx := context.Background()
	b.MustPut("q", "unlimited", enginetest.Deferring(4))
	b.AppendTo("q", 0, 4)
	b.MustReadmit(queue.ReadmitRequest{Queue: "q", Empty: true}) // begins a generation
	aside := b.MustOffer("q", 4, 8)
	b.MustSettle(queue.Deliver, b.MustReserve(3))
	list := enginetest.AllStored("q", 4, 1, aside)
	// Two come back, one is scheduled after an attempt; the next two find no room.
	m := b.MustReadmit(queue.ReadmitRequest{Queue: "q", Jobs: list[:4], Behind: 4})
	b.CheckOutcomes(m, readmit.Returned, readmit.Returned, readmit.NotYet, readmit.NotYet)
	if m.Order != 2 || m.Room != 0 || m.Deferred != 6 || m.Batch != 1 {
		t.Fatalf("%+v", m)
	}
	b.MustSettle(queue.Deliver, b.MustReserve(1))
	b.MustSettle(queue.Fail, b.MustReserve(1))
	if s := b.cancelJob("q", 10); s != queue.Cancelled {
		t.Fatal(s)
	}
	if _, err := b.Withdraw(ctx, []queue.Ticketed{{
		Queue: "q", ID: enginetest.Job("q", 11).ID, Ticket: aside[7].Ticket,
	}}); err != nil {
		t.Fatal(err)
	}

	before, totals := b.MustGet("q"), first(b.Totals(ctx))
	if before.Deferred != 6 || before.SetAside != 7 || before.Returned != 2 || before.Cancelled != 1 ||
		before.Appended != 6 || totals.Deferred != 4 {
		t.Fatalf("%+v, %+v", before, totals)
	}
	jobs := map[int]queue.JobInfo{}
	for n := range 12 {
		jobs[n], _ = b.Job(ctx, "q", enginetest.Job("q", n).ID)
	}
	back, cost := b.queues["q"].overflow.readmitted, b.queues["q"].overflow.cost
	b.reopen()
	after := b.MustGet("q")
	before.Bucket.Last = after.Bucket.Last // as late as a grant can have been
	before.Asked = time.Time{}             // nobody asked this process yet
	if before.Next, before.Outflow = after.Next, after.Outflow; !reflect.DeepEqual(before, after) ||
		first(b.Totals(ctx)) != totals {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	for n, want := range jobs {
		j, _ := b.Job(ctx, "q", want.ID)
		if j.State == queue.Delivered {
			want.Timeline = nil // which is in memory alone
		}
		if j.ETA, want.ETA = (queue.ETA{}), (queue.ETA{}); !reflect.DeepEqual(j, want) {
			t.Errorf("job %d: before %+v, after %+v", n, want, j)
		}
	}
	if a := b.queues["q"].overflow; back != 2 || cost != 4 || a.readmitted != back || a.cost != cost {
		t.Errorf(
			"%d had come back, and the others cost %d; after reopening %d and %d", back, cost, a.readmitted, a.cost,
		)
	}
	if names, err := b.Backlogged(ctx, 9); err != nil || !slices.Equal(names, []string{"q"}) {
		t.Errorf("%v, %v", names, err)
	}
	if err := b.Delete(ctx, "q", queue.AnyRevision, false); !errors.Is(err, queue.ErrNotEmpty) {
		t.Errorf("delete: %v", err)
	}
	// The order stands: jobs that were taken back are not taken again, with any ticket.
	b.CheckOutcomes(b.ReadmitJobs("q", list[:2]...), readmit.Passed, readmit.Passed)
	// A repeated offer gets the same ticket again; no ticket is given twice.
	a, err := b.Offer(ctx, []queue.Job{enginetest.Job("q", 6), enginetest.Job("q", 10), enginetest.Job("q", 20)})
	if err != nil || a[0].Outcome != queue.Duplicate || a[0].Ticket != aside[2].Ticket || a[0].State != queue.Deferred {
		t.Errorf("%+v, %v", a, err)
	}
	if a[1].Outcome != queue.Duplicate || a[1].State != queue.Cancelled || a[1].Ticket != "" {
		t.Errorf("a cancelled one: %+v", a[1])
	}
	for _, old := range aside {
		if a[2].Ticket == old.Ticket {
			t.Errorf("ticket %s was given twice", old.Ticket)
		}
	}
	b.Advance(time.Minute)
	b.MustSettle(queue.Deliver, b.MustReserve(9))
	m = b.ReadmitJobs("q", list[2:7]...)
	b.CheckOutcomes(m, readmit.Returned, readmit.Returned, readmit.NotYet, readmit.NotYet, readmit.NotYet)
	b.MustSettle(queue.Deliver, b.MustReserve(9))
	m = b.ReadmitJobs("q", list[4:7]...)
	b.CheckOutcomes(m, readmit.Returned, readmit.Returned, readmit.Passed)
	if s := b.State("q", 10); s != queue.Cancelled || m.Deferred != 1 {
		t.Errorf("the cancelled one is %v; %+v", s, m)
	}
	if n := b.records(deferredTable); n != 1 {
		t.Errorf("%d records on file", n)
	}
	b.reopen()
	if s := b.State("q", 10); s != queue.Cancelled {
		t.Errorf("the cancelled one is %v", s)
	}
}

// Jobs that were given up stay so, dead letters stay dead, and their ids become free in time.
func TestGivenUpJobsStaySoAfterReopening(t *testing.T) {
	b := start(t, Options{})
	ctx := context.Background()
	b.MustPut("q", "unlimited", enginetest.Deferring(2))
	b.AppendTo("q", 0, 2)
	aside := b.MustOffer("q", 2, 5)
	list := enginetest.AllStored("q", 2, 1, aside)
	list[1].ExpiresAt = aside[1].At.Add(time.Hour)
	b.MustSettle(queue.Deliver, b.MustReserve(2))
	b.Advance(queue.DefaultMaxAge)
	m := b.MustReadmit(queue.ReadmitRequest{Queue: "q", Jobs: list[1:2], Behind: 9, Closed: true})
	b.CheckOutcomes(m, readmit.TooLate)
	b.Advance(time.Microsecond)
	m = b.MustReadmit(queue.ReadmitRequest{Queue: "q", Jobs: list[2:3], Behind: 9, Closed: true})
	b.CheckOutcomes(m, readmit.TooOld)
	check := func() {
		t.Helper()
		for n, reason := range map[int]string{
			3: "expired at " + list[1].ExpiresAt.UTC().Format(time.RFC3339) + ", while it was deferred",
			4: "deferred for longer than max_age 24h0m0s",
		} {
			j, err := b.Job(ctx, "q", enginetest.Job("q", n).ID)
			if err != nil || j.State != queue.Dead || j.Reason != reason || j.Attempts != 0 ||
				!j.AppendedAt.Equal(aside[n-2].At) {
				t.Errorf("%+v, %v", j, err)
			}
		}
		if i := b.MustGet("q"); i.Died != 2 || i.Dead != 2 || i.Appended != 2 || i.Returned != 0 {
			t.Errorf("%+v", i)
		}
	}
	check()
	if i := b.MustGet("q"); i.Deferred != 9 {
		t.Errorf("%d deferred, 9 were seen behind", i.Deferred)
	}
	b.reopen()
	check()
	b.Advance(queue.OrphanAfter) // and a microsecond, since the generation began
	m = b.MustReadmit(queue.ReadmitRequest{Queue: "q", Empty: true})
	if m.Missing != 3 || m.Deferred != 0 {
		t.Fatalf("%+v", m)
	}
	if m := b.MustReadmit(queue.ReadmitRequest{Queue: "q", Empty: true}); m.Missing != 0 {
		t.Errorf("again: %+v", m)
	}
	b.reopen()
	if i := b.MustGet("q"); i.Missing != 3 || i.Deferred != 0 || b.State("q", 2) != queue.StateNone {
		t.Errorf("%+v, %v", i, b.State("q", 2))
	}
	if names, _ := b.Backlogged(ctx, 9); len(names) != 0 {
		t.Errorf("%v", names)
	}
	b.AppendTo("q", 50, 1) // written along with forgotten records
	if n := b.records(deferredTable); n != 0 {
		t.Errorf("%d records on file", n)
	}
	b.AppendTo("q", 2, 1)
}

// orphans returns a queue with a backlog that can be given up now.
func orphans(t *testing.T, o Options) (b *bench, aside []queue.Appended) {
	t.Helper()
	b = start(t, o)
	return b, b.OrphanedBacklog()
}

// balanced checks that each deferred job is in exactly one state, also after reopening.
func (b *bench) balanced(missing, cancelled, deferred int64) {
	b.Helper()
	for _, when := range []string{"before", "after"} {
		b.CheckBalance(missing, cancelled, deferred)
		if a := b.queues["q"].overflow; a.olderGeneration.n > deferred || a.olderGeneration.n < 0 ||
			a.olderGeneration.cost < 0 || a.olderGeneration.cost > a.cost {
			b.Errorf("%s reopening: older %+v, of %d that cost %d", when, a.olderGeneration, deferred, a.cost)
		}
		b.reopen()
	}
}

// Generations, and the counts of the older one, survive reopening.
func TestGenerationsSurviveReopening(t *testing.T) {
	b, aside := orphans(t, Options{})
	ctx := context.Background()
	b.Advance(-time.Second)
	b.MustOffer("q", 3, 1)
	again, err := b.Offer(ctx, []queue.Job{enginetest.Job("q", 1)})
	if err != nil || again[0].Outcome != queue.Duplicate || again[0].Ticket == aside[0].Ticket {
		t.Fatalf("%+v, %v", again, err)
	}
	if n := b.records(deferredTable); n != 3 {
		t.Errorf("%d records on file", n)
	}
	if err := b.Announce(ctx, "q"); err != nil {
		t.Fatal(err)
	}
	before := b.queues["q"].overflow
	b.reopen()
	after := b.queues["q"].overflow
	if before.olderGeneration != (recordCount{1, 1, before.bytes / 3}) || before.progress.announced == 0 ||
		after.olderGeneration != before.olderGeneration || after.progress != before.progress ||
		after.cost != before.cost || after.bytes != before.bytes || after.lastTicket != before.lastTicket {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	empty := queue.ReadmitRequest{Queue: "q", Empty: true, AsOf: noon.Add(time.Hour).Time()}
	if m := b.MustReadmit(empty); m.Missing != 0 || m.Deferred != 3 {
		t.Errorf("too early: %+v", m)
	}
	b.Advance(time.Second)
	if m := b.MustReadmit(empty); m.Missing != 1 || m.Deferred != 2 {
		t.Errorf("%+v", m)
	}
	b.reopen()
	if b.State("q", 1) != queue.Deferred || b.State("q", 2) != queue.StateNone || b.State("q", 3) != queue.Deferred {
		t.Errorf("%v %v %v", b.State("q", 1), b.State("q", 2), b.State("q", 3))
	}
	b.balanced(1, 0, 2)
	b.Advance(queue.OrphanAfter + time.Microsecond)
	if m := b.MustReadmit(empty); m.Missing != 2 || m.Deferred != 0 {
		t.Errorf("%+v", m)
	}
	b.balanced(3, 0, 0)
}

// Deferrals compared with a map and a sorted list, through growth, gaps and reused ids.
func TestDeferralsAgainstAMap(t *testing.T) {
	for _, first := range []uint64{1, pageSize - 1, 1<<32 - 700, 1 << 50} {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(first, 4))
			var g deferrals
			byID := map[string]uint64{}
			var numbers []uint64
			end := func(i int) {
				id := string(g.id(numbers[i]))
				g.remove(numbers[i])
				delete(byID, id)
				numbers = slices.Delete(numbers, i, i+1)
			}
			next := first
			for step := range 60_000 {
				// Grows for a while, then shrinks to nothing, and again.
				grows := step/7_500%2 == 0
				switch op := rnd.IntN(10); {
				case op < 2 && grows, op < 7 && !grows:
					if len(numbers) > 0 {
						end(min(rnd.IntN(len(numbers)), rnd.IntN(len(numbers)))) // rather an early one
					}
				default:
					id := fmt.Sprint("job-", rnd.IntN(20_000))
					if byID[id] != 0 {
						continue
					}
					if rnd.IntN(200) == 0 {
						next += uint64(rnd.IntN(3 * pageSize))
					}
					g.add(next, id, deferral{seq: next + 7, state: stillDeferred})
					byID[id] = next
					numbers = append(numbers, next)
					next++
				}
				if g.n != len(numbers) {
					t.Fatalf("%d records, want %d", g.n, len(numbers))
				}
				if g.n > 0 && g.oldest() != numbers[0] {
					t.Fatalf("the oldest is %d, want %d", g.oldest(), numbers[0])
				}
				id := fmt.Sprint("job-", rnd.IntN(20_000))
				if n := g.find(id); n != byID[id] {
					t.Fatalf("%s is %d, want %d", id, n, byID[id])
				}
			}
			for id, n := range byID {
				if d := g.get(n); g.find(id) != n || d == nil || d.seq != n+7 || string(g.id(n)) != id {
					t.Fatalf("%s is at %d, want %d: %+v", id, g.find(id), n, d)
				}
			}
			for _, n := range []uint64{0, first - 1, next, next + 1<<40} {
				if g.get(n) != nil {
					t.Errorf("there is a record %d", n)
				}
			}
			for len(numbers) > 0 {
				end(len(numbers) - 1)
			}
			if g.pages != nil || g.ids.slots != nil || g.oldest() != 0 {
				t.Errorf("no deferrals keep %d pages and %d slots", len(g.pages), len(g.ids.slots))
			}
		})
	}
}

// A record takes as much memory as the package says.
func TestDeferralsAreSmall(t *testing.T) {
	const n = 300_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var g deferrals
	for i := range uint64(n) {
		g.add(i+1, fmt.Sprintf("%026d", i), deferral{state: stillDeferred})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := float64(after.HeapAlloc-before.HeapAlloc) / n
	t.Logf("%.1f bytes a record", each)
	if each > 82 {
		t.Errorf("%.1f bytes a record", each)
	}
	runtime.KeepAlive(&g)
}
