package boltq

import (
	"maps"
	"math"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const (
	readyMax  = 100 // lanes that rested and become ready, a visit to a queue or a group
	judgeMax  = 100 // ready lanes that turn out to be none, a visit
	changeMax = 100 // lanes that become ready because of a changed rule, the same
)

const never = leaky.Instant(math.MaxInt64)

// turns says whose turn it is among the lanes of a queue in which jobs wait: self-clocked
// fair queueing. While only the lane without a key has jobs, it stands in none of these.
type turns struct {
	served  int64        // the tag of the lane that was served last
	ready   heap[*lane]  // by tag
	resting *heap[*lane] // by until when; busy ones never
	changed *heap[*lane] // that rested or were busy when a rule changed
	again   bool         // a rule changed while some of those were still there
}

func newTurns() *turns {
	resting, changed := newLanes(byRest), newLanes(byRest)
	return &turns{ready: newLanes(byTag), resting: &resting, changed: &changed}
}

// mixed reports whether lanes take turns.
func (l *line) mixed() bool {
	return l.spec.Ordered || l.peopled > 1 || l.peopled == 1 && l.bare.fifo.len() == 0
}

// stand puts a job into its lane to wait, and reports whether none waited there. Then the
// lane is to be placed.
func (l *line) stand(j *job) (first bool) {
	ln := j.lane
	first = ln.fifo.len() == 0
	ln.fifo.insert(j)
	if first {
		l.peopled++
		if ln.awaited() > 0 {
			l.coming.lanes--
		}
	}
	return first
}

// place finds the place of a lane that a job has come to. The lane without a key finds
// its own in a visit, but in an ordered queue.
func (l *line) place(ln *lane, first bool, now leaky.Instant) {
	if !first {
		l.unblock(ln, now)
	} else if ln.keyed() || l.spec.Ordered {
		l.order().settle(ln)
	}
}

// desert takes a job that waits out of its lane.
func (l *line) desert(j *job) {
	j.lane.fifo.remove(j)
	if j.lane.fifo.len() == 0 {
		l.peopled--
		j.lane.leave()
		if j.lane.awaited() > 0 {
			l.coming.lanes++
		}
	}
}

// settle finds the place of a lane that has none: what rests is found out in a visit.
func (t *turns) settle(ln *lane) {
	if ln.busy() {
		t.rest(ln, never)
	} else {
		t.prepare(ln)
	}
}

// prepare makes a lane ready. It is not ahead of others for having waited.
func (t *turns) prepare(ln *lane) {
	ln.leave()
	ln.tag = t.served + int64(ln.fifo.front().cost)
	ln.enter(&t.ready)
}

func (t *turns) rest(ln *lane, until leaky.Instant) {
	ln.leave()
	ln.rests = until
	ln.enter(t.resting)
}

// unblock finds the place of a lane of which a job is no longer in flight, and reports
// whether it was busy and is not any more.
func (l *line) unblock(ln *lane, now leaky.Instant) bool {
	t := l.turns
	if t == nil || ln.in != t.resting || ln.rests != never || ln.busy() {
		return false
	}
	if at := ln.opens(now, now); at > now {
		t.rest(ln, at)
	} else {
		t.prepare(ln)
	}
	return true
}

// change makes a changed rule hold for lanes that rest or are busy: they become ready in
// the next visits, which judge them. While there are some of an earlier change the others
// wait for those: there may be a million, and here nothing goes through them.
func (t *turns) change() {
	t.again = t.changed.len() > 0
	if !t.again {
		t.changed, t.resting = t.resting, t.changed
	}
}

// recall makes lanes ready for the sake of a changed rule, at the beginning of a visit.
func (t *turns) recall(n *moved) {
	for ; t.changed.len() > 0 && n.recalled < changeMax; n.recalled++ {
		t.prepare(t.changed.top())
	}
	if t.again && t.changed.len() == 0 {
		t.change()
	}
}

// changing reports whether lanes are still to become ready because of a changed rule.
func (t *turns) changing() bool { return t.again || t.changed.len() > 0 }

// sameLanes reports whether two specs have the same rules for lanes.
func sameLanes(a, b *queue.Spec) bool {
	return a.Ordered == b.Ordered && a.Lanes.LaneRule == b.Lanes.LaneRule && maps.Equal(a.Lanes.Overrides, b.Lanes.Overrides)
}

// crowded reports whether as many jobs are leased as may be.
func (l *line) crowded() bool {
	return l.spec.MaxInFlight > 0 && l.count[queue.Leased] >= l.spec.MaxInFlight
}

// able reports whether something could depart at next, by the queue's own pace.
func (l *line) able(next leaky.Instant) bool {
	t := l.turns
	switch {
	case l.peopled == 0 || l.crowded():
		return false
	case !l.still():
		return true
	}
	return t.resting.len() > 0 && t.resting.top().rests <= next
}

// still reports whether all lanes in which jobs wait rest or are busy.
func (l *line) still() bool {
	t := l.turns
	return t != nil && l.mixed() && t.ready.len() == 0 && !t.changing() && (l.bare.fifo.len() == 0 || l.bare.in != nil)
}

// rested reports whether the lane that all wait for rested for longer than the queue's own
// pace held it up.
func (l *line) rested() bool {
	if !l.still() || l.turns.resting.len() == 0 {
		return false
	}
	at := l.turns.resting.top().rests
	return at != never && l.own(at-1) < at
}

// wakes returns when the first lane stops resting, if that is what the queue waits for.
func (l *line) wakes() (at leaky.Instant, any bool) {
	if t := l.turns; t != nil && !l.placed() && !l.crowded() && t.resting.len() > 0 {
		at = t.resting.top().rests
		return at, at != never
	}
	return 0, false
}

// visit is what is kept of a visit to a queue while it lasts.
type visit struct {
	mixed bool // lanes take turns in it
	found int
	*moved
}

// moved counts lanes that became ready. All members of a group share it, or a visit to a
// thousand children would look at a hundred lanes of each.
type moved struct{ readied, recalled int }

// begin begins a visit.
func (l *line) begin(n *moved) visit {
	v := visit{mixed: l.mixed(), moved: n}
	if !v.mixed && l.turns == nil {
		return v
	}
	t := l.order()
	t.recall(n)
	switch bare := &l.bare; {
	case !v.mixed:
		bare.leave()
	case bare.fifo.len() > 0 && bare.in == nil:
		t.settle(bare)
	}
	return v
}

// choose returns the lane whose turn it is when the queue's next departure is at d; nil
// if there is none.
func (l *line) choose(v *visit, d, now leaky.Instant) *lane {
	if !v.mixed {
		if l.bare.fifo.len() == 0 {
			return nil
		}
		return &l.bare
	}
	t := l.turns
	for ; v.readied < readyMax && t.resting.len() > 0 && t.resting.top().rests <= d; v.readied++ {
		t.prepare(t.resting.top())
	}
	for ; t.ready.len() > 0 && v.found < judgeMax; v.found++ {
		ln := t.ready.top()
		if ln.busy() {
			t.rest(ln, never)
		} else if at := ln.judge(d, now); at > d {
			t.rest(ln, at)
		} else {
			return ln
		}
	}
	return nil
}

// granted notes that a job of a lane departs at d, and finds the lane's place. The job
// stands no more in its FIFO, but counts as in flight.
func (l *line) granted(v *visit, ln *lane, d, now leaky.Instant, cost int64) {
	if !v.mixed {
		return
	}
	t := l.turns
	ln.take(d, now, cost)
	t.served = ln.tag
	ln.tag += cost
	if ln.fifo.len() == 0 {
		return
	}
	if ln.busy() {
		t.rest(ln, never)
	} else if at := ln.opens(d, now); at > d {
		t.rest(ln, at)
	} else {
		t.ready.fix(ln.place)
	}
}

// order returns the queue's turns, which a queue without lanes has none of.
func (l *line) order() *turns {
	if l.turns == nil {
		l.turns = newTurns()
	}
	return l.turns
}

// first returns the lane that is next, as far as can be told without a visit; nil if no
// job waits.
func (l *line) first() *lane {
	t := l.turns
	switch {
	case l.bare.fifo.len() > 0:
		return &l.bare
	case l.peopled == 0:
		return nil
	case t.ready.len() > 0:
		return t.ready.top()
	case t.changed.len() == 0:
		return t.resting.top()
	case t.resting.len() == 0 || byRest(t.changed.top(), t.resting.top()):
		return t.changed.top()
	}
	return t.resting.top()
}
