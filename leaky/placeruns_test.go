package leaky

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"
)

// holder is a place in a plain list.
type holder struct {
	name  string
	cost  int64
	until Instant
}

// Many places answer like a plain list of them, for any takes, renewals, refunds and ends.
func TestManyPlacesAgainstAList(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 41))
	rule := Concurrency{Max: 1200, TTL: time.Second}
	tally := rule.Fresh().(*placeTable)
	var all []holder
	now := Instant(1_790_000_000_000_000)
	for step := range 10_000 {
		now += Instant(rnd.IntN(500))
		if rnd.IntN(2000) == 0 {
			now += Instant(rnd.IntN(1_200_000)) // many end, or all
		}
		standing := slices.Clone(all)
		standing = slices.DeleteFunc(standing, func(h holder) bool { return h.until <= now })
		sum := int64(0)
		for _, h := range standing {
			sum += h.cost
		}
		a := Ask{Lease: strconv.Itoa(rnd.IntN(2000)), Cost: 1}
		if rnd.IntN(3) == 0 {
			a.Cost += rnd.Int64N(4)
		}
		if rnd.IntN(20) == 0 {
			a.Cost = 1 + rnd.Int64N(rule.Max)
		}
		at := slices.IndexFunc(standing, func(h holder) bool { return h.name == a.Lease })
		var d Decision
		switch rnd.IntN(4) {
		case 0:
			tally.Refund(now, a)
			if all = standing; at >= 0 {
				all = slices.Delete(all, at, at+1)
			}
			check(t, tally, step)
			continue
		case 1:
			d = tally.Peek(now, a)
		default:
			d = tally.Take(now, a)
			if all = standing; d.Allowed {
				if at >= 0 {
					a.Cost = all[at].cost
					all = slices.Delete(all, at, at+1)
				}
				all = append(all, holder{a.Lease, a.Cost, now + Instant(rule.TTL.Microseconds())})
			}
		}
		wait := time.Duration(0)
		if over := sum + a.Cost - rule.Max; at < 0 && over > 0 {
			for _, h := range standing {
				if over -= h.cost; over <= 0 {
					wait = h.until.Sub(now)
					break
				}
			}
		}
		if d.Allowed != (wait == 0) || d.RetryAfter != wait {
			t.Fatalf("step %d: %+v; a list says %v", step, d, wait)
		}
		check(t, tally, step)
		if step%1000 == 0 { // a written and read state continues like this one
			text, _ := tally.AppendBinary(nil)
			again, err := rule.Restore(text)
			if err != nil {
				t.Fatal(err)
			}
			tally = again.(*placeTable)
			check(t, tally, step)
		}
	}
}

// check checks that each place is in one run, in the order of the list, and that there are few runs.
func check(t *testing.T, tally *placeTable, step int) {
	t.Helper()
	if most := 2*MaxEntries/runMost + 9; len(tally.runs) > most {
		t.Fatalf("step %d: %d runs", step, len(tally.runs))
	}
	if step%50 > 0 {
		return
	}
	if len(tally.runs) == 0 && tally.n <= 2*runMost {
		return
	}
	found, at := make([]placeRun, len(tally.runs)), int32(0)
	for i := tally.places[0].next; i != 0; i = tally.places[i].next {
		p := &tally.places[i]
		if p.run < at {
			t.Fatalf("step %d: run %d behind %d", step, p.run, at)
		}
		at = p.run
		s := &found[at]
		if s.n == 0 {
			s.first = i
		}
		s.n++
		s.cost += p.cost
	}
	if !slices.Equal(found, tally.runs) {
		t.Fatalf("step %d: %+v, in the list are %+v", step, tally.runs, found)
	}
}

// However many places are held and asked for, a take visits few of them, even if places are renewed or given back
// before each take.
func TestAQuestionLooksAtFewPlaces(t *testing.T) {
	const questions = 1000
	for _, c := range []struct {
		name   string
		before func(tally Tally, now Instant, i int)
		after  Instant // since the first took its place
	}{
		{name: "refused"},
		{
			name:   "renewed in between",
			before: func(tally Tally, now Instant, i int) { tally.Take(now, Ask{Lease: "place-" + strconv.Itoa(7*i)}) },
		},
		{
			name: "freed in between",
			before: func(
				tally Tally, now Instant, i int,
			) {
				tally.Refund(now, Ask{Lease: "place-" + strconv.Itoa(8*i)})
			},
		},
		{name: "half have ended", after: 1_005_000},
		{name: "all have ended", after: 2 * sec},
	} {
		rule := Concurrency{Max: MaxEntries, TTL: time.Second}
		tally := rule.Fresh().(*placeTable)
		now := Instant(1_790_000_000_000_000)
		for i := range MaxEntries {
			tally.Take(now+Instant(i), Ask{Lease: "place-" + strconv.Itoa(i)})
		}
		now += max(MaxEntries, c.after)
		tally.looks = 0
		for i := range questions {
			if c.before != nil {
				c.before(tally, now, i)
			}
			tally.Peek(now, Ask{Cost: 9000, Lease: "another"})
		}
		if each := tally.looks / questions; each > 500 {
			t.Errorf("%s: looks at %d for each question", c.name, each)
		}
	}
}
