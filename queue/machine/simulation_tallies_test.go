package machine

import (
	"bytes"
	"slices"
)

// simSaved is a tally as a commit has it.
type simSaved struct {
	tally  *simTally
	state  simState
	set    uint64
	number uint64
	ops    []*simTake // ops that the disk did not have
	drops  bool       // the record
}

// saving notes the tallies of a commit as it is collected.
func (s *simulation) saving(c *Commit) (list []simSaved) {
	if len(c.tallies)+len(c.droppedTallies)+len(c.owed) == 0 {
		return nil
	}
	for i := range c.list {
		f := &c.list[i]
		if !bytes.Equal(f.table, talliesTable) {
			continue
		}
		for _, r := range s.rules {
			own := s.store.rules[r.rule.Name]
			for _, key := range simKeys {
				if t := r.tallies[key]; t != nil && own != nil {
					list = t.saving(f, own.tallies, list)
				}
			}
		}
	}
	return list
}

func (t *simTally) saving(f *effect, set *tallySet, list []simSaved) []simSaved {
	own := set.find(t.digest)
	switch {
	case f.value == nil && f.number == t.number:
		return append(list, simSaved{tally: t, set: set.number, number: f.number, drops: true})
	case f.value == nil || own == nil || own.number != f.number:
		return list
	}
	v := simSaved{tally: t, state: t.view.clone(), set: set.number, number: f.number}
	for _, o := range append(t.passed[:len(t.passed):len(t.passed)], t.ops...) {
		if !o.saved && o.fate != simLost {
			v.ops = append(v.ops, o)
		}
	}
	return append(list, v)
}

// saved notes that a commit is on disk.
func saved(list []simSaved) {
	for _, v := range list {
		if v.drops && v.tally.number != v.number {
			continue // another tally has replaced it
		}
		v.tally.disk, v.tally.set, v.tally.number = v.state, v.set, v.number
		for _, o := range v.ops {
			o.saved = true
		}
	}
}

// checkSaved checks that takes which still count are on disk with the saver's commit, or will be with another.
func (s *simulation) checkSaved(c *Commit) {
	p := s.store
	for _, r := range s.rules {
		for _, t := range r.tallies {
			if len(t.passed) == 0 || len(t.ops) > 0 || t.state.expires <= p.clock.Last {
				continue
			}
			switch o := t.passed[len(t.passed)-1]; {
			case o.saved:
			case c.Number == p.saved && o.at < p.savedAt:
				s.fail("what was taken from %s at %v is not saved", r.rule.Name, o.at.Sub(noon))
			case !p.saving && p.saved <= c.Number:
				s.fail("what was taken from %s at %v is not about to be saved", r.rule.Name, o.at.Sub(noon))
			}
		}
	}
}

// forgetTakes returns to the state on disk: the process died.
func (s *simulation) forgetTakes() {
	for _, r := range s.rules {
		for _, o := range r.open {
			o.gone = true
		}
		own := s.store.rules[r.rule.Name]
		for _, t := range r.tallies {
			t.ops = nil
			if t.state = (simState{}); own != nil && own.tallies.number == t.set {
				t.state = t.disk.clone()
			}
			t.view = t.state.clone()
			t.passed = slices.DeleteFunc(t.passed, func(o *simTake) bool { return !o.saved })
		}
	}
}
