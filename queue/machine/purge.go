package machine

import (
	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

// purgeCall is one call of Purge.
type purgeCall struct {
	queue.PurgeRequest
	cursor *queue.Cursor
}

// Purge takes back a page of jobs that wait or are scheduled, and returns the commit that the answer waits for. Errors:
// queue.ErrUnknownQueue, an *invalid.Error.
func (m *Machine) Purge(
	now leaky.Instant, actor audit.Actor, r queue.PurgeRequest,
) (out queue.Purged, wait uint64, err error) {
	q, err := m.liveQueue(r.Queue)
	if err != nil {
		return out, 0, err
	}
	p := &purgeCall{PurgeRequest: r}
	if err := p.Validate(); err != nil {
		return out, 0, err
	}
	if p.cursor, err = p.Cursor(); err != nil {
		return out, 0, err
	}
	until := q.turn
	if p.cursor != nil {
		until = p.cursor.Until
	}
	var jobs []*job
	var next *queue.Cursor
	if p.State == queue.Waiting {
		jobs, next, err = p.waiting(q, until)
	} else {
		jobs, next = p.scheduled(q, until)
	}
	if err != nil {
		return out, 0, err
	}
	if len(jobs) > 0 {
		m.purge(q, jobs, &jobAct{what: changekind.Purged, actor: actor, detail: r.Detail()}, now)
		wait = m.wait()
	}
	out.Jobs = int64(len(jobs))
	if next != nil {
		next.Until = until
		out.Next = p.Next(*next)
	}
	return out, max(wait, m.lastWait()), nil
}

func (m *Machine) purge(q *queueState, jobs []*job, act *jobAct, now leaky.Instant) {
	freed := false
	for _, j := range jobs {
		m.present.logJobAct(act, q.name, q.revision, "", false, m.wall(now))
		freed = m.endIdle(j, queue.Cancelled, now) || freed
	}
	if m.arm(q, now); freed {
		m.wakeForQueue(q, now)
	}
	m.announceRoom(q, now)
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
	for ls := range q.scheduled.from(dueAfter(c)) {
		if ls.job.turnBase() < until {
			jobs = append(jobs, ls.job)
		}
		if looked++; looked == p.Limit {
			return jobs, &queue.Cursor{At: int64(ls.due), ID: ls.job.id}
		}
	}
	return jobs, nil
}
