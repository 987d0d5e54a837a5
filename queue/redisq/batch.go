package redisq

import (
	"context"
	"sync"

	"github.com/penstock/penstock/internal/coalesce"
)

// part is the share of a call that goes to one partition, and the indices of its answers.
type part[T any] struct {
	partition int
	items     []T
	at        []int
}

// place adds an item to its partition's part; total is the maximum number of items.
func place[T any](parts []part[T], partition, at, total int, item T) []part[T] {
	for i := range parts {
		if parts[i].partition == partition {
			parts[i].items = append(parts[i].items, item)
			parts[i].at = append(parts[i].at, at)
			return parts
		}
	}
	if total == 1 { // mostly
		only := &struct {
			items [1]T
			at    [1]int
			parts [1]part[T]
		}{items: [1]T{item}, at: [1]int{at}}
		only.parts[0] = part[T]{partition, only.items[:], only.at[:]}
		return only.parts[:]
	}
	p := part[T]{partition, make([]T, 0, total-at), make([]int, 0, total-at)}
	p.items, p.at = append(p.items, item), append(p.at, at)
	return append(parts, p)
}

// spread does all parts concurrently. It returns an error if every part failed.
func spread[T any](parts []part[T], do func(part[T]) error) error {
	if len(parts) == 1 {
		return do(parts[0])
	}
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, p := range parts {
		wg.Go(func() { errs[i] = do(p) })
	}
	wg.Wait()
	for _, err := range errs {
		if err == nil {
			return nil
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return errs[0]
}

// gather sends all parts concurrently, and returns the answers in the order of the call. It adds to answers, unless
// that is nil. It returns an error if every part failed.
func gather[Q, A any](ctx context.Context, to []*coalesce.Coalescer[Q, A], parts []part[Q], answers []A, total int,
	failed func(Q, error) A,
) ([]A, error) {
	if answers == nil && len(parts) == 1 { // the usual case: nothing needs to be copied
		p := &parts[0]
		got, err := to[p.partition].Do(ctx, p.items)
		if got == nil {
			for _, item := range p.items {
				got = append(got, failed(item, err))
			}
		}
		return got, err
	}
	if answers == nil {
		answers = make([]A, total)
	}
	return answers, spread(parts, func(p part[Q]) error {
		got, err := to[p.partition].Do(ctx, p.items)
		for i, at := range p.at {
			if got == nil {
				answers[at] = failed(p.items[i], err)
			} else {
				answers[at] = got[i]
			}
		}
		return err
	})
}

// ofQueue is the items of a batch that concern one queue, by their indices.
type ofQueue struct {
	name  string
	items []int
}

// byQueue groups the items of a batch by queue, in order of first appearance, keeping their order within it.
func byQueue[T any](items []T, name func(*T) string) []ofQueue {
	groups := make([]ofQueue, 0, 1)
	var at map[string]int
	for i := range items {
		n := name(&items[i])
		if k := len(groups) - 1; k >= 0 && groups[k].name == n {
			groups[k].items = append(groups[k].items, i)
			continue
		}
		if at == nil && len(groups) == 1 { // usually there is only one
			at = map[string]int{groups[0].name: 0}
		}
		k, ok := at[n]
		if !ok {
			k = len(groups)
			groups = append(groups, ofQueue{name: n, items: make([]int, 0, len(items)-i)})
			if at != nil {
				at[n] = k
			}
		}
		groups[k].items = append(groups[k].items, i)
	}
	return groups
}
