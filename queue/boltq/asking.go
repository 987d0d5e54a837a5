package boltq

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// asked is the rules that the jobs of a queue are asked by. It is never changed: another is made when they change.
type asked struct {
	set   queue.Ruleset
	rules []*rule // the same
}

// askedBy returns the rules of a queue, nil if it has none.
func (e *Engine) askedBy(l *line) *asked {
	if len(e.named) == 0 {
		return nil
	}
	if l.asksAsOf != e.ruled {
		l.asks, l.asksAsOf = e.asksOf(l), e.ruled
	}
	return l.asks
}

func (e *Engine) asksOf(l *line) *asked {
	var above []string
	if p := e.lines[queue.Parent(l.spec.Name)]; p != nil && p.live {
		above = p.spec.Rules
	}
	names := queue.RuleNames(l.spec.Name, above, l.spec.Rules)
	if len(names) == 0 {
		return nil
	}
	a := &asked{}
	for _, name := range names {
		if r := e.rules[name]; r != nil && r.live {
			a.set = append(a.set, queue.ParsedRule{Rule: r.Rule, Template: r.template})
			a.rules = append(a.rules, r)
		}
	}
	return a
}

// expand finds out what jobs ask rules, outside the mutex: to find a key in a payload may take a while.
func (e *Engine) expand(open []*entry) {
	if !e.asking.Load() {
		return
	}
	e.mu.Lock()
	for _, n := range open {
		if l := e.lines[n.job.Queue]; l != nil {
			n.asked = e.askedBy(l)
		}
	}
	e.mu.Unlock()
	for _, n := range open {
		if n.asked != nil {
			n.find(n.asked)
		}
	}
}

// find finds what the job asks.
func (n *entry) find(a *asked) {
	n.asked = a
	n.asks, n.asksErr = a.set.Asks(&n.job)
	n.keys = make([]queue.LaneDigest, len(n.asks))
	for i := range n.asks {
		n.keys[i] = queue.DigestLane(n.asks[i].Key)
	}
}

// bill is what rules said of a job, and what it took from them.
type bill struct {
	rules []queue.Ruled
	dues  []due
}

// due is what a job takes from one rule.
type due struct {
	rule  *rule
	key   queue.LaneDigest
	limit leaky.Limiter
	ask   leaky.Ask
	tally *tally // once it is taken
	deed  *deed
}

// ask asks the rules about a job. What they let through is taken when the job comes in: see charge. busy says that rules are
// changing, and invalid that the job cannot be asked about.
func (e *Engine) ask(n *entry, a *asked, now leaky.Instant) (b *bill, busy *call, invalid error) {
	for _, r := range a.rules {
		if r.changing != nil {
			return nil, r.changing.call, nil
		}
	}
	if n.asked != a { // they have changed since; which is seldom
		n.find(a)
	}
	if n.asksErr != nil {
		return nil, nil, n.asksErr
	}
	b = &bill{rules: make([]queue.Ruled, 0, len(n.asks))}
	for i := range n.asks {
		q := &n.asks[i]
		d := due{rule: e.rules[q.Rule.Name], key: n.keys[i], limit: q.Limiter, ask: leaky.Ask{Cost: n.job.Cost}}
		says := e.peek(&d, now)
		b.rules = append(b.rules, queue.Ruled{Rule: q.Rule.Name, Shadow: q.Rule.Action == queue.Shadow, Decision: says})
		if says.Allowed {
			b.dues = append(b.dues, d)
		}
	}
	return b, nil, nil
}

func (e *Engine) peek(d *due, now leaky.Instant) leaky.Decision {
	if t := e.tallyAt(d.rule.book, d.key, now); t != nil {
		s := t.under(d.limit)
		says := s.Peek(now, d.ask)
		if !says.Allowed {
			s.Take(now, d.ask)
			e.putRight(t, s, d.limit, now)
		}
		return says
	}
	return d.limit.Fresh().Peek(now, d.ask)
}

// refused is what becomes of a job that rules refuse, be it those of another group, which takes nothing; without one it goes on.
func (n *entry) refused(l *line, a *asked, b *bill) (outcome queue.AppendOutcome, refused bool) {
	_, wait, refused := queue.Limited(n.answer.Rules)
	if !refused && n.job.Limited <= 0 {
		return 0, false
	}
	if b != nil {
		b.dues = nil
	}
	if n.offered && n.job.Overflow != queue.Reject && a.defers(n.answer.Rules) {
		return l.roomAside(), true
	}
	n.answer.RetryAfter = max(leastRetry, wait, n.job.Limited)
	return queue.LimitReached, true
}

// defers reports whether all rules that refuse a job want it to be set aside.
func (a *asked) defers(said []queue.Ruled) bool {
	for i := range said {
		if said[i].Allowed || said[i].Shadow {
			continue
		}
		for _, r := range a.rules {
			if r.Name == said[i].Rule && r.Action != queue.Defer {
				return false
			}
		}
	}
	return true
}

// charge takes what a job that comes in owes.
func (e *Engine) charge(b *bill, now leaky.Instant) {
	if b == nil {
		return
	}
	for i := range b.dues {
		d := &b.dues[i]
		d.tally = e.tallyOf(d.rule.book, d.key, now)
		d.deed = d.tally.charge(d.limit, now, d.ask)
		e.lodge(d.tally)
	}
	e.wither(now, 2*len(b.dues))
}

// with puts what was taken into the batch of the job.
func (b *bill) with(to *batch) {
	if b == nil {
		return
	}
	for i := range b.dues {
		b.dues[i].deed.sent = true
		to.keepTally(b.dues[i].tally)
	}
}

// paid notes that it is on disk.
func (b *bill) paid() []queue.Ruled {
	if b == nil {
		return nil
	}
	for i := range b.dues {
		b.dues[i].tally.settle(b.dues[i].deed)
	}
	return b.rules
}

// unpaid takes it back.
func (b *bill) unpaid(now leaky.Instant) {
	if b == nil {
		return
	}
	for i := range b.dues {
		b.dues[i].tally.undo(b.dues[i].deed, now)
	}
}
