package httpio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

// Retry-After where the engine does not know better.
const (
	RetryUnavailable = time.Second
	RetryOverloaded  = time.Second
	retryStoreFull   = 5 * time.Second
	retryMissing     = 5 * time.Second
)

// ChangedSince is the detail of revision_mismatch.
const ChangedSince = "it has changed since it was read; get it and try again"

// errorProblems maps errors of an engine to problems. The first match counts. If its Detail is empty, the problem gets
// the text of the error.
var errorProblems = []struct {
	err     error
	problem Problem
}{
	{queue.ErrOutcomeUnknown, Problem{
		Reason: ReasonOutcomeUnknown, RetryAfter: RetryUnavailable,
		Detail: "the store did not answer in time, so the request may or may not have been executed; repeating it with " +
			"the same id is safe",
	}},
	{deferred.ErrUnavailable, Problem{
		Reason: ReasonOverflowAway, RetryAfter: RetryUnavailable,
		Detail: "the job would be deferred, but the overflow is unreachable or cannot store it; nothing " +
			"was changed",
	}},
	{queue.ErrUnknownQueue, Problem{Reason: ReasonUnknownQueue}},
	{queue.ErrUnknownJob, Problem{
		Reason: ReasonUnknownJob, Detail: "the queue has no job with this id",
	}},
	{rules.ErrUnknown, Problem{Reason: ReasonUnknownRule}},
	{rules.ErrInUse, Problem{
		Reason: ReasonRuleInUse, Detail: "queues use this rule; GET lists them. First remove the rule from their rules",
	}},
	{queue.ErrRevision, Problem{Reason: ReasonRevision, Detail: ChangedSince, Revision: -1}},
	{queue.ErrHasChildren, Problem{
		Reason: ReasonHasChildren, Detail: "the queue has children; delete those first",
	}},
	{queue.ErrNotEmpty, Problem{
		Reason: ReasonNotEmpty, Detail: "the queue still has jobs; delete it with ?force=true to discard them",
	}},
	{queue.ErrStoreFull, Problem{
		Reason: ReasonStoreFull, RetryAfter: retryStoreFull,
		Detail: "the store is out of memory or disk, or nearly so; nothing was changed, and requests that free space " +
			"still work",
	}},
	{queue.ErrNoStore, Problem{
		Reason: ReasonNoStore, RetryAfter: retryStoreFull,
		Detail: "the server has no Penstock store: it was never initialized, or it was flushed; nothing " +
			"was changed",
	}},
	{queue.ErrUnavailable, Problem{
		Reason: ReasonUnavailable, RetryAfter: RetryUnavailable, Detail: "the store is unreachable; nothing was changed",
	}},
	{queue.ErrClosed, givenUp},
	{context.Canceled, givenUp},
	{context.DeadlineExceeded, givenUp},
	{queue.ErrCorrupt, Problem{
		Reason: ReasonInternal, Detail: "the store contains foreign or corrupt data here, which was left unchanged; see " +
			"the log",
	}},
}

var givenUp = Problem{
	Reason: ReasonStopping, RetryAfter: RetryUnavailable, Detail: "the request was canceled before anything was changed",
}

// ProblemOf returns the problem for an error of an engine or an Authority.
func ProblemOf(err error) *Problem {
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
		return InvalidField(field)
	case errors.As(err, &none):
		return unknownDocument(none)
	}
	for _, row := range errorProblems {
		if errors.Is(err, row.err) {
			p := row.problem
			p.Detail = cmp.Or(p.Detail, err.Error())
			return &p
		}
	}
	return &Problem{Reason: ReasonInternal, Detail: "unexpected error, see the log"}
}

// InvalidField returns the problem for an invalid value.
func InvalidField(e *invalid.Error) *Problem {
	detail := e.Reason
	if e.Value != "" && e.Value != `""` {
		detail = e.Value + ": " + e.Reason
	}
	return BadField(e.Field, detail)
}

// JobProblem returns the problem for a job that was not accepted. name is its queue.
func JobProblem(a *queue.Appended, name, id string) *Problem {
	r := a.Outcome.Refusal()
	if r == nil {
		return ofJob(ProblemOf(a.Err), id)
	}
	p := &Problem{Reason: r, Field: r.Field, Detail: r.Detail}
	if r.Status == http.StatusTooManyRequests {
		p.RetryAfter, p.Bytes = max(a.RetryAfter, time.Millisecond), a.Bytes
	}
	switch {
	case a.Outcome == queue.UnknownQueue:
		p = UnknownQueue(name)
	case a.Outcome == queue.LimitReached:
		p = limitedJob(a)
	case a.Outcome == queue.OverflowFull && limitedBy(a) != nil:
		p.Ruled = limitedBy(a)
		p.Detail = "the rule " + p.Ruled.Rule + " would defer the job, but the queue already has its maximum number of " +
			"deferred jobs; retry after retry_after_ms, when room is expected"
	case a.Outcome == queue.Lapsed && !a.ETA.At.IsZero():
		p.ETA, p.Detail = a.ETA, "would pass before the job departs: the job was not accepted"
	case a.Outcome == queue.Full && a.Bytes.Max > 0:
		p.Detail = "the queue is full" + ofBytes(a.Bytes) + "; retry after retry_after_ms, when room is expected"
	case a.Outcome == queue.LaneFull && a.Bytes.Max > 0:
		p.Detail = "the job's lane is full" + ofBytes(a.Bytes) + "; retry after retry_after_ms"
	}
	return ofJob(p, id)
}

// ofJob adds the job's id to a problem, unless the id is too long to be one.
func ofJob(p *Problem, id string) *Problem {
	if len(id) <= names.MaxIDBytes {
		p.ID = id
	}
	return p
}

func ofBytes(b queue.ByteBound) string {
	return fmt.Sprintf(": it holds %d of %d bytes (max_bytes), and the job needs %d", b.Held, b.Max, b.Needs)
}

// UnknownQueue returns the problem for a queue that does not exist.
func UnknownQueue(name string) *Problem {
	detail := "there is no queue " + clip.Quote(name, 80)
	if names.Validate(name) == nil {
		detail += "; PUT /v1/queues/" + name + " creates it"
	}
	return &Problem{Reason: ReasonUnknownQueue, Detail: detail}
}

// UnknownRule returns the problem for a rule that does not exist.
func UnknownRule(name string) *Problem {
	detail := "there is no rule " + clip.Quote(name, 80)
	if rules.ValidateName(name) == nil {
		detail += "; PUT /v1/rules/" + name + " creates it"
	}
	return &Problem{Reason: ReasonUnknownRule, Detail: detail}
}

// unknownDocuments says, for each kind of document, the reason and the request that creates one. If the request ends
// with a slash, the name follows.
var unknownDocuments = map[string]struct {
	reason  Reason
	creates string
}{
	auth.KindApp:     {ReasonUnknownApp, "PUT /v1/apps/"},
	auth.KindToken:   {ReasonUnknownToken, "POST /v1/tokens"},
	auth.KindSubject: {ReasonUnknownSubject, "PUT /v1/subjects/"},
}

func unknownDocument(e *document.Missing) *Problem {
	row, ok := unknownDocuments[e.Kind]
	if !ok {
		return &Problem{Reason: ReasonNotFound, Detail: e.Error()}
	}
	detail := "there is no " + e.Kind + " " + clip.Quote(e.Name, 80)
	switch {
	case !strings.HasSuffix(row.creates, "/"):
		detail += "; " + row.creates + " creates one"
	case e.Name != "" && len(e.Name) <= document.MaxNameBytes:
		detail += "; " + row.creates + url.PathEscape(e.Name) + " creates it"
	}
	return &Problem{Reason: row.reason, Detail: detail}
}

// LimitReached returns the problem for a ruling that refuses. what names what is refused, as in "the job".
func LimitReached(r *rules.Ruling, what string) *Problem {
	return &Problem{
		Reason: ReasonLimitReached, Ruled: r, RetryAfter: max(r.RetryAfter, time.Millisecond),
		Detail: admission.Refusal(r.Rule, what, r.Away, r.MaxKeys),
	}
}

// limitedBy returns the ruling that refused a job, or nil. If several rules refuse it, the longest wait counts.
func limitedBy(a *queue.Appended) *rules.Ruling {
	name, _, limited := rules.Limited(a.Rules)
	for i := range a.Rules {
		if limited && a.Rules[i].Rule == name {
			r := a.Rules[i]
			return &r
		}
	}
	return nil
}

func limitedJob(a *queue.Appended) *Problem {
	r := limitedBy(a)
	if r == nil {
		r = &rules.Ruling{}
	}
	r.RetryAfter = max(r.RetryAfter, a.RetryAfter)
	return LimitReached(r, "the job")
}
