package api

import (
	"context"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/queue"
)

// span is a run of names in their order: those from one text up to another, which is not among them.
type span struct{ from, to string }

// visible are the names that whoever asks may see, in order; all is every one of them.
func visible(ctx context.Context) (spans []span, all bool) {
	id := caller(ctx)
	if id == nil || id.Everything(auth.View) {
		return nil, true
	}
	for _, prefix := range id.Prefixes(auth.View) {
		if stem, star := strings.CutSuffix(prefix, "*"); star {
			spans = append(spans, span{stem, following(stem)})
			continue
		}
		// Between a name and its children stand others, such as a-b between a and a.b.
		spans = append(spans, span{prefix, prefix + "-"})
		if queue.Parent(prefix) == "" {
			spans = append(spans, span{prefix + ".", following(prefix + ".")})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return strings.Compare(a.from, b.from) })
	return spans, false
}

// following is the first text behind all that begin with a stem.
func following(stem string) string {
	last := len(stem) - 1
	return stem[:last] + string(stem[last]+1)
}

// before is the last text before a name that no other name begins with: a list behind it begins with the name.
func before(name string) string {
	last := len(name) - 1
	return name[:last] + string(name[last]-1) + "~"
}

// seen reads up to limit of what whoever asks may see, in order of name, out of a list that begins behind a name.
func seen[T any](
	ctx context.Context, list func(ctx context.Context, after string, limit int) ([]T, error), name func(*T) string,
	after string, limit int,
) (found []T, err error) {
	spans, all := visible(ctx)
	if all {
		return list(ctx, after, limit)
	}
	for _, s := range spans {
		at := max(after, before(s.from))
		for at < s.to && len(found) < limit {
			n := limit - len(found)
			if s.to == s.from+"-" { // it is a name
				n = 1
			}
			some, err := list(ctx, at, n)
			if err != nil {
				return nil, err
			}
			for i := range some {
				if at = name(&some[i]); at >= s.to {
					break
				}
				found = append(found, some[i])
			}
			if len(some) < n {
				break
			}
		}
	}
	return found, nil
}

func (h *handler) seenQueues(ctx context.Context, after string, limit int) ([]queue.Info, error) {
	return seen(ctx, h.engine.List, func(i *queue.Info) string { return i.Spec.Name }, after, limit)
}

func (h *handler) seenRules(ctx context.Context, after string, limit int) ([]queue.RuleInfo, error) {
	return seen(ctx, h.engine.ListRules, func(i *queue.RuleInfo) string { return i.Name }, after, limit)
}

func (h *handler) seenDead(ctx context.Context, after string, limit int) ([]queue.DeadQueue, error) {
	return seen(ctx, h.engine.DeadQueues, func(d *queue.DeadQueue) string { return d.Queue }, after, limit)
}

// ownNames are those of a list that exist for who asks.
func ownNames(ctx context.Context, names []string) []string {
	if caller(ctx) == nil {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !owns(ctx, name) })
}
