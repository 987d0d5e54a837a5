// Package move exports queues from stores and imports them into others.
package move

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// Mover exports a queue page by page, without changing it, and imports it as it was, even into a store of another
// kind. It is for stores at rest; a queue in use is exported as of about now. Each call does a bounded part of the
// work.
type Mover interface {
	// ExportQueue returns a queue without its jobs. Errors: ErrUnknownQueue.
	ExportQueue(ctx context.Context, name string) (Queue, error)
	// ExportJobs returns a page of its jobs. Errors: ErrUnknownQueue, an *invalid.Error.
	ExportJobs(ctx context.Context, r ExportRequest) (Exported, error)
	// ImportQueues imports queues without jobs that do not exist yet, many in one step, and leaves them as CloseImport
	// does. Each step has one entry in the audit log, whose After lists its queues. It may be repeated. done reports
	// which queues are imported, now or before. The others exist, or do not fit other queues or rules: OpenImport tells
	// why. Errors: an *invalid.Error.
	ImportQueues(ctx context.Context, queues []Queue, mark string) (done []bool, err error)
	// OpenImport prepares a new queue, or an empty one with the same spec, for an import, and pauses it. mark
	// identifies the import. It may be repeated. closed means that the same import was completed before: nothing is
	// left to do. Errors: ErrImport, ErrHasChildren, an *invalid.Error.
	OpenImport(ctx context.Context, q Queue, mark string) (closed bool, err error)
	// ImportJobs puts up to MaxPage jobs back in their places, regardless of the capacity, and answers in the same
	// order. It may be repeated: jobs that are there already are skipped. Errors: ErrUnknownQueue, ErrImport, an
	// *invalid.Error.
	ImportJobs(ctx context.Context, queue, mark string, jobs []Job) ([]Outcome, error)
	// CloseImport restores the queue's bucket, counters and pause, and ends the import. It may be repeated. Errors:
	// ErrUnknownQueue, ErrImport.
	CloseImport(ctx context.Context, q Queue, mark string) error
}

// ErrImport means that the queue cannot take the import: it has jobs or another spec, or was not opened for it.
var ErrImport = errors.New("the queue cannot take this import")

// MaxPageBytes is the approximate maximum of bytes in a page of an export. A page has at least one job.
const MaxPageBytes = 1 << 20

// MaxStep is the maximum number of queues in one step of ImportQueues. A step holds up departures for as long as it
// takes.
const MaxStep = 64

// PauseReason is the reason of the pause during an import.
const PauseReason = "import in progress"

// Queue is a queue without its jobs.
type Queue struct {
	Spec     queue.Spec
	Revision int64
	Pause    queue.Pause
	Bucket   leaky.Bucket
	Limits   []queue.LimitState // states of Spec.Limits
	Learned  []queue.LearnedCosts
	Turn     int64 // turn of the next job
	MaxCost  int64
	Counts   queue.Counters
	Errors   []queue.LastError // newest first
	// Held is how many jobs the queue had when Counts were read. Deferred and Dead are how many deferred and dead jobs
	// there were.
	Held     int64
	Deferred int64
	Dead     int64
	// Import is the mark of the latest import into the queue. Open is whether it was not closed yet.
	Import string
	Open   bool
}

// Bucket returns the bucket of a queue, converted from an adapted rate to the spec's rate: an archive does not have the
// adapted rate. As in any change of rate, earlier departures still count.
func Bucket(i *queue.Info) leaky.Bucket {
	to := i.Spec.Pacer(queue.Horizon)
	from := to
	if from.Rate = i.Rate; from == to {
		return i.Bucket
	}
	return from.Change(i.Bucket, to, leaky.Instant(i.Now.UnixMicro()))
}

// Job is a job of a queue, or what is remembered of it.
type Job struct {
	ID string
	// State is Waiting, Scheduled, Held, Dead, Delivered, Cancelled or Expired. StateNone in an export means that the
	// stored record is not a job.
	State queue.State
	// Turn is the job's turn in its lane, if it is Waiting, Scheduled or Held.
	Turn       int64
	AppendedAt time.Time
	// At is when a scheduled job is due, when a held job was held, or when an ended job ended.
	At       time.Time
	Attempts int
	Reason   string
	// Timeline has the attempts, as AppendAttempt stores them, of jobs that hold a place and of dead jobs.
	Timeline []byte
	// Back is whether the job came back from the overflow.
	Back bool
	// HoldsLane is whether the job backs off in an ordered queue and so blocks its lane.
	HoldsLane bool
	// Record is the job's record, if it is kept: ended jobs have one only if they are dead. Other ended jobs have just
	// Fingerprint and Cost.
	Record      []byte
	Fingerprint uint64
	Cost        int64

	// Lease says, in an export, what happened to the job's lease, if any.
	Lease Lease
}

// Lease is how an export treats a lease.
type Lease uint8

// The ways an export treats leases.
const (
	NoLease Lease = iota
	// still held: the job is exported as waiting, without a further attempt, unless on_unknown says otherwise
	LeaseHeld
	LeaseOver // run out: the job is exported as taken back
)

// ExportRequest asks for a page of jobs.
type ExportRequest struct {
	Queue string
	// State is Waiting, Scheduled, Leased, Held, Dead, or Delivered for all jobs that ended but are not dead.
	State queue.State
	After string // the Next of the previous page; empty starts. It is opaque.
}

// Exported is a page of jobs: waiting ones lane by lane in order of turn, others by time.
type Exported struct {
	Jobs []Job
	Next string // empty on the last page
}

// Validate checks everything but the queue's name and After. Its error is an *invalid.Error.
func (r *ExportRequest) Validate() error {
	switch r.State {
	case queue.Waiting, queue.Scheduled, queue.Leased, queue.Held, queue.Dead, queue.Delivered:
		return nil
	}
	return invalid.Errorf(
		"state", r.State.String(), "cannot be exported; use waiting, scheduled, leased, held, dead or delivered",
	)
}

// Cursor parses After. It returns nil if After is empty. The error is an *invalid.Error.
func (r *ExportRequest) Cursor() (*queue.Cursor, error) {
	return queue.ReadCursor(r.After, 'm', r.State, r.Queue, nil)
}

// NextPage returns the After of the request for the next page.
func (r *ExportRequest) NextPage(c queue.Cursor) string { return c.Text('m', r.State, r.Queue, nil) }

// Outcome is the result of importing a job.
type Outcome uint8

// The outcomes of ImportJobs.
const (
	Placed    Outcome = iota + 1 // imported
	There                        // imported before
	Clashes                      // another job has its id; left out
	Forgotten                    // ended longer ago than is remembered
	Failed                       // its key in the store holds something else
)

func (o Outcome) String() string {
	return [...]string{"", "placed", "there", "clashes", "forgotten", "failed"}[o]
}

// Validate checks jobs of an import. Its error is an *invalid.Error.
func Validate(jobs []Job) error {
	if len(jobs) > queue.MaxPage {
		return invalid.Errorf("jobs", "", "has %d entries, the limit is %d", len(jobs), queue.MaxPage)
	}
	for i := range jobs {
		if err := jobs[i].Validate(); err != nil {
			err.Field = fmt.Sprintf("jobs[%d].%s", i, err.Field)
			return err
		}
	}
	return nil
}

// lastTurn is the first integer beyond those that a script's numbers represent exactly.
const lastTurn = int64(1) << 53

// Validate checks a job of an import.
func (j *Job) Validate() *invalid.Error {
	if names.ValidateID(j.ID) != nil {
		return invalid.Errorf("id", j.ID, "is not an id")
	}
	switch j.State {
	case queue.Waiting, queue.Scheduled, queue.Held:
		if j.Turn < 0 || j.Turn >= lastTurn {
			return invalid.Errorf("turn", "", "is %d, which is out of range", j.Turn)
		}
	case queue.Dead, queue.Delivered, queue.Cancelled, queue.Expired:
	default:
		return invalid.Errorf("state", j.State.String(), "cannot be imported")
	}
	if j.State != queue.Waiting && validMoment(j.At) != nil || validMoment(j.AppendedAt) != nil {
		return invalid.Errorf("at", j.ID, "has a time that is out of range")
	}
	if j.Attempts < 0 || j.Attempts > queue.MaxMaxAttempts+1 {
		return invalid.Errorf("attempts", "", "is %d, which is out of range", j.Attempts)
	}
	if len(j.Reason) > queue.MaxReasonBytes {
		return invalid.Errorf("reason", j.Reason, "is longer than %d bytes", queue.MaxReasonBytes)
	}
	if list, err := jobrecord.UnpackTimeline(j.Timeline); err != nil || len(list) > queue.MaxTimeline ||
		len(j.Timeline) > jobrecord.MaxTimelineBytes {
		return invalid.Errorf("timeline", j.ID, "is not a timeline")
	}
	if j.State.Ended() && j.State != queue.Dead {
		return nil
	}
	if h, err := jobrecord.UnpackHead(j.Record); err != nil || h.Cost < 1 || h.Cost > leaky.MaxCost {
		return invalid.Errorf("record", j.ID, "is not a job's record")
	}
	return nil
}

// validMoment checks that t fits into microseconds since 1970.
func validMoment(t time.Time) error {
	if us := t.UnixMicro(); us < 0 || us >= 1<<53 {
		return invalid.Errorf("at", "", "is out of range")
	}
	return nil
}
