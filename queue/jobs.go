package queue

import (
	"context"
	"time"

	"github.com/penstock/penstock/queue/invalid"
)

// Jobs looks at jobs, one or many, and does what people decide about them. Each call does a bounded part, so that none
// holds others up, however many there are; its answer says where to go on.
type Jobs interface {
	// Job returns where a job is. Errors also: ErrUnknownQueue, ErrUnknownJob.
	Job(ctx context.Context, queue, id string) (JobInfo, error)
	// Cancel takes a job back that is waiting, scheduled or deferred, and returns
	// the state it is in afterwards: Cancelled, also when it was so before, or the
	// one that kept it from being cancelled. So it may be repeated. Errors also: ErrUnknownQueue, ErrUnknownJob.
	Cancel(ctx context.Context, queue, id string) (State, error)
	// ListJobs returns a page of the jobs in one state. Whoever follows Next to the end sees
	// each job that is in the state all the while, once; one that enters or
	// leaves it meanwhile may be seen or not, and a leased one whose lease is extended
	// meanwhile may be seen twice. Errors also: ErrUnknownQueue, an *invalid.Error.
	ListJobs(ctx context.Context, r ListRequest) (Listing, error)
	// Purge takes jobs back that wait or are scheduled, as Cancel does, oldest turn first in
	// each lane. Repeated, it takes more of them. Errors also: ErrUnknownQueue, an *invalid.Error.
	Purge(ctx context.Context, r PurgeRequest) (Purged, error)
	// Replay puts dead jobs back into their queue, as if appended now, and answers in the
	// same order. It may be repeated. Errors also: ErrUnknownQueue, an *invalid.Error.
	Replay(ctx context.Context, queue string, ids []string) ([]ReplayOutcome, error)
	// Forget drops dead jobs for good, and reports in the same order which it
	// dropped; their ids may be used again. It may be repeated. Errors also: ErrUnknownQueue, an *invalid.Error.
	Forget(ctx context.Context, queue string, ids []string) ([]bool, error)
	// Decide says what became of held jobs: Deliver, they were sent; Bury, they are dead; Release, they
	// wait again at their turn, and may be sent twice. reason, of the first two, replaces the one that they
	// have, unless it is empty. It answers in the same order where each is afterwards, StateNone where
	// there is no such job. One that is not held is left as it is, so it may be repeated. Errors also:
	// ErrUnknownQueue, an *invalid.Error.
	Decide(ctx context.Context, queue string, ids []string, v Verdict, reason string) ([]State, error)
	// DeadQueues returns up to limit of the queues that have dead jobs, in order of name,
	// beginning behind after. Those that are gone are among them: dead jobs outlive their queue, and are
	// listed (with Job and ListJobs) and dropped by its name.
	DeadQueues(ctx context.Context, after string, limit int) ([]DeadQueue, error)
}

// DeadQueue is a name with dead jobs: of the queue, and of former ones of that name.
type DeadQueue struct {
	Queue  string
	Dead   int64
	Bytes  int64     // that they take, as Info.DeadBytes
	Oldest time.Time // when the first of them died
	Gone   bool      // there is no such queue; its dead can be replayed when it is made again
}

// MaxPage is the most jobs in one call of Jobs.
const MaxPage = 500

// ListRequest asks for a page of jobs.
type ListRequest struct {
	Queue string
	State State // Waiting, Scheduled, Leased, Held or Dead
	// Lane is the only lane to look at, nil is all. Only with Waiting.
	Lane *string
	// After is the Next of the page before; empty begins. It is opaque.
	After string
	Limit int // 1 to MaxPage
}

// Listing is a page of jobs: waiting ones lane by lane in the order in which they would
// leave it, without position and ETA; scheduled ones by when they are due; held ones by since
// when they are; dead ones by when they died; leased ones in no order.
type Listing struct {
	Jobs []JobInfo
	Next string // empty on the last page; one that is not may have fewer jobs than asked for, or none
}

// PurgeRequest says which jobs to take back.
type PurgeRequest struct {
	Queue string
	State State // Waiting or Scheduled
	// Lane is the only lane to purge, nil is all. Only with Waiting.
	Lane *string
	// After is the Purged.Next of the call before: what was appended since the first
	// is left alone. Empty begins. It is opaque.
	After string
	Limit int // 1 to MaxPage
}

// Purged is how far a purge has come.
type Purged struct {
	Jobs int64  // taken back by this call
	Next string // give it to the next call; empty when there is nothing more
}

// ReplayOutcome is what became of a dead job.
type ReplayOutcome uint8

// The outcomes of Replay.
const (
	NotDead  ReplayOutcome = iota // there is no such dead job
	Replayed                      // it is in the queue again
	NoRoom                        // the queue, its lane or its schedule is full: it is still dead
	Broken                        // what is stored of it is not a job
)

func (o ReplayOutcome) String() string {
	return [...]string{"not_dead", "replayed", "no_room", "broken"}[o]
}

// Validate checks all but the queue's name and After. Its error is an *invalid.Error.
func (r *ListRequest) Validate() error {
	switch r.State {
	case Waiting, Scheduled, Leased, Held, Dead:
	default:
		return invalid.Errorf("state", r.State.String(), "cannot be listed; one of waiting scheduled leased held dead can")
	}
	return validatePage(r.State, r.Lane, r.Limit)
}

// Validate checks all but the queue's name and After. Its error is an *invalid.Error.
func (r *PurgeRequest) Validate() error {
	if r.State != Waiting && r.State != Scheduled {
		return invalid.Errorf("state", r.State.String(), "cannot be purged; waiting and scheduled can")
	}
	return validatePage(r.State, r.Lane, r.Limit)
}

func validatePage(s State, lane *string, limit int) error {
	if lane != nil && s != Waiting {
		return invalid.Errorf("lane", *lane, "can be chosen only among waiting jobs")
	}
	if lane != nil {
		if err := ValidateLane(*lane); err != nil {
			return err
		}
	}
	return invalid.Range("limit", int64(limit), 1, MaxPage)
}
