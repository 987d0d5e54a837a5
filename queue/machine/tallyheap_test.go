package machine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/penstock/penstock/leaky"
)

// What is looked at first is on top, whatever came and went, and pages that are not needed are given back.
func TestTallyHeap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 31))
	var w tallyHeap
	var all []*tally
	for step := range 40_000 {
		switch grows := step < 20_000; {
		case len(all) == 0 || rnd.IntN(10) < 6 == grows:
			v := &tally{checkAt: leaky.Instant(rnd.IntN(1000)), heapIndex: -1}
			w.push(v)
			all = append(all, v)
		case rnd.IntN(3) == 0:
			v := w.top()
			v.checkAt += leaky.Instant(rnd.IntN(100))
			w.fix(0)
		default:
			i := rnd.IntN(len(all))
			w.remove(all[i])
			if all[i].heapIndex != -1 {
				t.Fatal("one that is out has a place")
			}
			all[i] = all[len(all)-1]
			all = all[:len(all)-1]
		}
		if w.len() != len(all) {
			t.Fatalf("%d in place of %d", w.len(), len(all))
		}
		if most := len(all)/tallyHeapPage + 2; len(w.pages) > most {
			t.Fatalf("%d pages for %d", len(w.pages), len(all))
		}
		if len(all) > 0 && step%97 == 0 {
			first := slices.MinFunc(all, func(a, b *tally) int { return int(a.checkAt - b.checkAt) })
			if w.top().checkAt != first.checkAt {
				t.Fatalf("on top is %d, the first is %d", w.top().checkAt, first.checkAt)
			}
			for i := range w.n {
				if int(w.at(i).heapIndex) != i {
					t.Fatalf("at %d is one that takes itself to be at %d", i, w.at(i).heapIndex)
				}
			}
		}
	}
}

// A chunkList gives everything back, in the order in which it came.
func TestChunkList(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 37))
	var p chunkList[int]
	came, went := 0, 0
	for range 3000 {
		for range rnd.IntN(20) {
			p.add(came)
			came++
		}
		limit := 1 + rnd.IntN(15)
		some := p.take(limit)
		if len(some) > limit || len(some) == 0 && came > went {
			t.Fatalf("took %d of %d, up to %d", len(some), came-went, limit)
		}
		for _, v := range some {
			if v != went {
				t.Fatalf("took %d in place of %d", v, went)
			}
			went++
		}
		if p.n != came-went {
			t.Fatalf("%d are left, it says %d", came-went, p.n)
		}
	}
}
