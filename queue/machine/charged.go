package machine

import (
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// A job takes from its rules in one commit with itself. Where that commit fails, what it took is as if it had not been
// asked for, whatever others took meanwhile: so until it is durable, the tally without it can be worked out.

// chargedTally is what it takes to know a tally without the charges that are not durable.
type chargedTally struct {
	before leaky.Tally // without ops
	ops    []tallyOp   // the first charge that is not durable, and all that followed
}

// tallyKey names a tally, whether it is in memory or not.
type tallyKey struct {
	set *tallySet
	key queue.LaneDigest
}

// tallyOp is something that changed a tally.
type tallyOp struct {
	at     leaky.Instant
	op     rules.TakeOp
	ask    leaky.Ask
	by     leaky.Limiter
	commit uint64 // of a charge that is not durable; else 0
}

// applyTo returns a state after the op.
func (o *tallyOp) applyTo(s leaky.Tally) leaky.Tally {
	switch o.op {
	case rules.TakeBack:
		s.Refund(o.at, o.ask)
	case rules.TakeAnew:
		return o.by.Fresh()
	default:
		s.Take(o.at, o.ask)
	}
	return s
}

// noteCharge notes what a job takes from a tally, before it does.
func (m *Machine) noteCharge(t *tally, s leaky.Tally, by leaky.Limiter, ask leaky.Ask, now leaky.Instant) {
	k, c := tallyKey{t.set, t.digest}, m.present
	g := m.charged[k]
	if g == nil {
		g = &chargedTally{before: s.Clone()}
		m.charged[k] = g
	}
	if n := len(g.ops); n == 0 || g.ops[n-1].commit != c.Number {
		c.charged = append(c.charged, k)
	}
	g.ops = append(g.ops, tallyOp{now, rules.TakeNow, ask, by, c.Number})
}

// noteTake notes what is taken from a tally by name, or given back, if a charge of it is not durable.
func (m *Machine) noteTake(
	set *tallySet, key queue.LaneDigest, op rules.TakeOp, by leaky.Limiter, ask leaky.Ask, now leaky.Instant,
) {
	if g := m.charged[tallyKey{set, key}]; g != nil {
		g.ops = append(g.ops, tallyOp{now, op, ask, by, 0})
	}
}

// chargesDurable notes that the charges of a commit are durable.
func (m *Machine) chargesDurable(c *Commit) {
	for _, k := range c.charged {
		g := m.charged[k]
		if g == nil {
			continue
		}
		for i := range g.ops {
			if g.ops[i].commit <= c.Number {
				g.ops[i].commit = 0
			}
		}
		first := slices.IndexFunc(g.ops, func(o tallyOp) bool { return o.commit != 0 })
		if first < 0 {
			delete(m.charged, k)
			continue
		}
		for i := range g.ops[:first] {
			g.before = g.ops[i].applyTo(g.before)
		}
		g.ops = slices.Delete(g.ops, 0, first)
	}
}

// withoutCharges returns the state of a tally without the charges that are not durable, and by which limiter it is to
// be read.
func (g *chargedTally) withoutCharges() (s leaky.Tally, by leaky.Limiter) {
	s = g.before.Clone()
	for i := range g.ops {
		by = g.ops[i].by
		if g.ops[i].commit == 0 {
			s = g.ops[i].applyTo(s)
		}
	}
	return s, by
}
