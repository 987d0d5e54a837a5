package machine

import (
	"testing"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// A rule that changes while lanes are still to be judged by an earlier change goes through
// none of them then, nor through more than a few in a visit.
func TestAChangedRuleGoesThroughNoLanes(t *testing.T) {
	const n = 1000
	q := New(1).newQueueState(1, queue.Spec{Name: "q"})
	turns, moves := q.takeTurns(), 0
	for _, h := range []*heap[*lane]{turns.resting, turns.changed, &turns.ready} {
		moved := h.moved
		h.moved = func(ln *lane, i int) { moved(ln, i); moves++ }
	}
	for i := range n {
		ln := &lane{queue: q, heapIndex: -1, key: "x"}
		ln.waiting.insert(&job{lane: ln, cost: 1, turn: firstTurn})
		turns.rest(ln, leaky.Instant(i))
	}
	turns.rulesChanged()
	turns.recall(&laneBudget{})
	for turns.ready.len() > 0 {
		turns.rest(turns.ready.top(), never)
	}
	moves = 0
	turns.rulesChanged()
	turns.rulesChanged()
	if moves != 0 {
		t.Errorf("%d moves of lanes at once", moves)
	}
	for visits := 0; turns.recalling(); visits++ {
		before := turns.ready.len()
		if turns.recall(&laneBudget{}); turns.ready.len() > before+recallLanesMax || visits > 2*n/recallLanesMax {
			t.Fatalf("%d ready, then %d, after %d visits", before, turns.ready.len(), visits)
		}
	}
	if turns.ready.len() != n {
		t.Errorf("%d lanes will be judged, want all %d", turns.ready.len(), n)
	}
}
