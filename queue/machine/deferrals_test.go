package machine

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

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
