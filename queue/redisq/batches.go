package redisq

import (
	"context"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// Batches implements queue.Jobs.
func (e *Engine) Batches(ctx context.Context, r queue.BatchesRequest) ([]queue.Batch, error) {
	if names.Validate(r.Queue) != nil {
		return nil, unknown(r.Queue)
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	v, err := e.ask(ctx, batchesScript, e.Partition(r.Queue), e.instant(), r.Queue, r.Label, r.After, r.Limit)
	if err != nil {
		return nil, err
	}
	if v == int64(0) {
		return nil, unknown(r.Queue)
	}
	answer := list(v)
	ahead, rows := answer.duration(), answer.list()
	var all []queue.Batch
	for rows.more() {
		b := queue.Batch{
			Label: rows.text(), Accepted: rows.int(), Delivered: rows.int(), Dead: rows.int(), Cancelled: rows.int(),
			Expired: rows.int(), Missing: rows.int(), FirstAt: micros(rows.int()), LastAt: micros(rows.int()),
		}
		if ended := rows.int(); ended != 0 {
			b.EndedAt = micros(ended)
		}
		b.MoreLanes = rows.int() == 1
		for ids := rows.list(); ids.more(); {
			b.Lasts = append(b.Lasts, ids.text())
		}
		b.ToWall(ahead)
		all = append(all, b)
	}
	return all, rows.err
}
