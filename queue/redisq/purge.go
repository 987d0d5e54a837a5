package redisq

import (
	"context"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// Purge implements queue.Jobs.
func (e *Engine) Purge(ctx context.Context, r queue.PurgeRequest) (queue.Purged, error) {
	if names.Validate(r.Queue) != nil {
		return queue.Purged{}, unknown(r.Queue)
	}
	if err := r.Validate(); err != nil {
		return queue.Purged{}, err
	}
	c, err := r.Cursor()
	if err != nil {
		return queue.Purged{}, err
	}
	at, member, lane, until, err := placeOf(c, r.State)
	if err != nil {
		return queue.Purged{}, err
	}
	by, err := actorArg(ctx)
	if err != nil {
		return queue.Purged{}, err
	}
	v, err := e.keep(ctx, purgeScript, r.Queue, int(r.State), r.Limit, digestOf(r.Lane), until, at, member, lane, by,
		r.Detail())
	if err != nil {
		return queue.Purged{}, err
	}
	a := list(v)
	p := queue.Purged{Jobs: a.int()}
	if p.Jobs < 0 {
		return queue.Purged{}, unknown(r.Queue)
	}
	if a.more() {
		p.Next = r.Next(queue.Cursor{Until: a.number(), At: a.number(), ID: a.text(), Lane: a.text()})
	}
	return p, a.err
}
