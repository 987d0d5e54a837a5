package queuetest

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/queue"
)

// rush makes several queues of the group backlogged at once, and lets them take turns.
func (p *pair) rush() {
	var list []queue.Job
	for range rapid.IntRange(4, 16).Draw(p.T, "rushing") {
		j := job(rapid.SampledFrom(pairQueues).Draw(p.T, "queue"), p.id())
		j.Cost = rapid.Int64Range(0, 3).Draw(p.T, "cost")
		p.inSomeLane(&j)
		list = append(list, j)
	}
	calls := [][]queue.Job{list}
	if p.ruled { // see someJobs
		calls = slices.Collect(slices.Chunk(list, 1))
	}
	for _, list := range calls {
		p.appendBoth("rush", list, func(e queue.Engine) ([]queue.Appended, error) { return e.Append(p.ctx, list) })
	}
	for range rapid.IntRange(1, 6).Draw(p.T, "rounds") {
		p.reserve()
		p.clock.Advance(min(
			p.patience(), time.Duration(rapid.Int64Range(0, 400_000).Draw(p.T, "microseconds"))*time.Microsecond,
		))
	}
}

// regroup deletes the whole group and makes part of it again: the parent before its children, after them, or not at
// all.
func (p *pair) regroup() {
	p.deleted = true
	for _, q := range append([]string{"g.keep"}, "g.c", "g.b", "g.a", "g") {
		p.deleteBoth(q, true)
	}
	p.keep = false
	for _, q := range rapid.Permutation(pairQueues).Draw(p.T,
		"made again")[:rapid.IntRange(1, len(pairQueues)).Draw(p.T, "as many")] {
		p.putBoth(p.spec(q), queue.AnyRevision)
	}
}

func (p *pair) deleteBoth(q string, force bool) {
	p.both(fmt.Sprintf("delete %s, force %v", q, force), func(_ int, e queue.Engine) string {
		err := e.Delete(p.ctx, q, queue.AnyRevision, force)
		if err == nil {
			p.counts[q] = newAnswerCounts()
		}
		return kind(err)
	})
}

// kept ensures that a queue can be read around the moment when the clock is set back, so that both engines notice it
// alike.
func (p *pair) kept() {
	if !p.keep {
		p.keep = true
		p.putBoth(p.spec("g.keep"), queue.AnyRevision)
	}
}
