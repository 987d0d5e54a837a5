package boltq

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const patrolMax = 100 // memories of each kind forgotten for their age, a call

// goRounds forgets what is too old in one queue's memory, and of the dead of one name; calls
// take turns over them.
func (e *Engine) goRounds(now leaky.Instant) {
	ls := e.mournedAfter(e.mourner)
	if e.mourner = ""; ls != nil {
		e.mourner = ls.name
		e.trimDead(ls, now, patrolMax)
	}
	e.wither(now, witherMax)
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
		e.lay(l.spec.Name, d)
	}
	e.trim(l, now, 2)
}

// trim forgets up to limit ended jobs of a queue that are too old or too many.
func (e *Engine) trim(l *line, now leaky.Instant, limit int) {
	e.forget = append(e.forget, l.ended.trim(l.spec.Retention, now, limit)...)
	if ls := e.letters[l.spec.Name]; ls != nil {
		e.trimDead(ls, now, limit)
	}
}
