package boltq

import (
	"testing"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// A rule that changes while lanes are still to be judged by an earlier change goes through
// none of them then, nor through more than a few in a visit.
func TestAChangedRuleGoesThroughNoLanes(t *testing.T) {
	const n = 1000
	l := newLine(1, queue.Spec{Name: "q"})
	turns, moves := l.order(), 0
	for _, h := range []*heap[*lane]{turns.resting, turns.changed, &turns.ready} {
		moved := h.moved
		h.moved = func(ln *lane, i int) { moved(ln, i); moves++ }
	}
	for i := range n {
		ln := &lane{line: l, place: -1, key: "x"}
		ln.fifo.insert(&job{lane: ln, cost: 1, turn: firstTurn})
		turns.rest(ln, leaky.Instant(i))
	}
	turns.change()
	turns.recall(&moved{})
	for turns.ready.len() > 0 {
		turns.rest(turns.ready.top(), never)
	}
	moves = 0
	turns.change()
	turns.change()
	if moves != 0 {
		t.Errorf("%d moves of lanes at once", moves)
	}
	for visits := 0; turns.changing(); visits++ {
		before := turns.ready.len()
		if turns.recall(&moved{}); turns.ready.len() > before+changeMax || visits > 2*n/changeMax {
			t.Fatalf("%d ready, then %d, after %d visits", before, turns.ready.len(), visits)
		}
	}
	if turns.ready.len() != n {
		t.Errorf("%d lanes will be judged, want all %d", turns.ready.len(), n)
	}
}
