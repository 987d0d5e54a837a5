package boltq

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const patrolMax = 100 // memories of each kind forgotten for their age, a call

// goRounds forgets what is too old in one queue's memory; calls take turns over
// the queues.
func (e *Engine) goRounds(now leaky.Instant) {
	if len(e.names) == 0 {
		return
	}
	e.patrol = (e.patrol + 1) % len(e.names)
	l := e.lines[e.names[e.patrol]]
	e.trim(l, now, patrolMax)
	e.expunge(l, now, patrolMax)
	e.fade(now, patrolMax)
}

// remember remembers a job that ended, and forgets as much as it may.
func (e *Engine) remember(l *line, d *ended, now leaky.Instant) {
	l.ended.add(d)
	if d.state == queue.Dead {
		e.dead++
	}
	e.trim(l, now, 2)
}

// trim forgets up to limit ended jobs of a queue that are too old or too many.
func (e *Engine) trim(l *line, now leaky.Instant, limit int) {
	for _, d := range l.ended.trim(l.spec.Retention, now, limit) {
		if d.state == queue.Dead {
			e.dead--
		}
		e.forget = append(e.forget, d)
	}
}
