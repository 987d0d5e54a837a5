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
