package boltq

import (
	"context"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/changekind"
)

// purgeCall is one call of Purge.
type purgeCall struct {
	queue.PurgeRequest
	cursor *queue.Cursor
	act    jobAct
	call   *call // of the changes that it enqueued
	answer queue.Purged
	err    error
}

// Purge implements queue.Jobs.
func (e *Engine) Purge(ctx context.Context, r queue.PurgeRequest) (queue.Purged, error) {
	if err := ctx.Err(); err != nil {
		return queue.Purged{}, err
	}
	actor, err := queue.ActorOf(ctx)
	if err != nil {
		return queue.Purged{}, err
	}
	p := &purgeCall{PurgeRequest: r, act: jobAct{what: changekind.Purged, actor: actor, detail: r.Detail()}}
	if err := decideAll(ctx, e, []*purgeCall{p}, e.purge); err != nil {
		return queue.Purged{}, err
	}
	if p.err == nil && p.call != nil {
		p.err = p.call.err
	}
	if p.err != nil {
		return queue.Purged{}, p.err
	}
	return p.answer, nil
}

// purge decides a call, unless that depends on a change under way.
func (m *machine) purge(p *purgeCall, c *call, now leaky.Instant) (busy *call) {
	q, err := m.liveQueue(p.Queue)
	if err != nil {
		p.err = err
		return nil
	}
	if q.busy != nil {
		return q.busy
	}
	if p.err = p.Validate(); p.err != nil {
		return nil
	}
	if p.cursor, p.err = p.Cursor(); p.err != nil {
		return nil
	}
	until := q.turn
	if p.cursor != nil {
		until = p.cursor.Until
	}
	var jobs []*job
	var next *queue.Cursor
	if p.State == queue.Waiting {
		jobs, next, p.err = p.waiting(q, until)
	} else {
		jobs, next = p.scheduled(q, until)
	}
	if p.err != nil {
		return nil
	}
	p.call = c
	for _, j := range jobs {
		m.endIdle(j, queue.Cancelled, c, now).act = &p.act
	}
	if len(jobs) > 0 {
		m.arm(q, now)
	}
	p.answer.Jobs = int64(len(jobs))
	if next != nil {
		next.Until = until
		p.answer.Next = p.Next(*next)
	}
	return nil
}

// waiting chooses the first waiting jobs and where the next call continues: in the same lane, whose first jobs are
// gone by then.
func (p *purgeCall) waiting(q *queueState, until int64) (jobs []*job, next *queue.Cursor, err error) {
	ln, _, err := q.resumeAtLane(p.cursor, p.Lane)
	for looked := 0; ln != nil; looked++ {
		if looked == lanesPerPage || len(jobs) == p.Limit {
			return jobs, &queue.Cursor{Lane: string(ln.digest[:])}, nil
		}
		for j := range ln.waiting.before(until) {
			if jobs = append(jobs, j); len(jobs) == p.Limit {
				return jobs, &queue.Cursor{Lane: string(ln.digest[:])}, nil
			}
		}
		if p.Lane != nil {
			return jobs, nil, nil
		}
		ln = q.laneAfter(ln.digest)
	}
	return jobs, nil, err
}

func (p *purgeCall) scheduled(q *queueState, until int64) (jobs []*job, next *queue.Cursor) {
	c, looked := p.cursor, 0
	behind := func(ls *lease) bool {
		return c == nil || ls.due > leaky.Instant(c.At) || ls.due == leaky.Instant(c.At) && ls.job.id > c.ID
	}
	for ls := range q.scheduled.from(behind) {
		if ls.job.turnBase() < until {
			jobs = append(jobs, ls.job)
		}
		if looked++; looked == p.Limit {
			return jobs, &queue.Cursor{At: int64(ls.due), ID: ls.job.id}
		}
	}
	return jobs, nil
}
