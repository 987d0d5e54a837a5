package queue

import (
	"context"
	"time"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/series"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/rules"
)

// Horizon is H: how far ahead of its clock an engine grants departures. It is the same for every store, so the window
// law holds no matter which process granted what.
const Horizon = 50 * time.Millisecond

// Engine is everything a store offers. Depend on the smaller interfaces where they suffice.
//
// All methods are safe for concurrent use. They block until the engine has decided or ctx ends. Methods that only read
// may be repeated; every other method documents what repeating it does. Unless a method says otherwise, its errors
// wrap ErrUnavailable, ErrOutcomeUnknown, ErrNoStore, ErrStoreFull, ErrCorrupt or ErrClosed.
type Engine interface {
	Appender
	Outflow
	Specs
	Watch
	ChangeLog
	Jobs
	Overflow
	Rules
	Taker
	document.Documents
	series.Samples
	audit.Log
	Store
}

// Appender accepts jobs.
type Appender interface {
	// Append decides each job on its own and returns one Appended per job, in the same order. Jobs of one queue enter
	// in the order given. Repeating a call is safe: a job that is already in answers Duplicate.
	//
	// A job that could not be decided answers Failed. Append returns an error only if it decided no job at all; the
	// answers, if any, then have each job's own error. The caller must not change the payloads before Append returns,
	// and never after ErrOutcomeUnknown.
	Append(ctx context.Context, jobs []Job) ([]Appended, error)
}

// Outflow releases jobs. Drainers use it.
type Outflow interface {
	// Partitions returns the number of independent parts of the store, at least 1. A queue lives in one of them, and a
	// drainer reserves from each. The call does no I/O.
	Partitions() int
	// Reserve grants a client departures within the Horizon. It first takes back leases that ran out and ends jobs that
	// have expired. Repeating a request (the same Client.ID, Partition and Number) grants nothing more and returns the
	// earlier answer, with Reservation.In counted anew. So a lost reply loses no job. A client sends a partition one
	// request at a time, with growing numbers. Errors also: an *invalid.Error; see ReserveRequest.Queue.
	Reserve(ctx context.Context, r ReserveRequest) (Reserved, error)
	// ReadSpecs returns the specs and revisions of queues, in no particular order and without queues that do not
	// exist. It costs a fraction of a Get per queue.
	ReadSpecs(ctx context.Context, names []string) ([]KeptSpec, error)
	// Settle ends leases, each on its own, and answers in the same order. The same settlement twice gets the same
	// answer; a stale fence changes nothing.
	Settle(ctx context.Context, s []Settlement) ([]Settled, error)
	// Extend moves the deadlines of leases to now plus the current lease of their queue, never backwards, and answers
	// in the same order. Whenever attempts of a queue stay unanswered for another Circuit.Slow, the first call to
	// notice counts one failure for the circuit. It may be repeated.
	Extend(ctx context.Context, leases []Lease) ([]Extended, error)
	// Wake delivers wake-ups for work that is due before the time Reserve named. The channel is closed when ctx ends.
	// It may miss some and deliver too many.
	Wake(ctx context.Context) <-chan Wakeup
	// Sweep frees a bounded part of what deleted queues left behind and reports whether there is more.
	// Reserved.Garbage says when to call it. It may be repeated.
	Sweep(ctx context.Context, partition int) (more bool, err error)
}

// SpecReader looks up queues.
type SpecReader interface {
	// Get returns a queue with its statistics. Errors also: ErrUnknownQueue.
	Get(ctx context.Context, name string) (Info, error)
}

// Specs creates, changes and deletes queues.
type Specs interface {
	SpecReader
	// Lane returns a queue as Get does, and one of its lanes, which may be empty. Errors also: ErrUnknownQueue, an
	// *invalid.Error.
	Lane(ctx context.Context, name, key string) (Info, LaneInfo, error)
	// Lineup returns a queue as Get does, with what waits in it. Errors also: ErrUnknownQueue.
	Lineup(ctx context.Context, name string) (Lineup, error)
	// Lanes returns a page of the lanes of a queue that have waiting jobs. Errors also: ErrUnknownQueue, an
	// *invalid.Error.
	Lanes(ctx context.Context, r LanesRequest) (LanesPage, error)
	// List returns up to limit queues as Get does, sorted by name, starting after the name given.
	List(ctx context.Context, after string, limit int) ([]Info, error)
	// Put creates a queue or changes its spec. The argument expect is the revision the queue must be at: 0 means that the
	// queue must not exist, AnyRevision skips the check. An equal spec changes nothing and keeps the revision, so Put may
	// be repeated with AnyRevision. With another expect, repeating a Put that changed the queue returns ErrRevision.
	// Errors also: an *invalid.Error, ErrRevision (the result then has the present revision, 0 if the queue does not
	// exist).
	Put(ctx context.Context, spec Spec, expect int64) (PutResult, error)
	// Delete deletes a queue. Without force it leaves a queue with jobs alone and returns ErrNotEmpty. A parent with
	// children is never deleted: ErrHasChildren. A repetition returns ErrUnknownQueue; with AnyRevision it deletes a
	// queue of the name that was created meanwhile. Errors also: ErrUnknownQueue, ErrRevision.
	Delete(ctx context.Context, name string, expect int64, force bool) error
	// Pause stops a queue's departures; jobs already granted still leave. Only Reason and Until of p are used. A pause
	// replaces an earlier one; an equal pause changes nothing, so it may be repeated. Errors also: ErrUnknownQueue, an
	// *invalid.Error.
	Pause(ctx context.Context, name string, p Pause) error
	// Resume restarts departures at the queue's rate; nothing was saved up. It overrides the receiver too: it ends a
	// Stop and closes an open circuit. It may be repeated. Errors also: ErrUnknownQueue.
	Resume(ctx context.Context, name string) error
	// Throttle stops a queue because its receiver asked for a delay, as a settlement with the verdict Throttle does, and
	// returns until when the queue stops. It never ends a stop that lasts longer, and may be repeated. A stop lasts at
	// most MaxStop. Errors also: ErrUnknownQueue; an *invalid.Error if after is not positive, or the queue has children.
	Throttle(ctx context.Context, queue string, after time.Duration, reason string) (until time.Time, err error)
}

// Watch is for programs that look at all queues again and again, such as metrics.
type Watch interface {
	// Readings returns a Reading of each queue, in no particular order. It costs a fraction of a List: one call per
	// thousand queues of a partition, and a few numbers per queue.
	Readings(ctx context.Context) ([]Reading, error)
	// GetMany returns queues as Get does, in no particular order and without queues that do not exist.
	GetMany(ctx context.Context, names []string) ([]Info, error)
}

// ChangeLog lists changes to queues and rules, and rolls them back.
type ChangeLog interface {
	// Changes returns a page of the changes to a queue or rule, even to a deleted one. Errors also: an *invalid.Error,
	// and ErrUnknownQueue or rules.ErrUnknown if the name does not exist and nothing is recorded under it.
	Changes(ctx context.Context, r ChangesRequest) (ChangesPage, error)
	// History returns the specs that a queue had, even of a deleted one. Errors also: ErrUnknownQueue.
	History(ctx context.Context, name string) (History, error)
	// Rollback puts the spec of an earlier revision again; 0 means the spec before the last change. A deleted queue is
	// created again. expect is as in Put. With a revision it may be repeated. With 0 and AnyRevision, a repetition undoes
	// it. Errors also: as Put, ErrUnknownQueue, an *UnknownRevision.
	Rollback(ctx context.Context, name string, revision, expect int64) (PutResult, error)
}

// Store looks at the store as a whole.
type Store interface {
	// Totals sums up the whole store. It is cheap no matter how many queues there are.
	Totals(ctx context.Context) (Totals, error)
	// Space returns how full the store is; of several servers, the fullest.
	Space(ctx context.Context) (Space, error)
	// Drainers returns the clients that drain the store.
	Drainers(ctx context.Context) (Drainers, error)
	// Check reports whether the store answers and is in order. Every process that uses the engine bases its readiness
	// on it.
	Check(ctx context.Context) error
	// Close ends the engine's goroutines and connections. Calls in progress end with ErrOutcomeUnknown or ErrClosed. A
	// second Close does nothing.
	Close() error
}

// FirstRevision is the start of 2026. Revisions count milliseconds from it.
const FirstRevision = leaky.Instant(1767225600_000000)

// AnyRevision as an expected revision matches every revision, and a queue that does not exist.
const AnyRevision = -1

// Appended is the answer to one appended job.
type Appended struct {
	Outcome AppendOutcome
	ID      string
	// State is where the job is. Set for Accepted, Duplicate and SetAside.
	State State
	// Position counts from 1, the next job of its lane to leave. Set for Accepted and Duplicate while the job waits,
	// and for SetAside, where it counts every job in the queue and deferred.
	Position int64
	// ETA is the expected departure. Set for Accepted while the job waits or is scheduled, for SetAside, and for Lapsed
	// if the job would expire before it.
	ETA ETA
	// Ticket names the deferral, and At is its time on the engine's clock. Set for SetAside, and for Duplicate if the
	// job is deferred.
	Ticket Ticket
	At     time.Time
	// RetryAfter is when room is expected for this caller. Refused callers get instants one interval apart, so they do
	// not all come back at once.
	RetryAfter time.Duration
	// Bytes says which bound in bytes refused the job. Set for Full and LaneFull.
	Bytes ByteBound
	// Rules has the rulings of the rules of this group that the parent and the queue name, the parent's first. Set for
	// Accepted, SetAside, LimitReached, and refusals after the rules were asked. Empty if the queue has no rules.
	Rules []rules.Ruling
	Err   error
}

// ETA is an expected departure. It is Exact when only the pace of this queue decides it.
type ETA struct {
	At    time.Time `json:"at"`
	Exact bool      `json:"exact"`
}

// Verdict is how a lease ends.
type Verdict uint8

// The verdicts of Settle.
const (
	Deliver  Verdict = iota + 1 // delivered
	Fail                        // try again After; spends an attempt; after the last one the job is dead
	Bury                        // dead at once
	Release                     // given back unused: keeps its turn, spends no attempt
	Hold                        // may have been sent: Held until a person decides; spends an attempt
	Throttle                    // the receiver asked to wait for After: keeps its turn, spends no attempt
	Down                        // the target is down and got nothing: keeps its turn, spends no attempt
)

func (v Verdict) String() string {
	return [...]string{"", "delivered", "retry", "dead", "released", "held", "throttled", "down"}[v]
}

// Settlement ends one lease.
type Settlement struct {
	Lease
	Verdict Verdict
	// After is the backoff of a Fail. For a Throttle or Deliver it is how long nothing may leave the queue, at most
	// MaxStop: a receiver may accept a job and still ask for a pause.
	After time.Duration
	// Untold says that the receiver of a Throttle named no time, or less than a second: the queue stops for
	// ThrottleStop of After.
	Untold bool
	// NoTarget says that a Throttle asked no receiver because the queue has no target. The queue stops with
	// StopNoTarget, and its rate does not adapt.
	NoTarget bool
	// Unused says that the job of a Down did not start. Its departure and quota are given back as with a Release,
	// unless the queue's circuit is off.
	Unused bool
	// LaneOnly says that a Throttle concerns only the job's lane.
	LaneOnly bool
	// Trouble says that a Fail or Hold was the target's fault, not the job's: the circuit counts it. It always counts
	// a Down.
	Trouble bool
	// Actual is what the job has used, by unit. It replaces the charge; units left out keep theirs.
	Actual map[string]int64
	// Budget is the receiver's remaining budget, for a queue that learns.
	Budget Budget
	Reason string // for display, cut to MaxReasonBytes; unused by Release; for Deliver, why the queue stops
}

// MaxReasonBytes is the maximum length of a stored reason, in bytes.
const MaxReasonBytes = 512

// Wakeup says that a partition or a pull queue has work due before any client would ask.
type Wakeup struct {
	Partition int
	// Client is the client that should ask now; others ask after Reserved.Backup. Empty means that all should ask now.
	Client string
	// Queue is the pull queue with work due. It then concerns all clients that ask for this queue, and no drainer.
	Queue string
}

// PutResult is the result of a Put.
type PutResult struct {
	Revision int64
	Created  bool
	Changed  bool // false if the spec was the same
}
