package api

import (
	"context"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/rules"
)

// span is a range of names in order: from is included, to is not.
type span struct{ from, to string }

// visible returns the names the caller may see, as sorted spans. all means every name.
func visible(ctx context.Context) (spans []span, all bool) {
	id := caller(ctx)
	if id == nil || id.Everything(auth.View) {
		return nil, true
	}
	return spansOf(id.Prefixes(auth.View)), false
}

// spansOf returns the spans of prefixes, sorted.
func spansOf(prefixes []string) (spans []span) {
	for _, prefix := range prefixes {
		if stem, star := strings.CutSuffix(prefix, "*"); star {
			spans = append(spans, span{stem, following(stem)})
			continue
		}
		// Other names sort between a name and its children: a-b is between a and a.b.
		spans = append(spans, span{prefix, prefix + "-"})
		if names.Parent(prefix) == "" {
			spans = append(spans, span{prefix + ".", following(prefix + ".")})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return strings.Compare(a.from, b.from) })
	return spans
}

// following returns the first text after all that begin with stem.
func following(stem string) string {
	last := len(stem) - 1
	return stem[:last] + string(stem[last]+1)
}

// before returns a text that sorts directly before a name: a list after it begins with the name.
func before(name string) string {
	last := len(name) - 1
	return name[:last] + string(name[last]-1) + "~"
}

// lister lists up to limit items after a name, in order of their names.
type lister[T any] func(ctx context.Context, after string, limit int) ([]T, error)

// seen lists the items the caller may see.
func seen[T any](
	ctx context.Context, list lister[T], name func(*T) string, after string, limit int,
) ([]T, error) {
	spans, all := visible(ctx)
	if all {
		return list(ctx, after, limit)
	}
	return within(ctx, spans, list, name, after, limit)
}

// within lists the items within spans.
func within[T any](
	ctx context.Context, spans []span, list lister[T], name func(*T) string, after string, limit int,
) (found []T, err error) {
	for _, s := range spans {
		at := max(after, before(s.from))
		for at < s.to && len(found) < limit {
			n := limit - len(found)
			if s.to == s.from+"-" { // a single name
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

// eachOf calls do with every item within spans.
func eachOf[T any](
	ctx context.Context, spans []span, list lister[T], name func(*T) string, do func(*T),
) error {
	for after := ""; ; {
		some, err := within(ctx, spans, list, name, after, httpio.MaxPage)
		if err != nil {
			return err
		}
		for i := range some {
			do(&some[i])
		}
		if len(some) < httpio.MaxPage {
			return nil
		}
		after = name(&some[httpio.MaxPage-1])
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

// ownNames returns the names in a list that the caller may see.
func ownNames(ctx context.Context, list []string) []string {
	if caller(ctx) == nil {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return !owns(ctx, name) })
}

// withoutContent removes a job's payload and headers, unless the caller may see payloads.
func withoutContent(ctx context.Context, i *queue.JobInfo) {
	if !may(ctx, auth.Payloads, i.Queue) {
		i.Payload, i.ContentType, i.Headers = nil, "", nil
	}
}

// shownTo returns a function that converts a queue to what the caller may see of it.
func (h *handler) shownTo(ctx context.Context) func(*queue.Info) wire.Queue {
	return func(i *queue.Info) wire.Queue {
		seen := visibleTo(ctx, i)
		q := shown(seen)
		if h.o.Proxy != nil && i.Spec.Proxied() {
			n := h.o.Proxy.Calls(i.Spec.Name)
			q.Calls = &wire.Calls{Waiting: n.Waiting, Active: n.Active}
		}
		if seen != i {
			q.Parent.Quotas, q.Parent.Budgets = nil, nil
			hideForeign(&q.Status)
		}
		return q
	}
}

// hideForeign removes from a status what only the owner of its cause, a parent queue, may see.
func hideForeign(s *wire.Status) {
	if s.Queue != "" {
		s.Reason, s.By, s.ClaimedBy = "", "", ""
	}
}

// visibleTo returns what the caller may see of a queue. Of a parent in another app, that is only what affects the
// queue: its rate, and whether and until when it is paused.
func visibleTo(ctx context.Context, i *queue.Info) *queue.Info {
	if i.Parent == nil || owns(ctx, i.Parent.Spec.Name) {
		return i
	}
	child, parent := *i, *i.Parent
	parent.Pause.Reason, parent.Pause.By, parent.Pause.Note = "", "", ""
	child.Parent = &parent
	return &child
}

// shownJobTo converts a job to what the caller may see of it.
func shownJobTo(ctx context.Context, i *queue.JobInfo) wire.Job {
	withoutContent(ctx, i)
	if y := &i.Why; y.Queue != "" && !owns(ctx, y.Queue) {
		y.Reason, y.Who, y.Note = "", "", ""
	}
	return shownJob(i)
}

// shownRuleTo returns a function that converts a rule to what the caller may see of it. The engine names the queues of
// the rule's own group; the last survey adds the queues of other groups.
func (h *handler) shownRuleTo(ctx context.Context) func(*rules.Info) wire.Rule {
	askers := h.findings.of(h, h.o.Survey.Latest()).askers
	return func(i *rules.Info) wire.Rule {
		r := shownRule(i)
		r.Queues = ownNames(ctx, slices.Concat(r.Queues, askers[i.Name]))
		slices.Sort(r.Queues)
		return r
	}
}
