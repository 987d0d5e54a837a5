package queue

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors that engines return, wrapped with the identifier they concern.
var (
	// ErrUnknownQueue: no queue has that name.
	ErrUnknownQueue = errors.New("unknown queue")
	// ErrUnknownJob: the queue neither holds nor remembers a job of that id.
	ErrUnknownJob = errors.New("unknown job")
	// ErrUnknownRule: no rule has that name.
	ErrUnknownRule = errors.New("unknown rule")
	// ErrUnknownDocument: no document has that name.
	ErrUnknownDocument = errors.New("unknown document")
	// ErrRuleInUse: a queue of the rule's group asks it.
	ErrRuleInUse = errors.New("queues ask this rule: take it out of their rules first")
	// ErrRevision: the queue or rule is not at the revision that the change expected.
	ErrRevision = errors.New("it has changed since it was read")
	// ErrNotEmpty: the queue still holds jobs, and deleting them was not asked for.
	ErrNotEmpty = errors.New("the queue still holds jobs")
	// ErrHasChildren: the queue is the parent of others, which its rate bounds.
	ErrHasChildren = errors.New("the queue has children, which its rate bounds: delete those first")
	// ErrOutcomeUnknown: the caller gave up, or the engine could not be reached,
	// while the change was under way. It may or may not have happened. Asking
	// again with the same ids is safe.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrUnavailable: the engine cannot be reached; nothing was changed.
	ErrUnavailable = errors.New("the store cannot be reached")
	// ErrNoStore: the server was reached, but it is not a Penstock store: it was
	// never initialised, or it was flushed.
	ErrNoStore = errors.New("not a penstock store")
	// ErrStoreFull: the store is out of memory or disk; nothing was changed.
	// What frees room goes on working.
	ErrStoreFull = errors.New("the store is out of space")
	// ErrCorrupt: a key or record is not what Penstock wrote. What it concerns
	// is left as it is.
	ErrCorrupt = errors.New("the store holds something that is not ours")
	// ErrClosed: the engine was closed.
	ErrClosed = errors.New("the engine is closed")
)

// GaveUp reports whether it is the caller who has given up, when an engine did not answer him: a connection notices
// his deadline a moment before ctx does.
func GaveUp(ctx context.Context) bool {
	deadline, has := ctx.Deadline()
	return ctx.Err() != nil || has && !time.Now().Before(deadline)
}

// FieldError is an input that cannot be used: the field, the value as far as it
// can be shown, and what would be right.
type FieldError struct {
	Field  string // as written in the API, such as "retry.max_attempts"
	Value  string // shortened; empty when it says nothing
	Reason string // what is wrong and what to do
}

func (e *FieldError) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("%s: %s", e.Field, e.Reason)
	}
	return fmt.Sprintf("%s: %s: %s", e.Field, e.Value, e.Reason)
}

// FieldErrorf returns a FieldError. What is long of the value is cut.
func FieldErrorf(field, value, reason string, args ...any) *FieldError {
	e := &FieldError{Field: field, Reason: fmt.Sprintf(reason, args...)}
	if value != "" {
		e.Value = Shorten(value, 80)
	}
	return e
}

// ofField makes an error, if it is one, that of a field.
func ofField(field string, err error) error {
	if err == nil {
		return nil
	}
	return FieldErrorf(field, "", "%v", err)
}

// Shorten quotes s for an error message, cut to about n bytes, with the true
// length when it was cut.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%q... (%d bytes)", s[:n], len(s))
}
