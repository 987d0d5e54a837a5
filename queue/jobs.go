package queue

import (
	"context"
	"time"

	"github.com/penstock/penstock/queue/invalid"
)

// Jobs looks at jobs and carries out people's decisions about them. Each call does a bounded part of the work, so that
// it holds up no other call; its answer says where to continue.
type Jobs interface {
	// Job returns a job. Errors also: ErrUnknownQueue, ErrUnknownJob.
	Job(ctx context.Context, queue, id string) (JobInfo, error)
	// Cancel cancels a job that is waiting, scheduled or deferred, and returns its state afterwards. That is Cancelled,
	// even if it was cancelled before, or the state that prevented it. It may be repeated. Errors also: ErrUnknownQueue,
	// ErrUnknownJob.
	Cancel(ctx context.Context, queue, id string) (State, error)
	// ListJobs returns a page of the jobs in one state. Following Next to the end lists every job that stays in the
	// state exactly once. A job that enters or leaves the state meanwhile may be missing, and a leased job whose lease
	// is extended meanwhile may be listed twice. Errors also: ErrUnknownQueue, an *invalid.Error.
	ListJobs(ctx context.Context, r ListRequest) (Listing, error)
	// FindJobs returns a page of the jobs of many queues by id, by the beginning of an id, or by lane, in no particular
	// order. Dead jobs of deleted queues are included. Following Next to the end finds every job that stays in its
	// state and queue; a job that changes its state meanwhile may be missing or found twice. Errors also: an
	// *invalid.Error.
	FindJobs(ctx context.Context, r FindRequest) (FoundJobs, error)
	// Batches returns batches of a queue, sorted by the bytes of their labels. Errors also: ErrUnknownQueue, an
	// *invalid.Error.
	Batches(ctx context.Context, r BatchesRequest) ([]Batch, error)
	// Purge cancels waiting or scheduled jobs, oldest turn first in each lane. Each repetition cancels more of them.
	// Errors also: ErrUnknownQueue, an *invalid.Error.
	Purge(ctx context.Context, r PurgeRequest) (Purged, error)
	// Replay puts dead jobs back into their queue as if they were appended now, and answers in the same order. It may
	// be repeated. Errors also: ErrUnknownQueue, an *invalid.Error.
	Replay(ctx context.Context, queue string, ids []string) ([]ReplayOutcome, error)
	// Forget deletes dead jobs, and reports in the same order which it deleted; their ids may be used again. It may be
	// repeated. Errors also: ErrUnknownQueue, an *invalid.Error.
	Forget(ctx context.Context, queue string, ids []string) ([]bool, error)
	// Decide settles held jobs. Deliver means that they were sent, and Bury that they are dead; Release makes them
	// wait again at their turn, so they may be sent twice. For Deliver and Bury, a non-empty reason replaces the jobs'
	// own. It returns each job's state afterwards in the same order, StateNone if the job does not exist. Jobs that
	// are not held stay as they are, so it may be repeated. Errors also: ErrUnknownQueue, an *invalid.Error.
	Decide(ctx context.Context, queue string, ids []string, v Verdict, reason string) ([]State, error)
	// DeadQueues returns up to limit queues with dead jobs, sorted by name, starting after the name given. Deleted
	// queues are included: their dead jobs outlive them and can be listed (Job, ListJobs) and deleted by the queue's
	// name.
	DeadQueues(ctx context.Context, after string, limit int) ([]DeadQueue, error)
}

// DeadQueue is a queue name with dead jobs, including those of earlier queues with the same name.
type DeadQueue struct {
	Queue  string
	Dead   int64
	Bytes  int64     // as Info.DeadBytes
	Oldest time.Time // when the first job died
	Gone   bool      // the queue was deleted; create it again to replay its jobs
}

// MaxPage is the maximum number of jobs in one call of Jobs.
const MaxPage = 500

// ListRequest asks for a page of jobs.
type ListRequest struct {
	Queue string
	State State // Waiting, Scheduled, Leased, Held, Dead, Delivered, Cancelled or Expired
	// Lane restricts the list to one lane; nil means all. Only for Waiting.
	Lane *string
	// After is the Next of the previous page; empty starts from the beginning. It is opaque.
	After string
	Limit int // 1 to MaxPage
}

// Listing is a page of jobs. Waiting jobs are sorted lane by lane in departure order, without position and ETA.
// Scheduled jobs are sorted by due time, held jobs by when they were held, and dead jobs by when they died. Delivered,
// cancelled and expired jobs are listed while they are remembered, the last one to end first. Leased jobs are in no
// particular order.
type Listing struct {
	Jobs []JobInfo
	Next string // empty on the last page; other pages may have fewer jobs than requested, or none
}

// PurgeRequest selects the jobs to cancel.
type PurgeRequest struct {
	Queue string
	State State // Waiting or Scheduled
	// Lane restricts the purge to one lane; nil means all. Only for Waiting.
	Lane *string
	// After is the Next of the previous call; empty starts a purge. Jobs appended since the first call are left alone.
	// It is opaque.
	After string
	Limit int // 1 to MaxPage
}

// Purged is the progress of a purge.
type Purged struct {
	Jobs int64  // cancelled by this call
	Next string // After of the next call; empty at the end
}

// ReplayOutcome is the result of replaying a job.
type ReplayOutcome uint8

// The outcomes of Replay.
const (
	NotDead  ReplayOutcome = iota // no dead job has this id
	Replayed                      // the job is in the queue again
	NoRoom                        // the queue, the lane or the schedule is full; the job is still dead
	Broken                        // the stored record is not a job
)

func (o ReplayOutcome) String() string {
	return [...]string{"not_dead", "replayed", "no_room", "broken"}[o]
}

// Validate checks everything but the queue's name and After. Its error is an *invalid.Error.
func (r *ListRequest) Validate() error {
	switch r.State {
	case Waiting, Scheduled, Leased, Held, Dead, Delivered, Cancelled, Expired:
	default:
		return invalid.Errorf("state", r.State.String(),
			"cannot be listed; use one of waiting scheduled leased held dead delivered cancelled expired")
	}
	return validatePage(r.State, r.Lane, r.Limit)
}

// Validate checks everything but the queue's name and After. Its error is an *invalid.Error.
func (r *PurgeRequest) Validate() error {
	if r.State != Waiting && r.State != Scheduled {
		return invalid.Errorf("state", r.State.String(), "cannot be purged; use waiting or scheduled")
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
