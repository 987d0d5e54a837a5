package boltq

import (
	"context"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// letters are the dead jobs of a queue's name, which outlive the queue.
type letters struct {
	name string
	byID map[string]*ended
	dead sorted[*ended]
	// kept is the retention that the queue had when it was deleted; nil while it is there.
	kept *queue.Retention
}

func byName(a, b *letters) bool { return a.name < b.name }

// lettersOf returns the dead of a name, also if there is none yet.
func (e *Engine) lettersOf(name string) *letters {
	ls := e.letters[name]
	if ls == nil {
		ls = &letters{name: name, byID: map[string]*ended{}, dead: sorted[*ended]{less: byDeath}}
		e.letters[name] = ls
	}
	return ls
}

// dead is how many dead jobs a name has.
func (e *Engine) deadOf(name string) int64 {
	if ls := e.letters[name]; ls != nil {
		return int64(ls.dead.len())
	}
	return 0
}

// retention is how long, and how many of, a name's dead are remembered.
func (e *Engine) retention(ls *letters) queue.Retention {
	if l := e.lines[ls.name]; l != nil && l.live {
		return l.spec.Retention
	}
	if ls.kept != nil {
		return *ls.kept
	}
	return queue.Retention{}
}

// lay puts a job among the dead of a name. Of two of one id, in a queue and in a former one
// of its name, the later stands for both.
func (e *Engine) lay(name string, d *ended) {
	if ls := e.letters[name]; ls != nil && ls.byID[d.id] != nil {
		old := ls.byID[d.id]
		e.lift(ls, old)
		e.forget = append(e.forget, old)
	}
	ls := e.lettersOf(name)
	if ls.dead.len() == 0 {
		e.mourned.push(ls)
	}
	ls.byID[d.id] = d
	ls.dead.push(d)
	e.dead++
}

// lift takes a job out of the dead of a name, which is among them.
func (e *Engine) lift(ls *letters, d *ended) {
	ls.dead.remove(d)
	delete(ls.byID, d.id)
	e.dead--
	if ls.dead.len() > 0 {
		return
	}
	e.mourned.remove(ls)
	if ls.kept == nil { // else the file has something of it, which the sweeper drops
		delete(e.letters, ls.name)
	}
}

// trimDead forgets up to limit of a name's dead that are too old or too many.
func (e *Engine) trimDead(ls *letters, now leaky.Instant, limit int) (gone int) {
	r, l := e.retention(ls), e.lines[ls.name]
	for gone < limit && ls.dead.len() > 0 && (int64(ls.dead.len()) > r.Max || tooOld(ls.dead.top(), r, now)) {
		d := ls.dead.top()
		e.lift(ls, d)
		if l != nil && l.ended.byID[d.id] == d { // the id may have been used again
			delete(l.ended.byID, d.id)
		}
		e.forget = append(e.forget, d)
		gone++
	}
	return gone
}

// former returns the dead of a name whose queue is not there; nil if there are none.
func (e *Engine) former(name string) *letters {
	if l := e.lines[name]; l != nil && l.live {
		return nil
	}
	if ls := e.letters[name]; ls != nil && ls.dead.len() > 0 {
		return ls
	}
	return nil
}

// letter returns a dead job of a name, nil if there is none.
func (e *Engine) letter(name, id string, now leaky.Instant) *ended {
	ls := e.letters[name]
	if ls == nil {
		return nil
	}
	d := ls.byID[id]
	if d == nil || tooOld(d, e.retention(ls), now) {
		return nil
	}
	return d
}

// DeadQueues implements queue.Keeper.
func (e *Engine) DeadQueues(ctx context.Context, after string, limit int) ([]queue.DeadQueue, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.readable(ctx); err != nil {
		return nil, err
	}
	now, budget := e.now(), sweepMax
	var list []queue.DeadQueue
	for len(list) < limit {
		ls := e.mournedAfter(after)
		if ls == nil {
			break
		}
		after = ls.name
		budget -= e.trimDead(ls, now, budget) // so that they are counted right
		if ls.dead.len() > 0 {
			l := e.lines[ls.name]
			list = append(list, queue.DeadQueue{Queue: ls.name, Dead: int64(ls.dead.len()), Oldest: ls.dead.top().at.Time(), Gone: l == nil || !l.live})
		}
	}
	return list, nil
}

// mournedAfter returns the dead of the next name that has some, nil if there is none.
func (e *Engine) mournedAfter(name string) *letters {
	for ls := range e.mourned.from(func(ls *letters) bool { return ls.name > name }) {
		return ls
	}
	return nil
}
