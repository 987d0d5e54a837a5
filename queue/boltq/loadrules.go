package boltq

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstock/penstock/queue"
)

func (l *loader) rules(context.Context) error {
	err := l.tx.Bucket(rulesTable).ForEach(func(k, v []byte) error {
		b := reader{b: v}
		number, revision := b.num(), int64(b.num())
		if err := b.err("rule"); err != nil {
			return err
		}
		q, err := queue.DecodeRule(b.b)
		if err != nil {
			return fmt.Errorf("%w: the rule %s: %w", queue.ErrCorrupt, k, err)
		}
		r, err := newRule(q, revision, &book{number: number})
		if err != nil {
			return fmt.Errorf("%w: the rule %s: %w", queue.ErrCorrupt, k, err)
		}
		r.live = true
		l.Engine.rules[q.Name], l.books[number] = r, r
		l.ruleNames = append(l.ruleNames, q.Name)
		l.lastBook = max(l.lastBook, number)
		return nil
	})
	slices.Sort(l.ruleNames)
	return err
}

// takings reads what was taken. What cannot be read counts as nothing, and leaves the file, as what has expired does.
func (l *loader) takings(ctx context.Context) error {
	return l.each(ctx, talliesTable, func(number uint64, v []byte) error {
		l.lastTally = number
		book, expires, digest, state, err := decodeTally(v)
		if err != nil {
			l.dropped.add(number)
			return nil
		}
		l.lastBook = max(l.lastBook, book)
		r := l.books[book]
		if r == nil {
			l.orphans.numbers = append(l.orphans.numbers, number)
			return nil
		}
		s, err := r.limiter.Restore(state)
		if err != nil || expires <= l.now {
			l.dropped.add(number)
			return nil
		}
		if older := r.book.find(digest); older != nil { // which was forgotten, and should have left the file
			l.forgetTally(older)
		}
		t := newTally(r.book, digest)
		t.number, t.expires, t.looks, t.filed = number, expires, expires, true
		if len(state) <= packedMax { // as it is: which key it is of, and by what numbers, is known when it is asked
			t.size = uint8(copy(t.packed[:], state))
		} else {
			t.live = &living{limiter: r.limiter, right: r.limiter, state: s, size: len(state)} // of a log or of places, in which those numbers lose nothing
		}
		r.book.put(t)
		l.tallies.push(t)
		return nil
	})
}
