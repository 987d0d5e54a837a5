package queuetest

import (
	"fmt"

	"github.com/penstock/penstock/queue"
)

// compareBatches compares the batches of a queue, listed in pages, and counts the jobs of each that remain.
func (p *pair) compareBatches(q string) {
	var batches []queue.Batch
	p.both("batches of "+q, func(_ int, e queue.Engine) (text string) {
		batches = nil
		for r := (queue.BatchesRequest{Queue: q, Limit: 2}); ; {
			page, err := e.Batches(p.ctx, r)
			if err != nil {
				return kind(err)
			}
			for _, b := range page {
				text += "\n  " + batchText(&b)
			}
			if batches = append(batches, page...); len(page) < r.Limit {
				return text
			}
			r.After = page[len(page)-1].Label
		}
	})
	remain := map[string]int64{}
	for id := range 31 {
		if j, err := p.engines[0].Job(p.ctx, q, fmt.Sprint("j", id)); err == nil && !j.State.Ended() {
			remain[j.Batch]++
		}
	}
	for i := range batches {
		b := &batches[i]
		// deferred jobs do not show their batch
		if n := remain[b.Label]; b.Remaining() < n || b.Remaining() > n+remain[""] || b.Dead < 0 {
			p.Fatalf("%s: %d jobs of %+v remain, and %d without a batch that is known", q, n, b, remain[""])
		}
		if (b.Remaining() == 0) == b.EndedAt.IsZero() {
			p.Fatalf("%s: %+v, and %d jobs remain", q, b, b.Remaining())
		}
		delete(remain, b.Label)
	}
	delete(remain, "")
	if len(remain) > 0 {
		p.Fatalf("%s: no batch counts these jobs: %v", q, remain)
	}
}

func batchText(b *queue.Batch) string {
	return fmt.Sprintf("%q accepted %d delivered %d dead %d cancelled %d expired %d missing %d first %s last %s ended %s "+
		"%q %v", b.Label, b.Accepted, b.Delivered, b.Dead, b.Cancelled, b.Expired, b.Missing, micro(b.FirstAt),
		micro(b.LastAt), micro(b.EndedAt), b.Lasts, b.MoreLanes)
}

// batchesFinished checks that no job of any batch of an empty queue remains.
func (p *pair) batchesFinished(q string) {
	list, err := p.engines[0].Batches(p.ctx, queue.BatchesRequest{Queue: q, Limit: queue.MaxPage})
	if err != nil {
		return // there is no such queue
	}
	for i := range list {
		if list[i].Remaining() != 0 {
			p.Fatalf("%s: %d jobs of %+v remain in an empty queue", q, list[i].Remaining(), list[i])
		}
	}
}
