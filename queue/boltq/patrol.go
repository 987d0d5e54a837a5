package boltq

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const trimMax = 100 // memories of each kind forgotten for their age, a call

// trimSome forgets what is too old in one queue's memory, and of the dead of one name; calls
// take turns over them.
func (e *Engine) trimSome(now leaky.Instant) {
	dead := e.nextWithDead(e.deadCursor)
	if e.deadCursor = ""; dead != nil {
		e.deadCursor = dead.name
		e.trimDead(dead, now, trimMax)
	}
	e.forgetExpiredTallies(now, expiredTalliesMax)
	if len(e.queueNames) == 0 {
		return
	}
	e.trimCursor = (e.trimCursor + 1) % len(e.queueNames)
	q := e.queues[e.queueNames[e.trimCursor]]
	e.trim(q, now, trimMax)
	e.forgetLapsed(q, now, trimMax)
	e.forgetIdleLanes(now, trimMax)
}

// rememberEnded remembers a job that ended, and forgets as much as it may.
func (e *Engine) rememberEnded(q *queueState, d *endedJob, now leaky.Instant) {
	q.endedJobs.add(d)
	if d.state == queue.Dead {
		e.addDead(q.spec.Name, d)
	}
	e.trim(q, now, 2)
}

// trim forgets up to limit ended jobs of a queue that are too old or too many.
func (e *Engine) trim(q *queueState, now leaky.Instant, limit int) {
	e.forgotten = append(e.forgotten, q.endedJobs.trim(q.spec.Retention, now, limit)...)
	if dead := e.deadJobs[q.spec.Name]; dead != nil {
		e.trimDead(dead, now, limit)
	}
}
