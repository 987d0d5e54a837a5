package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

// When to come back from what the engine cannot say anything better about.
const (
	retryUnavailable = time.Second
	retryStoreFull   = 5 * time.Second
	retryOverloaded  = time.Second
	retryMissing     = 5 * time.Second
)

const changedSince = "it has changed since it was read; get it and try again"

// errorProblems are what is answered for errors of an engine; of several that fit, the first is. One without Detail is
// told by the error's own text.
var errorProblems = []struct {
	err     error
	problem Problem
}{
	{queue.ErrOutcomeUnknown, Problem{
		Reason: ReasonOutcomeUnknown, RetryAfter: retryUnavailable,
		Detail: "the store did not answer in time: this may or may not have happened; repeating it with the same id is safe",
	}},
	{deferred.ErrUnavailable, Problem{
		Reason: ReasonOverflowAway, RetryAfter: retryUnavailable,
		Detail: "the job would have to wait on the overflow, which cannot be reached, or cannot store anything; nothing " +
			"was changed",
	}},
	{queue.ErrUnknownQueue, Problem{Reason: ReasonUnknownQueue}},
	{queue.ErrUnknownJob, Problem{
		Reason: ReasonUnknownJob, Detail: "the queue neither holds nor remembers a job of this id",
	}},
	{rules.ErrUnknown, Problem{Reason: ReasonUnknownRule}},
	{rules.ErrInUse, Problem{
		Reason: ReasonRuleInUse, Detail: "queues ask this rule, and GET tells which: take it out of their rules first",
	}},
	{queue.ErrRevision, Problem{Reason: ReasonRevision, Detail: changedSince, Revision: -1}},
	{queue.ErrHasChildren, Problem{
		Reason: ReasonHasChildren, Detail: "the queue is the parent of others, which its rate bounds; delete those first",
	}},
	{queue.ErrNotEmpty, Problem{
		Reason: ReasonNotEmpty, Detail: "the queue still holds jobs; delete it with ?force=true to lose them",
	}},
	{queue.ErrStoreFull, Problem{
		Reason: ReasonStoreFull, RetryAfter: retryStoreFull,
		Detail: "the store is out of memory or disk, or nearly so: nothing was changed, and what frees some still works",
	}},
	{queue.ErrNoStore, Problem{
		Reason: ReasonNoStore, RetryAfter: retryStoreFull,
		Detail: "the server was reached but holds no Penstock store: it was never initialised, or it was flushed; nothing " +
			"was changed",
	}},
	{queue.ErrUnavailable, Problem{
		Reason: ReasonUnavailable, RetryAfter: retryUnavailable, Detail: "the store cannot be reached; nothing was changed",
	}},
	{queue.ErrClosed, givenUp},
	{context.Canceled, givenUp},
	{context.DeadlineExceeded, givenUp},
	{queue.ErrCorrupt, Problem{
		Reason: ReasonInternal, Detail: "the store holds something here that is not Penstock's; it was left as it is, see " +
			"the log",
	}},
}

var givenUp = Problem{
	Reason: ReasonStopping, RetryAfter: retryUnavailable, Detail: "the request was given up before anything was changed",
}

// refused turns an engine's error into what is answered for it.
func refused(err error) *Problem {
	var field *invalid.Error
	var missing *ruleset.Missing
	var none *document.Missing
	var p *Problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &missing):
		return &Problem{
			Reason: ReasonRuleMissing, Rule: missing.Rule, RetryAfter: retryMissing,
			Detail: missing.Error() + "; nothing was changed",
		}
	case errors.As(err, &field):
		return refusedField(field)
	case errors.As(err, &none):
		return unknownDocument(none)
	}
	for _, row := range errorProblems {
		if errors.Is(err, row.err) {
			told := row.problem
			told.Detail = cmp.Or(told.Detail, err.Error())
			return &told
		}
	}
	return &Problem{Reason: ReasonInternal, Detail: "unexpected error, see the log"}
}

func refusedField(e *invalid.Error) *Problem {
	detail := e.Reason
	if e.Value != "" && e.Value != `""` {
		detail = e.Value + ": " + e.Reason
	}
	return &Problem{Reason: ReasonInvalidField, Field: e.Field, Detail: detail}
}

// refusedJob is what is answered for a job that was not accepted.
func refusedJob(a *queue.Appended, name, id string) *Problem {
	r := a.Outcome.Refusal()
	if r == nil {
		return ofJob(refused(a.Err), id)
	}
	p := &Problem{Reason: r, Field: r.Field, Detail: r.Detail}
	if r.Status == http.StatusTooManyRequests {
		p.RetryAfter, p.Bytes = max(a.RetryAfter, time.Millisecond), a.Bytes
	}
	switch {
	case a.Outcome == queue.UnknownQueue:
		p = unknownQueue(name)
	case a.Outcome == queue.LimitReached:
		p = limitedJob(a)
	case a.Outcome == queue.OverflowFull && limitedBy(a) != nil:
		p.Ruled = limitedBy(a)
		p.Detail = "the rule " + p.Ruled.Rule + " would have the job wait, and as many of the queue's jobs are deferred as " +
			"may be; retry_after_ms is when room is expected for you"
	case a.Outcome == queue.Lapsed && !a.ETA.At.IsZero():
		p.ETA, p.Detail = a.ETA, "will have passed when the job would depart: the job was not taken"
	case a.Outcome == queue.Full && a.Bytes.Max > 0:
		p.Detail = "the queue is full" + ofBytes(a.Bytes) + "; retry_after_ms is when room is expected for you"
	case a.Outcome == queue.LaneFull && a.Bytes.Max > 0:
		p.Detail = "the job's lane is full" + ofBytes(a.Bytes) +
			", whatever room the queue has; retry_after_ms is when to come back"
	}
	return ofJob(p, id)
}

// ofJob names the job, unless its id is none.
func ofJob(p *Problem, id string) *Problem {
	if len(id) <= names.MaxIDBytes {
		p.ID = id
	}
	return p
}

// ofBytes says how a bound in bytes leaves no room.
func ofBytes(b queue.ByteBound) string {
	return fmt.Sprintf(": it holds %d of %d bytes (max_bytes), and the job needs %d", b.Held, b.Max, b.Needs)
}

func unknownQueue(name string) *Problem {
	return &Problem{
		Reason: ReasonUnknownQueue,
		Detail: "there is no queue " + clip.Quote(name, 80) + "; PUT /v1/queues/{queue} makes one",
	}
}
