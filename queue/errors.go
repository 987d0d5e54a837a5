package queue

import (
	"context"
	"errors"
	"time"
)

// Errors that engines return, wrapped with the identifier they concern.
var (
	// ErrUnknownQueue means that no queue has that name.
	ErrUnknownQueue = errors.New("unknown queue")
	// ErrUnknownJob means that the queue neither holds nor remembers a job with that id.
	ErrUnknownJob = errors.New("unknown job")
	// ErrRevision means that the queue or rule is not at the expected revision.
	ErrRevision = errors.New("it has changed since it was read")
	// ErrNotEmpty means that the queue still holds jobs and the caller did not ask to delete them.
	ErrNotEmpty = errors.New("the queue still holds jobs")
	// ErrHasChildren means that the queue is a parent, whose rate bounds its children.
	ErrHasChildren = errors.New("the queue has children, and its rate bounds them: delete the children first")
	// ErrOutcomeUnknown means that the caller gave up, or the engine could not be reached, during the change. The
	// change may or may not have happened. Each method of Engine says what repeating it does.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrUnavailable means that the engine cannot be reached; nothing was changed.
	ErrUnavailable = errors.New("the store cannot be reached")
	// ErrNoStore means that the server answers but is not a Penstock store: it was never initialized, or it was
	// flushed.
	ErrNoStore = errors.New("not a penstock store")
	// ErrStoreFull means that the store is out of memory or disk; nothing was changed. Calls that free room still
	// work.
	ErrStoreFull = errors.New("the store is out of space")
	// ErrCorrupt means that a key or record is not what Penstock wrote. It is left as it is.
	ErrCorrupt = errors.New("the store holds something that is not ours")
	// ErrClosed means that the engine was closed.
	ErrClosed = errors.New("the engine is closed")
)

// GaveUp reports whether the caller has given up, rather than the engine failing to answer. A connection notices the
// deadline a moment before ctx does.
func GaveUp(ctx context.Context) bool {
	deadline, has := ctx.Deadline()
	return ctx.Err() != nil || has && !time.Now().Before(deadline)
}
