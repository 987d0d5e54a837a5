package machine

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

func (l *loader) loadRules(context.Context) error {
	err := forEach(l.Table(rulesTable), func(k, v []byte) error {
		var number uint64
		var revision int64
		text, err := decode(v, "rule", &number, &revision)
		if err != nil {
			return err
		}
		q, err := rules.Decode(text)
		if err != nil {
			return fmt.Errorf("%w: the rule %s: %w", queue.ErrCorrupt, k, err)
		}
		r, err := newRule(q, revision, &tallySet{number: number})
		if err != nil {
			return fmt.Errorf("%w: the rule %s: %w", queue.ErrCorrupt, k, err)
		}
		r.tallies.setOverrides(r.overrides, r.limiter, l.now)
		l.Machine.rules[q.Name], l.rulesByTallies[number] = r, r
		l.ruleNames = append(l.ruleNames, q.Name)
		l.lastTallySet = max(l.lastTallySet, number)
		return nil
	})
	slices.Sort(l.ruleNames)
	return err
}

// readTallies reads the tallies. Unreadable and expired tallies are ignored, and deleted from the file.
func (l *loader) readTallies(ctx context.Context) error {
	return l.each(ctx, talliesTable, func(number uint64, v []byte) error {
		l.lastTally = number
		set, expires, digest, state, err := decodeTally(v)
		if err != nil {
			l.droppedTallies.add(number)
			return nil
		}
		l.lastTallySet = max(l.lastTallySet, set)
		r := l.rulesByTallies[set]
		if r == nil {
			l.orphans.tallyKeys = append(l.orphans.tallyKeys, number)
			return nil
		}
		s, err := r.limiter.Restore(state)
		if err != nil || expires <= l.now {
			l.droppedTallies.add(number)
			return nil
		}
		if older := r.tallies.find(digest); older != nil { // it was forgotten, and should have left the file
			l.forgetTally(older)
		}
		t := l.newTally(r.tallies, digest)
		t.number, t.expires, t.checkAt, t.onFile = number, expires, expires, true
		if len(state) <= packedMax { // left packed: its key and limiter are known when it is asked
			t.size = uint8(copy(t.packed[:], state))
		} else {
			// a log, or places, which lose nothing by unpacking
			t.unpacked = &unpackedTally{limiter: r.limiter, correctedBy: r.limiter, state: s, size: len(state)}
		}
		l.putTally(t)
		return nil
	})
}
