package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/queue"
)

// When to come back from what the engine cannot say anything better about.
const (
	retryUnavailable = time.Second
	retryStoreFull   = 5 * time.Second
	retryOverloaded  = time.Second
	retryMissing     = 5 * time.Second
)

const changedSince = "it has changed since it was read; get it and try again"

// refused turns an engine's error into what is answered for it.
func refused(err error) *Problem {
	var field *queue.FieldError
	var missing *queue.MissingRule
	var p *Problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &missing):
		return &Problem{Reason: ReasonRuleMissing, Rule: missing.Rule, RetryAfter: retryMissing, Detail: missing.Error() + "; nothing was changed"}
	case errors.As(err, &field):
		return refusedField(field)
	case errors.Is(err, queue.ErrOutcomeUnknown):
		return &Problem{
			Reason: ReasonOutcomeUnknown, RetryAfter: retryUnavailable,
			Detail: "the store did not answer in time: this may or may not have happened; repeating it with the same id is safe",
		}
	case errors.Is(err, deferred.ErrUnavailable):
		return &Problem{
			Reason: ReasonOverflowAway, RetryAfter: retryUnavailable,
			Detail: "the job would have to wait on the overflow, which cannot be reached, or cannot store anything; nothing was changed",
		}
	case errors.Is(err, queue.ErrUnknownQueue):
		return &Problem{Reason: ReasonUnknownQueue, Detail: err.Error()}
	case errors.Is(err, queue.ErrUnknownJob):
		return &Problem{Reason: ReasonUnknownJob, Detail: "the queue neither holds nor remembers a job of this id"}
	case errors.Is(err, queue.ErrUnknownRule):
		return &Problem{Reason: ReasonUnknownRule, Detail: err.Error()}
	case errors.Is(err, queue.ErrRuleInUse):
		return &Problem{Reason: ReasonRuleInUse, Detail: "queues ask this rule, and GET tells which: take it out of their rules first"}
	case errors.Is(err, queue.ErrRevision):
		return &Problem{Reason: ReasonRevision, Detail: changedSince, Revision: -1}
	case errors.Is(err, queue.ErrHasChildren):
		return &Problem{Reason: ReasonHasChildren, Detail: "the queue is the parent of others, which its rate bounds; delete those first"}
	case errors.Is(err, queue.ErrNotEmpty):
		return &Problem{Reason: ReasonNotEmpty, Detail: "the queue still holds jobs; delete it with ?force=true to lose them"}
	case errors.Is(err, queue.ErrStoreFull):
		return &Problem{
			Reason: ReasonStoreFull, RetryAfter: retryStoreFull,
			Detail: "the store is out of memory or disk, or nearly so: nothing was changed, and what frees some still works",
		}
	case errors.Is(err, queue.ErrNoStore):
		return &Problem{
			Reason: ReasonNoStore, RetryAfter: retryStoreFull,
			Detail: "the server was reached but holds no Penstock store: it was never initialised, or it was flushed; nothing was changed",
		}
	case errors.Is(err, queue.ErrUnavailable):
		return &Problem{Reason: ReasonUnavailable, RetryAfter: retryUnavailable, Detail: "the store cannot be reached; nothing was changed"}
	case errors.Is(err, queue.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &Problem{Reason: ReasonStopping, RetryAfter: retryUnavailable, Detail: "the request was given up before anything was changed"}
	case errors.Is(err, queue.ErrCorrupt):
		return &Problem{Reason: ReasonInternal, Detail: "the store holds something here that is not Penstock's; it was left as it is, see the log"}
	}
	return &Problem{Reason: ReasonInternal, Detail: "unexpected error, see the log"}
}

func refusedField(e *queue.FieldError) *Problem {
	detail := e.Reason
	if e.Value != "" && e.Value != `""` {
		detail = e.Value + ": " + e.Reason
	}
	return &Problem{Reason: ReasonInvalidField, Field: e.Field, Detail: detail}
}

// refusedJob is what is answered for a job that was not accepted.
func refusedJob(a *queue.Appended, name, id string) *Problem {
	var p *Problem
	switch a.Outcome {
	case queue.Conflict:
		p = &Problem{
			Reason: ReasonConflict, Field: "id",
			Detail: "the queue has or had a job of this id with another payload, content type, lane or cost; nothing was changed",
		}
	case queue.Full:
		p = &Problem{
			Reason: ReasonFull, RetryAfter: max(a.RetryAfter, time.Millisecond), Bytes: a.Bytes,
			Detail: "the queue is full" + ofBytes(a.Bytes) + "; retry_after_ms is when room is expected for you",
		}
	case queue.OverflowFull:
		p = &Problem{
			Reason: ReasonOverflowFull, RetryAfter: max(a.RetryAfter, time.Millisecond),
			Detail: "the queue has no room, and as many of its jobs are deferred as may be; retry_after_ms is when room is expected for you",
		}
		if p.Ruled = limitedBy(a); p.Ruled != nil {
			p.Detail = "the rule " + p.Ruled.Rule + " would have the job wait, and as many of the queue's jobs are deferred as may be; retry_after_ms is when room is expected for you"
		}
	case queue.LaneFull:
		p = &Problem{
			Reason: ReasonLaneFull, Field: "lane", RetryAfter: max(a.RetryAfter, time.Millisecond), Bytes: a.Bytes,
			Detail: "the job's lane has as many jobs as it may, whatever room the queue has; retry_after_ms is when to come back",
		}
		if a.Bytes.Max > 0 {
			p.Detail = "the job's lane is full" + ofBytes(a.Bytes) + ", whatever room the queue has; retry_after_ms is when to come back"
		}
	case queue.ScheduleFull:
		p = &Problem{
			Reason: ReasonScheduleFull, Field: "not_before", RetryAfter: max(a.RetryAfter, time.Millisecond),
			Detail: "as many jobs of the queue are scheduled as may be; retry_after_ms is when the first of them is due",
		}
	case queue.LimitReached:
		p = limitedJob(a)
	case queue.Lapsed:
		p = &Problem{Reason: ReasonExpired, Field: "expires_at", Detail: "has passed: the job was not taken"}
		if !a.ETA.At.IsZero() {
			p.ETA, p.Detail = a.ETA, "will have passed when the job would depart: the job was not taken"
		}
	case queue.UnknownQueue:
		p = unknownQueue(name)
	default:
		p = refused(a.Err)
	}
	if len(id) <= queue.MaxIDBytes {
		p.ID = id
	}
	return p
}

// ofBytes says how a bound in bytes leaves no room; nothing if none does.
func ofBytes(b queue.ByteBound) string {
	if b.Max == 0 {
		return ""
	}
	return fmt.Sprintf(": it holds %d of %d bytes (max_bytes), and the job needs %d", b.Held, b.Max, b.Needs)
}

func unknownQueue(name string) *Problem {
	return &Problem{Reason: ReasonUnknownQueue, Detail: "there is no queue " + queue.Shorten(name, 80) + "; PUT /v1/queues/{queue} makes one"}
}
