package machine

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSorted(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	s := sorted[int]{less: func(a, b int) bool { return a < b }}
	var want []int
	for i := range 20_000 {
		v := rnd.IntN(10_000)
		at, found := slices.BinarySearch(want, v)
		switch {
		case i > 12_000 && rnd.IntN(4) > 0 && len(want) > 0 || found:
			if !found {
				at = rnd.IntN(len(want))
			}
			if !s.remove(want[at]) || s.remove(want[at]) {
				t.Fatalf("%d was not there, or twice", want[at])
			}
			want = slices.Delete(want, at, at+1)
		default:
			s.push(v)
			want = slices.Insert(want, at, v)
		}
		if n := len(want); n > 0 && s.at(i%n) != want[i%n] {
			t.Fatalf("at %d: %d, want %d", i%n, s.at(i%n), want[i%n])
		}
		if i%1000 == 0 {
			begin := rnd.IntN(10_000)
			at, _ := slices.BinarySearch(want, begin)
			if got := slices.Collect(s.from(func(v int) bool { return v >= begin })); !slices.Equal(got, want[at:]) {
				t.Fatalf("from %d: %d values, want %d", begin, len(got), len(want)-at)
			}
		}
	}
	for len(want) > 0 {
		if s.len() != len(want) || s.top() != want[0] || s.pop() != want[0] {
			t.Fatalf("%d left, want %d", s.len(), len(want))
		}
		want = want[1:]
	}
	if s.len() != 0 || len(s.blocks) != 0 {
		t.Errorf("%d left in %d blocks", s.len(), len(s.blocks))
	}
}

func TestWaitListAgainstASortedList(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 9))
	var f waitList
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
			if aside := f.extra != nil && f.extra.middle.len() > 0; aside {
				sides++
			}
		case op < 6 && len(list) < 2000 || len(list) == 0:
			base += 1 + rnd.Int64N(3)
			j := &job{turn: turnOf(base, rnd.IntN(3)*rnd.IntN(5))}
			if j.turnBase() != base {
				t.Fatalf("the base of turn %d is %d, want %d", j.turn, j.turnBase(), base)
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
		if len(list) > 0 && f.back() != list[len(list)-1] {
			t.Fatalf("turn %d is at the back, want %d", f.back().turn, list[len(list)-1].turn)
		}
		if rnd.IntN(500) > 0 || len(list) == 0 {
			continue
		}
		at := rnd.IntN(len(list))
		if got := slices.Collect(f.from(list[at].turn)); !slices.Equal(got, list[at:]) {
			t.Fatalf("%d jobs from turn %d on, want %d", len(got), list[at].turn, len(list)-at)
		}
		until, old := list[at].turnBase(), slices.Clone(list)
		old = slices.DeleteFunc(old, func(j *job) bool { return j.turnBase() >= until })
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
	if f.len() != 0 || f.extra != nil || len(f.low.ring) > 64 {
		t.Errorf("%d are left, with room for %d, %+v", f.len(), len(f.low.ring), f.extra)
	}
}

// Jobs that come back into the middle of many are inserted without moving the others.
func TestComingBackMovesFewJobs(t *testing.T) {
	const n = 100_000
	var f waitList
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
