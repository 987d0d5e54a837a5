package queue

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/rules"
)

// Horizon is H: how far ahead of its clock an engine grants a departure. It is
// a constant of every store, so that the window law can be stated without
// asking which process granted what.
const Horizon = 50 * time.Millisecond

// Engine is all that a store offers, by who uses it: take the roles that you need.
//
// All methods are safe for use by many goroutines. They block until the engine has decided or ctx ends. What only
// reads may be repeated; of the others each says what happens then. Unless a method says otherwise its errors are
// ErrUnavailable, ErrOutcomeUnknown, ErrNoStore, ErrStoreFull, ErrCorrupt or ErrClosed, wrapped.
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
	audit.Log
	Store
}

// Appender takes jobs in.
type Appender interface {
	// Append decides each job on its own and answers in the same order, one
	// Appended a job. Jobs of one queue enter in the order given. Repeating a
	// call is safe: a job that is already in answers Duplicate.
	//
	// A non-nil error concerns all jobs of the call; those that could not be
	// decided alone answer Failed. The payloads must not be changed before
	// Append returns, nor, when it returns ErrOutcomeUnknown, ever.
	Append(ctx context.Context, jobs []Job) ([]Appended, error)
}

// Outflow lets jobs out. It is what a drainer uses.
type Outflow interface {
	// Partitions is the number of independent parts of the store, at least 1. A queue lives in one. A drainer reserves
	// from each. It asks nobody.
	Partitions() int
	// Reserve grants departures within the Horizon to a client. It first takes
	// back the leases that ran out, and ends jobs that have expired. Repeating a
	// request (the same Client.ID, Partition and Number) grants nothing more and
	// answers what it answered before, with Reservation.In counted anew; so a lost
	// reply loses no job. A client has one request a partition under way at a time,
	// and its numbers grow. Errors also: an *invalid.Error; see ReserveRequest.Queue.
	Reserve(ctx context.Context, r ReserveRequest) (Reserved, error)
	// ReadSpecs returns the specs of queues and their revisions, in no order, without queues that do not exist. It costs
	// a fraction of a Get for each.
	ReadSpecs(ctx context.Context, names []string) ([]KeptSpec, error)
	// Settle ends leases, each on its own, and answers in the same order. The
	// same settlement twice gets the same answer; a stale fence changes nothing.
	Settle(ctx context.Context, s []Settlement) ([]Settled, error)
	// Extend moves the deadlines of leases to now + their queue's lease as it is now, never to an earlier instant than
	// before, and answers in the same order. Each time that Circuit.Slow passes while attempts of a queue go
	// unanswered, the first call that sees it counts one failure for the circuit. It may be repeated.
	Extend(ctx context.Context, leases []Lease) ([]Extended, error)
	// Wake delivers what should be looked at before the time that Reserve
	// named. The channel is closed when ctx ends. It may miss some and
	// deliver too many.
	Wake(ctx context.Context) <-chan Wakeup
	// Sweep frees a bounded part of what deleted queues left behind, and reports
	// whether there is more. Reserved.Garbage says when it is needed. It may be repeated.
	Sweep(ctx context.Context, partition int) (more bool, err error)
}

// SpecReader tells what a queue is like.
type SpecReader interface {
	// Get returns a queue with its statistics. Errors also: ErrUnknownQueue.
	Get(ctx context.Context, name string) (Info, error)
}

// Specs decides what queues there are.
type Specs interface {
	SpecReader
	// Lane returns a queue as Get does, and one of its lanes, which need hold nothing.
	// Errors also: ErrUnknownQueue, an *invalid.Error.
	Lane(ctx context.Context, name, key string) (Info, LaneInfo, error)
	// List returns up to limit queues as Get does, in order of name, beginning behind after.
	List(ctx context.Context, after string, limit int) ([]Info, error)
	// Put creates a queue or changes its spec. expect is the revision that the
	// queue must be at: 0 means that it must not exist, AnyRevision that it does
	// not matter. An equal spec changes nothing and keeps its revision, so it may be repeated. Errors also:
	// an *invalid.Error, ErrRevision (the answer then holds the present revision, 0 if there is no such queue).
	Put(ctx context.Context, spec Spec, expect int64) (PutResult, error)
	// Delete removes a queue. Without force one that still holds jobs is left
	// alone with ErrNotEmpty; the parent of others is always, with ErrHasChildren. Errors
	// also: ErrUnknownQueue, ErrRevision.
	Delete(ctx context.Context, name string, expect int64, force bool) error
	// Pause stops a queue's departures; jobs already granted leave. Of p the Reason and Until count. A
	// pause replaces the one before, and one that says the same changes nothing, so it may be repeated.
	// Errors also: ErrUnknownQueue, an *invalid.Error.
	Pause(ctx context.Context, name string, p Pause) error
	// Resume lets departures go on, at the rate, for nothing was saved up, and whatever the queue's receiver
	// answered: a Stop ends, and an open circuit is closed. It may be repeated. Errors also: ErrUnknownQueue.
	Resume(ctx context.Context, name string) error
}

// Watch is for those who look at all queues again and again.
type Watch interface {
	// Readings returns one of each queue, in no order. It costs a fraction of a List: a call for each thousand queues
	// of a partition, and a few numbers a queue.
	Readings(ctx context.Context) ([]Reading, error)
	// GetMany returns queues as Get does, in no order, without those that there are not.
	GetMany(ctx context.Context, names []string) ([]Info, error)
}

// ChangeLog tells what was done to queues and rules, and undoes it.
type ChangeLog interface {
	// Changes returns a page of what was done to a queue or a rule, also to one that was deleted. Errors also:
	// ErrUnknownQueue or rules.ErrUnknown if there is none of the name and nothing is recorded under it, an
	// *invalid.Error.
	Changes(ctx context.Context, r ChangesRequest) (ChangesPage, error)
	// History returns the specs that a queue had, also of one that was deleted. Errors also: ErrUnknownQueue.
	History(ctx context.Context, name string) (History, error)
	// Rollback puts the spec again that the queue had at a revision, 0 for that before its last
	// change; a deleted queue is made again. expect is as in Put, but AnyRevision stands for
	// the present one. Errors also: those of Put, ErrUnknownQueue, an *UnknownRevision.
	Rollback(ctx context.Context, name string, revision, expect int64) (PutResult, error)
}

// Store tells of the store as a whole.
type Store interface {
	// Totals sums up the whole store, cheaply however many queues it has.
	Totals(ctx context.Context) (Totals, error)
	// Space is how full the store is, of several servers the fullest.
	Space(ctx context.Context) (Space, error)
	// Drainers tells who drains the store.
	Drainers(ctx context.Context) (Drainers, error)
	// Check reports whether the store answers and is what it should be. It is
	// the readiness of every process that uses the engine.
	Check(ctx context.Context) error
	// Close ends the engine's goroutines and connections. What is under way
	// ends with ErrOutcomeUnknown or ErrClosed. A second Close does nothing.
	Close() error
}

// FirstRevision is the instant from which revisions count milliseconds: the beginning of 2026.
const FirstRevision = leaky.Instant(1767225600_000000)

// AnyRevision as an expected revision matches every one, and none.
const AnyRevision = -1

// Appended is the answer to one appended job.
type Appended struct {
	Outcome AppendOutcome
	ID      string
	// State is where the job is: Accepted, Duplicate and SetAside.
	State State
	// Position counts from 1, the next of its lane to leave. Accepted and Duplicate,
	// while the job waits; SetAside, behind all that is in the queue and deferred.
	Position int64
	// ETA is when it is expected to depart. Accepted, while it waits or is scheduled, and
	// SetAside.
	ETA ETA
	// Ticket names the deferral, and At is the engine's time of it: SetAside, and
	// Duplicate of a deferred job.
	Ticket Ticket
	At     time.Time
	// RetryAfter is when room is expected for this caller: those refused are
	// told instants one interval apart, so that they do not come back at once.
	RetryAfter time.Duration
	// Bytes says how it was refused for want of bytes: Full, LaneFull.
	Bytes ByteBound
	// Rules is what the rules said that the queue and its parent name, of this group, in the parent's order and then
	// its own: Accepted, SetAside, LimitReached, and what was refused after they were asked. Empty if the queue has
	// none.
	Rules []rules.Ruling
	Err   error
}

// ETA is an expected departure. It is Exact when nothing but the pace of this
// queue decides it.
type ETA struct {
	At    time.Time `json:"at"`
	Exact bool      `json:"exact"`
}

// Client is one drainer process in the eyes of the engine.
type Client struct {
	ID      string // unique to the process, 1 to 64 visible ASCII characters
	Name    string // for people: host and pid, say
	Version string
}

// ReserveRequest asks for jobs.
type ReserveRequest struct {
	Partition int
	Client    Client
	Number    uint64 // grows with every request of this client to this partition
	// Max is how many handlers are free, 0 to MaxReserve. Who has none free asks too, every SeenFor/4 at least: it is
	// seen by that, and what nobody else is there to do is done.
	Max int
	// Queue asks for jobs of one pull queue, and of no other; the partition is then that of the
	// queue, whatever Partition says. Who asks so is a client of its own for each queue, and no
	// drainer. Errors also: ErrUnknownQueue, and an *invalid.Error if it is not a pull queue.
	Queue string
	// Lead is how long the client's recent calls took. No paced departure is granted earlier than that from now, because
	// the answer would come after it.
	Lead time.Duration
	// Uncertainty is the difference between the earliest and the latest instant that the engine's clock may show at the
	// client, if it is too large for the slack of a fast queue; else 0. For that long after a departure granted to the
	// client, clients with other clocks are granted none: the jobs could start too close together.
	Uncertainty time.Duration
	// Latest is the last instant that the engine's clock can show when the request is made, by a clock of the client that
	// nobody sets; zero if that is not known. By it the engine tells a jump of its host's clock from time that passes.
	Latest time.Time
	// Clock names the clock that Uncertainty is about, for clients that share a process. By default it is Client.ID.
	Clock string
	// Shares bounds how many jobs of a queue are granted, for those that it names: 0 leaves the queue to other
	// clients. At most MaxShares; names of no queue do nothing, nor does any when Queue is set.
	Shares map[string]int
}

// MaxShares is how many queues Shares may name.
const MaxShares = 1000

// ClockID returns Clock, or its default.
func (r *ReserveRequest) ClockID() string { return cmp.Or(r.Clock, r.Client.ID) }

// Check refuses a request that no engine answers, but for what it says of the store. Errors: an *invalid.Error.
func (r *ReserveRequest) Check() error {
	if r.Max < 0 || r.Max > MaxReserve {
		return invalid.Errorf("max", fmt.Sprint(r.Max), "must be from 0 to %d", MaxReserve)
	}
	if r.Lead < 0 {
		return invalid.Errorf("lead", r.Lead.String(), "must not be negative")
	}
	if r.Uncertainty < 0 {
		return invalid.Errorf("uncertainty", r.Uncertainty.String(), "must not be negative")
	}
	if err := checkClientID("client", r.Client.ID); err != nil {
		return err
	}
	if err := checkClientID("clock", r.ClockID()); err != nil {
		return err
	}
	if len(r.Shares) > MaxShares {
		return invalid.Errorf("shares", "", "names %d queues: may name %d", len(r.Shares), MaxShares)
	}
	for name, share := range r.Shares {
		if share < 0 {
			return invalid.Errorf("shares", clip.Quote(name, 80), "has the share %d: must not be negative", share)
		}
	}
	return nil
}

func checkClientID(field, id string) error {
	if len(id) > 64 || names.ValidateID(id) != nil {
		return invalid.Errorf(field, clip.Quote(id, 80), "must be 1 to 64 visible ASCII characters")
	}
	return nil
}

// MaxReserve is the most jobs granted in one Reserve.
const MaxReserve = 500

// MaxVisits is the maximum number of queues that one Reserve visits before it visits no more, so that no call takes
// long, however many are due. The members of a group count as they are opened; one choice among them may open more.
// Reserved.Next is zero when more queues are due.
const MaxVisits = 20

// MaxReserveBytes is about the most payload granted in one Reserve.
const MaxReserveBytes = 4 << 20

// Reserved is what a client was granted, and when to ask again.
type Reserved struct {
	Jobs []Reservation
	// Now is the engine's clock when the departures of Jobs were counted from it.
	Now time.Time
	// Expired lists the queues of the leases that this call took back, one
	// entry a lease.
	Expired []string
	// Lost is how many departures a backlogged queue could have had since the
	// last call and did not, by queue.
	Lost map[string]int64
	// Short are the queues, by name, of which more was due than Shares allowed. Next takes no account of them: who
	// asked may ask again as soon as it has a handler for one.
	Short []string
	// Next is how long to wait before asking again, be it for a departure, a lease that runs out or
	// a job that expires. Zero means that more is due than Max or MaxVisits allowed.
	Next time.Duration
	// Backup is how long to wait after a Wakeup that names another client.
	Backup time.Duration
	// Garbage says that Sweep has work in this partition.
	Garbage bool
}

// Reservation is a departure granted to a client.
type Reservation struct {
	Job
	Fence Fence
	// In is when the job departs, relative to the reply: not before In after
	// the reply came, not later than In + slack after the request was sent.
	// It is negative when a replayed grant is already in the past.
	In time.Duration
	// Lease is how long after its departure the job belongs to the client.
	Lease time.Duration
	// Attempt counts from 1.
	Attempt int
	// Revision is that of the queue's spec, for caches of it.
	Revision   int64
	AppendedAt time.Time
	// Age is how long ago that was when the reply came, by the engine's clock.
	Age time.Duration
}

// Fence tells the present holder of a job from earlier ones. It is opaque:
// store epoch and number.
type Fence string

// Lease names a lease.
type Lease struct {
	Queue, ID string
	Fence     Fence
}

// Verdict is how a lease ends.
type Verdict uint8

// The verdicts of Settle.
const (
	Deliver  Verdict = iota + 1 // ended well
	Fail                        // try again After; spends an attempt, and the last one makes it dead
	Bury                        // dead at once
	Release                     // given back unused: keeps its turn, spends no attempt
	Hold                        // it may have been sent: Held until a person decides; spends an attempt
	Throttle                    // the receiver asked to be spared for After: keeps its turn, spends no attempt
	Down                        // the target is down, and has nothing of it: keeps its turn, spends no attempt
)

func (v Verdict) String() string {
	return [...]string{"", "delivered", "retry", "dead", "released", "held", "throttled", "down"}[v]
}

// Settlement ends one lease.
type Settlement struct {
	Lease
	Verdict Verdict
	// After is, of Fail, how long to back off; of Throttle and of Deliver, for how long nothing shall leave the
	// queue, at most MaxStop: a receiver may take a job and ask to be spared.
	After time.Duration
	// Untold says of a Throttle that the receiver did not say for how long, or less than a second: the queue stops for
	// ThrottleStop of After.
	Untold bool
	// NoTarget says of a Throttle that no receiver was asked, because the queue has no target: it stops by StopNoTarget,
	// and its rate does not adapt.
	NoTarget bool
	// Unused says of a Down that the job did not even start: its departure and what quotas counted are given back, as
	// by a Release, unless the queue's circuit is off.
	Unused bool
	// LaneOnly says that a Throttle concerns only the job's lane.
	LaneOnly bool
	// Trouble says of a Fail or a Hold that it was the target's fault, whosever job it
	// was: the circuit counts it. Down always is.
	Trouble bool
	Reason  string // all but Release: for people; of Deliver why the queue stops; cut to MaxReasonBytes
}

// MaxReasonBytes is how much of a reason is kept.
const MaxReasonBytes = 512

// Wakeup says that a partition, or a pull queue, has something due before anybody would look.
type Wakeup struct {
	Partition int
	// Client is the one that should ask now; others ask after Reserved.Backup.
	// Empty means that all should ask now.
	Client string
	// Queue is the pull queue that has it due; then it concerns those who ask for that
	// queue, all of them, and no drainer.
	Queue string
}

// PutResult is what a Put did.
type PutResult struct {
	Revision int64
	Created  bool
	Changed  bool // false when the spec was already so
}
