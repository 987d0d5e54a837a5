package api

import (
	"context"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// withoutContent takes away what a job carries, unless whoever asks may see payloads.
func withoutContent(ctx context.Context, i *queue.JobInfo) {
	if !may(ctx, auth.Payloads, i.Queue) {
		i.Payload, i.ContentType, i.Headers = nil, "", nil
	}
}

// shownTo shows a queue, as far as whoever asks may see it.
func shownTo(ctx context.Context) func(*queue.Info) wire.Queue {
	return func(i *queue.Info) wire.Queue {
		seen := visibleTo(ctx, i)
		q := shown(seen)
		if seen != i {
			q.Parent.Quotas = nil
			hideForeign(&q.Status)
		}
		return q
	}
}

// hideForeign takes from a status what only those may see whose queue the cause of it is, here a parent's.
func hideForeign(s *wire.Status) {
	if s.Queue != "" {
		s.Reason, s.By, s.ClaimedBy = "", "", ""
	}
}

// visibleTo returns of a queue what may be shown: of a parent that is not his who asks no more than bears on the
// queue, which is its rate, and whether and until when it is paused.
func visibleTo(ctx context.Context, i *queue.Info) *queue.Info {
	if i.Parent == nil || owns(ctx, i.Parent.Spec.Name) {
		return i
	}
	child, parent := *i, *i.Parent
	parent.Pause.Reason, parent.Pause.By, parent.Pause.Note = "", "", ""
	child.Parent = &parent
	return &child
}

// shownJobTo shows a job in the same way.
func shownJobTo(ctx context.Context, i *queue.JobInfo) wire.Job {
	withoutContent(ctx, i)
	if y := &i.Why; y.Queue != "" && !owns(ctx, y.Queue) {
		y.Reason, y.Who, y.Note = "", "", ""
	}
	return shownJob(i)
}

// shownRuleTo shows a rule, and of the queues that ask it those of who asks.
func shownRuleTo(ctx context.Context) func(*rules.Info) wire.Rule {
	return func(i *rules.Info) wire.Rule {
		r := shownRule(i)
		r.Queues = ownNames(ctx, r.Queues)
		return r
	}
}
