package queuetest

import (
	"fmt"

	"github.com/penstock/penstock/queue"
)

// answerCounts has the counts of one queue, according to the engines' answers since it was made.
type answerCounts struct {
	entered     int64 // accepted, and returned
	aside       int64
	withdrawn   int64
	returned    int64
	replayed    int64
	missing     int64
	backOnes    int64 // records that ended because the job came back or was dealt with
	deadOutside int64 // died on the overflow
	cancelled   int64 // while they were deferred
	granted     map[queue.Fence]bool
	settled     map[queue.Fence]bool // the granted leases whose settlement was accepted
}

func newAnswerCounts() *answerCounts {
	return &answerCounts{granted: map[queue.Fence]bool{}, settled: map[queue.Fence]bool{}}
}

// recorded returns the number of jobs recorded as deferred.
func (b *answerCounts) recorded() int64 {
	return b.aside - b.withdrawn - b.missing - b.backOnes - b.cancelled
}

// balance checks invariant 5 on one engine: every accepted job is in exactly one state, in listings as in counts, and
// left once for each lease, which ended once. The other engine gave the same answers.
func (p *pair) balance() {
	p.Helper()
	e := p.engines[0]
	deferred := int64(0)
	for _, q := range pairQueues {
		b := p.counts[q]
		i, err := e.Get(p.ctx, q)
		if err != nil {
			continue
		}
		deferred += b.recorded()
		must := func(what string, got, want int64) {
			p.Helper()
			if got != want {
				p.Fatalf("%s: %s: %d, want %d\n%+v\nby the answers: %+v", q, what, got, want, i, *b)
			}
		}
		must("entered", i.Appended, b.entered)
		must("set aside", i.SetAside, b.aside-b.withdrawn)
		must("returned", i.Returned, b.returned)
		must("replayed", i.Replayed, b.replayed)
		must("given up", i.Missing, b.missing)
		must(
			"in one state each",
			i.Waiting+i.Scheduled+i.Leased+i.Held+i.Delivered+i.TimedOut+(i.Died-b.deadOutside)+(i.Cancelled-b.cancelled),
			b.entered+b.replayed,
		)
		must("leases", int64(len(b.settled))+i.Expired+i.Leased, int64(len(b.granted)))
		count := map[queue.State]int64{}
		for id := range 31 {
			if j, err := e.Job(p.ctx, q, fmt.Sprint("j", id)); err == nil {
				count[j.State]++
			}
		}
		must("waiting", count[queue.Waiting], i.Waiting)
		must("scheduled", count[queue.Scheduled], i.Scheduled)
		must("held", count[queue.Held], i.Held)
		must("leased", count[queue.Leased], i.Leased)
		if count[queue.Deferred] > b.recorded() {
			must("deferred", count[queue.Deferred], b.recorded())
		}
	}
	if t, err := e.Totals(p.ctx); err != nil || t.Deferred != deferred {
		p.Fatalf("totals: %+v, %v; %d are deferred", t, err, deferred)
	}
}
