package api

import (
	"context"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/rules"
)

// span is a run of names in their order: those from one text up to another, which is not among them.
type span struct{ from, to string }

// visible are the names that whoever asks may see, in order; all is every one of them.
func visible(ctx context.Context) (spans []span, all bool) {
	id := caller(ctx)
	if id == nil || id.Everything(auth.View) {
		return nil, true
	}
	return spansOf(id.Prefixes(auth.View)), false
}

// spansOf are the names of prefixes.
func spansOf(prefixes []string) (spans []span) {
	for _, prefix := range prefixes {
		if stem, star := strings.CutSuffix(prefix, "*"); star {
			spans = append(spans, span{stem, following(stem)})
			continue
		}
		// Between a name and its children stand others, such as a-b between a and a.b.
		spans = append(spans, span{prefix, prefix + "-"})
		if names.Parent(prefix) == "" {
			spans = append(spans, span{prefix + ".", following(prefix + ".")})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return strings.Compare(a.from, b.from) })
	return spans
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

// lister reads up to limit of what has names, in their order, beginning behind one.
type lister[T any] func(ctx context.Context, after string, limit int) ([]T, error)

// seen reads as a list does, of what whoever asks may see.
func seen[T any](
	ctx context.Context, list lister[T], name func(*T) string, after string, limit int,
) ([]T, error) {
	spans, all := visible(ctx)
	if all {
		return list(ctx, after, limit)
	}
	return within(ctx, spans, list, name, after, limit)
}

// within reads as a list does, of what is within spans.
func within[T any](
	ctx context.Context, spans []span, list lister[T], name func(*T) string, after string, limit int,
) (found []T, err error) {
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

// eachOf goes over all that is within spans.
func eachOf[T any](
	ctx context.Context, spans []span, list lister[T], name func(*T) string, do func(*T),
) error {
	for after := ""; ; {
		some, err := within(ctx, spans, list, name, after, maxPage)
		if err != nil {
			return err
		}
		for i := range some {
			do(&some[i])
		}
		if len(some) < maxPage {
			return nil
		}
		after = name(&some[maxPage-1])
	}
}

func queueName(i *queue.Info) string { return i.Spec.Name }
func ruleName(i *rules.Info) string  { return i.Name }

func deadName(d *queue.DeadQueue) string { return d.Queue }

func (h *handler) seenQueues(ctx context.Context, after string, limit int) ([]queue.Info, error) {
	return seen(ctx, h.engine.List, queueName, after, limit)
}

func (h *handler) seenRules(ctx context.Context, after string, limit int) ([]rules.Info, error) {
	return seen(ctx, h.engine.ListRules, ruleName, after, limit)
}

func (h *handler) seenDead(ctx context.Context, after string, limit int) ([]queue.DeadQueue, error) {
	return seen(ctx, h.engine.DeadQueues, deadName, after, limit)
}

// ownNames are those of a list that exist for who asks.
func ownNames(ctx context.Context, list []string) []string {
	if caller(ctx) == nil {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return !owns(ctx, name) })
}
