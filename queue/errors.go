package queue

import (
	"context"
	"errors"
	"time"
)

// Errors that engines return, wrapped with the identifier they concern.
var (
	// ErrUnknownQueue: no queue has that name.
	ErrUnknownQueue = errors.New("unknown queue")
	// ErrUnknownJob: the queue neither holds nor remembers a job of that id.
	ErrUnknownJob = errors.New("unknown job")
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
