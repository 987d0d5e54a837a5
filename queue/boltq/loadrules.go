package boltq

import (
	"context"
	"fmt"
	"slices"
	"strings"

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
		r, err := newRule(q, revision, &book{number: number, tallies: map[string]*tally{}})
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
		book, expires, key, state, err := decodeTally(v)
		if err != nil {
			l.dropped = append(l.dropped, number)
			return nil
		}
		l.lastBook = max(l.lastBook, book)
		r := l.books[book]
		if r == nil {
			l.orphans.numbers = append(l.orphans.numbers, number)
			return nil
		}
		limiter := r.of(key)
		s, err := limiter.Restore(state)
		if err != nil || expires <= l.now || r.book.tallies[key] != nil {
			l.dropped = append(l.dropped, number)
			return nil
		}
		t := &tally{book: r.book, key: strings.Clone(key), number: number, limiter: limiter, state: s, expires: expires, looks: expires, place: -1, filed: true}
		r.book.tallies[t.key] = t
		r.book.most++
		l.tallies.push(t)
		return nil
	})
}
