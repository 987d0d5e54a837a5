package boltq

import (
	"context"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// purge is one call of Purge.
type purge struct {
	queue.PurgeRequest
	cursor *queue.Cursor
	act    jobAct
	call   *call // of what it has enqueued
	out    queue.Purged
	err    error
}

// Purge implements queue.Keeper.
func (e *Engine) Purge(ctx context.Context, r queue.PurgeRequest) (queue.Purged, error) {
	if err := ctx.Err(); err != nil {
		return queue.Purged{}, err
	}
	by, err := queue.By(ctx)
	if err != nil {
		return queue.Purged{}, err
	}
	p := &purge{PurgeRequest: r, act: jobAct{what: queue.DidPurge, by: by, detail: r.Detail()}}
	if err := rounds(ctx, e, []*purge{p}, e.purge); err != nil {
		return queue.Purged{}, err
	}
	if p.err == nil && p.call != nil {
		p.err = p.call.err
	}
	if p.err != nil {
		return queue.Purged{}, p.err
	}
	return p.out, nil
}

// purge decides a call, unless it depends on changes under way.
func (e *Engine) purge(p *purge, c *call, now leaky.Instant) (busy *call) {
	l, err := e.live(p.Queue)
	if err != nil {
		p.err = err
		return nil
	}
	if l.busy != nil {
		return l.busy
	}
	if p.err = p.Validate(); p.err != nil {
		return nil
	}
	if p.cursor, p.err = p.Cursor(); p.err != nil {
		return nil
	}
	until := l.turn
	if p.cursor != nil {
		until = p.cursor.Until
	}
	var jobs []*job
	var next *queue.Cursor
	if p.State == queue.Waiting {
		jobs, next, p.err = p.waiting(l, until)
	} else {
		jobs, next = p.scheduled(l, until)
	}
	if p.err != nil {
		return nil
	}
	p.call = c
	for _, j := range jobs {
		e.leave(j, queue.Cancelled, c, now).act = &p.act
	}
	if len(jobs) > 0 {
		e.arm(l, now)
	}
	p.out.Jobs = int64(len(jobs))
	if next != nil {
		next.Until = until
		p.out.Next = p.Next(*next)
	}
	return nil
}

// waiting chooses the first of the jobs that wait, and where the next call begins: in the
// same lane, whose first are gone by then.
func (p *purge) waiting(l *line, until int64) (jobs []*job, next *queue.Cursor, err error) {
	ln, _, err := l.resume(p.cursor, p.Lane)
	for looked := 0; ln != nil; looked++ {
		if looked == lookMax || len(jobs) == p.Limit {
			return jobs, &queue.Cursor{Lane: string(ln.digest[:])}, nil
		}
		for j := range ln.fifo.before(until) {
			if jobs = append(jobs, j); len(jobs) == p.Limit {
				return jobs, &queue.Cursor{Lane: string(ln.digest[:])}, nil
			}
		}
		if p.Lane != nil {
			return jobs, nil, nil
		}
		ln = l.laneAfter(ln.digest)
	}
	return jobs, nil, err
}

func (p *purge) scheduled(l *line, until int64) (jobs []*job, next *queue.Cursor) {
	c, looked := p.cursor, 0
	behind := func(f *flight) bool {
		return c == nil || f.due > leaky.Instant(c.At) || f.due == leaky.Instant(c.At) && f.job.id > c.ID
	}
	for f := range l.later.from(behind) {
		if f.job.base() < until {
			jobs = append(jobs, f.job)
		}
		if looked++; looked == p.Limit {
			return jobs, &queue.Cursor{At: int64(f.due), ID: f.job.id}
		}
	}
	return jobs, nil
}
