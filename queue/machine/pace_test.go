package machine

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

func since(t leaky.Instant) time.Duration { return t.Sub(noon) }

// Answered departures obey the window law over crashes, changes of rate, and a clock that jumps back unnoticed.
func TestWindowLawOverCrashes(t *testing.T) {
	for _, c := range []struct {
		rate  string
		burst int64
		cost  int64
		step  time.Duration
	}{
		{"1000/s", 1, 1, 40 * time.Millisecond},
		{"100/s", 1, 3, 90 * time.Millisecond},
		{"14/s", 4, 1, 400 * time.Millisecond},
		{"3/s", 1, 5, 2 * time.Second},
		{"1/m", 2, 1, time.Minute},
	} {
		t.Run(c.rate, func(t *testing.T) {
			b := start(t, Options{})
			b.MustPut("q", c.rate, func(s *queue.Spec) { s.Burst, s.Lease = c.burst, unit.Duration(time.Hour) })
			rnd := rand.New(rand.NewPCG(1, uint64(c.burst*c.cost)))
			var starts []law.Start
			id := 0
			for range 250 {
				switch rnd.IntN(12) {
				case 0:
					b.crash()
					if rnd.IntN(2) == 0 { // the machine's clock was wrong meanwhile
						b.Advance(-time.Duration(rnd.Int64N(int64(time.Hour))))
						b.MustReserve(1)
					}
				case 1:
					b.reopen()
				case 2, 3:
					for range 1 + rnd.IntN(20) {
						j := enginetest.Job("q", id)
						j.Cost = 1 + rnd.Int64N(c.cost)
						if _, err := b.Append(context.Background(), []queue.Job{j}); err != nil {
							t.Fatal(err)
						}
						id++
					}
				default:
					b.Advance(time.Duration(rnd.Int64N(int64(c.step))))
				}
				now := b.engineNow()
				got := b.MustReserve(20)
				for _, r := range got {
					starts = append(starts, law.Start{At: since(now.Add(r.In)), Cost: r.Cost})
				}
				b.MustSettle(queue.Deliver, got)
			}
			rate, _ := leaky.ParseRate(c.rate)
			// Departures are whole microseconds.
			if v := (law.Law{
				Rate: rate, Burst: c.burst, MaxCost: c.cost, Slack: time.Microsecond,
			}).Judge(starts); !v.Held {
				t.Errorf("%d starts: %+v", len(starts), v)
			}
			if len(starts) < 25 {
				t.Errorf("only %d departures", len(starts))
			}
		})
	}
}

// engineNow returns the time of the engine's clock.
func (b *bench) engineNow() leaky.Instant {
	b.Engine.mu.Lock()
	defer b.Engine.mu.Unlock()
	return b.now()
}

func TestClockNeverRunsBack(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "1/s")
	b.AppendTo("q", 0, 5)
	if got := b.MustReserve(9); len(got) != 1 {
		t.Fatalf("%d granted", len(got))
	}
	before := b.engineNow()
	b.Advance(-time.Hour)
	if now := b.engineNow(); now != before {
		t.Errorf("the clock went from %v to %v", before, now)
	}
	if got := b.MustReserve(9); len(got) != 0 {
		t.Errorf("%d granted at once", len(got))
	}
	b.Advance(time.Second) // an hour early, but time passes as it does
	if got := b.MustReserve(9); len(got) != 1 || b.engineNow() != before.Add(time.Second) {
		t.Errorf("%d granted a second later", len(got))
	}
	b.Advance(-time.Hour)
	b.reopen()
	if now := b.engineNow(); now < before.Add(time.Second) {
		t.Errorf("over a reopening the clock went from %v to %v", before.Add(time.Second), now)
	}
	b.Advance(3 * time.Hour) // forward: nothing was saved up
	if got := b.MustReserve(9); len(got) != 1 {
		t.Errorf("%d granted after a jump", len(got))
	}
}

// An orderly restart costs no more than the horizon.
func TestCloseKeepsTheExactPace(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "10/s")
	b.AppendTo("q", 0, 50)
	for range 10 {
		b.MustReserve(1)
		b.Advance(100 * time.Millisecond)
	}
	next := b.MustGet("q").Next
	b.reopen()
	if again := b.MustGet("q").Next; again.Sub(next) < 0 || again.Sub(next) > queue.Horizon {
		t.Errorf("next departure at %v, after reopening at %v", next, again)
	}
}

// From append to handler, an idle queue needs one commit, a backlogged queue a few a second, and an unlimited queue
// none.
func TestCommitsOfGrants(t *testing.T) {
	var commits atomic.Int64
	b := start(t, Options{synced: func() { commits.Add(1) }})
	spent := func(f func()) int64 {
		before := commits.Load()
		f()
		return commits.Load() - before
	}
	b.MustPut("idle", "5/s")
	for n := range 3 {
		var got []queue.Reservation
		if c := spent(func() {
			b.AppendTo("idle", n, 1)
			b.Advance(3 * time.Millisecond)
			if got = b.MustReserve(1); len(got) != 1 {
				t.Fatal("not granted")
			}
		}); c != 1 {
			t.Errorf("append and grant made %d commits", c)
		}
		b.MustSettle(queue.Deliver, got)
		b.Advance(time.Minute)
	}
	b.MustPut("fast", "1000/s", func(s *queue.Spec) { s.Lease = unit.Duration(time.Hour) })
	b.AppendTo("fast", 0, 2000)
	granted := 0
	c := spent(func() {
		for range 100 {
			granted += len(b.MustReserve(500))
			b.Advance(10 * time.Millisecond)
		}
	})
	if granted < 990 || c > 8 {
		t.Errorf("%d grants at 1000/s made %d commits", granted, c)
	}
	b.MustPut("free", "unlimited")
	b.AppendTo("free", 0, 100)
	if err := b.Pause(context.Background(), "fast", queue.Pause{}); err != nil {
		t.Fatal(err)
	}
	if c := spent(func() {
		if got := b.MustReserve(100); len(got) != 100 {
			t.Fatalf("%d granted", len(got))
		}
	}); c != 0 {
		t.Errorf("unlimited grants made %d commits", c)
	}
}

// At any time the ceiling on file covers everything granted.
func TestCeilingIsNeverBehind(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "200/s", func(s *queue.Spec) { s.Burst, s.Lease = 3, unit.Duration(time.Hour) })
	b.AppendTo("q", 0, 3000)
	rnd := rand.New(rand.NewPCG(2, 2))
	for i := range 300 {
		got := b.MustReserve(1 + rnd.IntN(30))
		if rnd.IntN(4) == 0 {
			b.MustSettle(queue.Release, got)
		}
		if rnd.IntN(20) == 0 {
			rates := []string{"200/s", "50/s", "unlimited", "900/s"}
			b.MustPut(
				"q", rates[i%len(rates)],
				func(s *queue.Spec) { s.Burst, s.Lease = 1+rnd.Int64N(5), unit.Duration(time.Hour) },
			)
		}
		b.Engine.mu.Lock()
		q := b.queues["q"]
		granted, ceiling, limited := tat(q.bucket), q.ceiling.next.tat, !q.spec.Rate.Unlimited()
		b.Engine.mu.Unlock()
		if granted > ceiling && limited {
			t.Fatalf("step %d: TAT %v, ceiling %v", i, since(granted), since(ceiling))
		}
		b.Advance(time.Duration(rnd.IntN(60)) * time.Millisecond)
	}
}

func TestFIFOAgainstASortedList(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	var f fifo
	var list []*job
	next := int64(0)
	for range 20_000 {
		switch op := rnd.IntN(11); {
		case op == 10 && len(list) > 0: // one is cancelled
			at := rnd.IntN(len(list))
			f.remove(list[at])
			list = slices.Delete(list, at, at+1)
		case op < 4 || len(list) == 0:
			next += 1 + rnd.Int64N(3)
			list = append(list, &job{turn: next})
			f.insert(list[len(list)-1])
		case op < 8:
			for range 1 + rnd.IntN(3) {
				if len(list) == 0 {
					break
				}
				if j := f.pop(); j != list[0] {
					t.Fatalf("popped turn %d, want %d", j.turn, list[0].turn)
				}
				list = list[1:]
			}
		default: // one comes back somewhere
			j := &job{turn: rnd.Int64N(next + 1)}
			at, found := slices.BinarySearchFunc(
				list, j.turn, func(j *job, turn int64) int { return int(j.turn - turn) },
			)
			if found {
				continue
			}
			if !f.insert(j) {
				if min(at, len(list)-at) <= nearEnd {
					t.Fatalf("refused at %d of %d", at, len(list))
				}
				continue
			}
			list = slices.Insert(list, at, j)
			if r := f.search(j.turn); r != at {
				t.Fatalf("rank %d, want %d", r, at)
			}
		}
		if f.n != len(list) {
			t.Fatalf("%d in it, want %d", f.n, len(list))
		}
	}
}
