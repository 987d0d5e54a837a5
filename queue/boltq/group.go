package boltq

import (
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const (
	rouseMax  = 100 // members that rested and become ready, a visit
	chooseMax = 100 // members that are chosen and cannot go, a visit
)

// group is a parent and its children, its members. Their turns are start-time fair queueing. It
// stands on the agenda in their place.
type group struct {
	outlet
	resting  heap[*line] // by the instant at which something could depart
	ready    heap[*line] // by tag
	served   int64       // the tag of the member that was served last
	since    leaky.Instant
	children int

	waiting int64 // jobs that wait in its queues
	peopled int64 // in so many of them
	coming  int64 // jobs that will, on their way to disk
	awaited int64 // in so many jobs wait, or are about to

	lastFence uint64 // of the latest grant
}

// seat is a queue's place in its group.
type seat struct {
	in     *heap[*line] // resting or ready; nil in neither
	place  int
	tag    int64 // when ready
	finish int64 // the tag at the end of its latest turn
	// Of the visit that is under way: whether it was chosen, what is kept of it, and how many
	// departures it was granted.
	called  bool
	visit   visit
	granted int
	aside   bool // it was passed over, for its share was used up
}

// leave takes a queue out of the heap that it is in.
func (s *seat) leave() {
	if s.in != nil {
		s.in.remove(s.place)
		s.in = nil
	}
}

func newGroup(parent *line) *group {
	moved := func(l *line, i int) { l.seat.place = i }
	return &group{
		outlet: outlet{of: parent, agendaAt: -1}, lastFence: parent.lastFence,
		resting: heap[*line]{less: byPossible, moved: moved}, ready: heap[*line]{less: byStart, moved: moved},
	}
}

func byPossible(a, b *line) bool {
	return a.departs < b.departs || a.departs == b.departs && a.number < b.number
}

func byStart(a, b *line) bool {
	return a.seat.tag < b.seat.tag || a.seat.tag == b.seat.tag && a.number < b.number
}

// heads reports whether l is the parent of a group.
func (l *line) heads() bool { return l.kin != nil && l.kin.of == l }

// parent returns the parent whose paces hold for l beside its own; nil if there is none.
func (l *line) parent() *line {
	if l.kin == nil || l.kin.of == l {
		return nil
	}
	return l.kin.of
}

// dearestOfAll is the greatest cost appended to a queue or its children.
func (l *line) dearestOfAll() int64 { return max(l.maxCost, l.dearer) }

// own is opens as far as l goes as a member: what holds all of them holds the parent's own
// jobs.
func (l *line) own(now leaky.Instant) leaky.Instant {
	if l.heads() {
		return max(now, l.heard.stop)
	}
	return l.opens(now)
}

// adopt makes a queue that has come to be a member, or makes a group of it and its children.
func (e *Engine) adopt(l *line, now leaky.Instant) {
	if name := queue.Parent(l.spec.Name); name != "" {
		if p := e.lines[name]; p != nil && p.live {
			e.join(e.head(p, now), l, now)
		}
		return
	}
	for _, name := range e.childrenOf(l.spec.Name) {
		e.join(e.head(l, now), e.lines[name], now)
	}
}

// childrenOf returns the names of the live children of a name.
func (e *Engine) childrenOf(name string) []string {
	from, _ := slices.BinarySearch(e.names, name+".")
	to, _ := slices.BinarySearch(e.names, name+"/") // what comes next
	return e.names[from:to]
}

// bear counts a child of a name more, or less.
func (e *Engine) bear(child string, n int) {
	parent := queue.Parent(child)
	if e.children[parent] += n; e.children[parent] == 0 {
		delete(e.children, parent)
	}
}

// head returns the group of a parent, which is made for its first child.
func (e *Engine) head(p *line, now leaky.Instant) *group {
	if p.kin == nil {
		g := newGroup(p)
		g.whole = g
		e.join(g, p, now)
	}
	return p.kin
}

// join makes a queue a member. It keeps the instant at which it stood on the agenda.
func (e *Engine) join(g *group, l *line, now leaky.Instant) {
	able := l.agendaAt >= 0
	place(&e.agenda, &l.outlet, l.agendaAt, false)
	l.kin, l.seat = g, seat{}
	if l != g.of {
		g.children++
	}
	g.count(l, 1)
	e.post(l, able, now)
}

// part takes a queue that was deleted out of its group, which ends with its last child.
func (e *Engine) part(l *line, now leaky.Instant) {
	g := l.kin
	if g == nil {
		return
	}
	l.seat.leave()
	g.count(l, -1)
	l.kin = nil
	if g.children--; g.children > 0 {
		e.armGroup(g, now)
		return
	}
	p := g.of
	p.seat.leave()
	place(&e.agenda, &g.outlet, g.agendaAt, false)
	p.kin, p.lastFence = nil, g.lastFence // nothing before it can be given back
	e.rearm(p, now)
}

// count counts the jobs of a queue that waits in, or no more.
func (g *group) count(l *line, sign int64) {
	waiting, coming := l.count[queue.Waiting], l.coming.waiting
	g.waiting += sign * waiting
	g.coming += sign * coming
	if waiting > 0 {
		g.peopled += sign
	}
	if waiting+coming > 0 {
		g.awaited += sign
	}
}

// waits notes that one job more, or less, waits in l.
func (g *group) waits(l *line, n int64) {
	g.waiting += n
	g.peopled += turned(l.count[queue.Waiting], n)
	g.awaited += turned(l.count[queue.Waiting]+l.coming.waiting, n)
}

// expects notes that one job more, or less, is about to wait in l.
func (g *group) expects(l *line, n int64) {
	g.coming += n
	g.awaited += turned(l.count[queue.Waiting]+l.coming.waiting, n)
}

// turned is 1 when a number has become more than 0 by n more, -1 when it no longer is, else 0.
func turned(number, n int64) int64 {
	switch {
	case n > 0 && number == n:
		return 1
	case n < 0 && number == 0:
		return -1
	}
	return 0
}

// uncount gives a departure back to quotas of which the target has nothing. What the group could not have used before is
// no lost slot.
func (l *line) uncount(f *flight, cost int64, now leaky.Instant) {
	if g := l.kin; g != nil {
		g.since = max(g.since, min(now, g.of.free(now)))
	}
	l.refund(f.due, cost)
	if p := l.parent(); p != nil && p.busy == nil {
		p.refund(f.due, cost)
	}
}

// regain gives a departure back that was never used: to buckets where it was the last one granted.
func (l *line) regain(f *flight, cost int64, now leaky.Instant) {
	l.uncount(f, cost, now)
	fence := f.fence.number
	if l.parent() != nil && fence == l.lastFence {
		l.giveBack()
	}
	switch g := l.kin; {
	case g == nil && fence == l.lastFence:
		l.giveBack()
	case g != nil && fence == g.lastFence && g.of.busy == nil:
		g.of.giveBack()
	}
}

// armGroup works out when something of a group can next depart.
func (e *Engine) armGroup(g *group, now leaky.Instant) {
	p := g.of
	able := p.awake() && g.ready.len()+g.resting.len() > 0
	if able {
		g.departs = max(g.since, p.free(now))
		if g.ready.len() == 0 {
			g.departs = max(g.departs, g.resting.top().departs)
		}
	}
	place(&e.agenda, &g.outlet, g.agendaAt, able)
}

// rearmGroup does so after a visit, by another rule of the parent's, and after a pause: what could
// have departed before is not lost any more.
func (e *Engine) rearmGroup(g *group, now leaky.Instant) {
	g.since = now
	e.armGroup(g, now)
}

// rest lets a member rest until the instant that departs says.
func (g *group) rest(l *line, until leaky.Instant) {
	l.seat.leave()
	l.departs = until
	l.seat.in = &g.resting
	g.resting.push(l)
}

// rouse makes a member ready.
func (g *group) rouse(l *line) {
	l.seat.leave()
	l.seat.tag = max(l.seat.finish, g.served)
	l.seat.in = &g.ready
	g.ready.push(l)
}

// serve notes that a job of a member was granted.
func (g *group) serve(l *line, cost int64) {
	s := &l.seat
	g.served, s.finish = s.tag, s.tag+cost
	s.tag = s.finish
	g.ready.fix(s.place)
}

// settle finds the place of a member that is ready, after a job of it was dealt with at d.
func (g *group) settle(l *line, d, now leaky.Instant) {
	if next := max(d, l.own(now)); !l.able(next) {
		l.seat.leave()
	} else if next > d {
		g.rest(l, next)
	}
}
