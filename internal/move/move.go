// Package move takes queues out of stores and puts them into others.
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

// Mover takes a queue out of a store, page by page and changing nothing, and puts it into
// another one, of whatever kind, as it was. It is for stores at rest; out
// of one in use a queue can be taken as of about now. Each call does a bounded part.
type Mover interface {
	// ExportQueue returns all of a queue but its jobs. Errors: ErrUnknownQueue.
	ExportQueue(ctx context.Context, name string) (Queue, error)
	// ExportJobs returns a page of its jobs. Errors: ErrUnknownQueue, an *invalid.Error.
	ExportJobs(ctx context.Context, r ExportRequest) (Exported, error)
	// OpenImport makes a queue, or one that holds nothing and has the same spec, ready to be filled under a mark that
	// names the import, and pauses it. It may be repeated. closed says that this very import was
	// closed before: nothing is left to do. Errors: ErrImport, ErrHasChildren, an *invalid.Error.
	OpenImport(ctx context.Context, q Queue, mark string) (closed bool, err error)
	// ImportJobs puts up to MaxPage jobs where they were, whatever the capacity, and answers in the same order.
	// It may be repeated: a job that is there already is passed. Errors: ErrUnknownQueue, ErrImport, an *invalid.Error.
	ImportJobs(ctx context.Context, queue, mark string, jobs []Job) ([]Outcome, error)
	// CloseImport gives the queue its bucket, counters and pause, and lets it go on. It may be repeated.
	// Errors: ErrUnknownQueue, ErrImport.
	CloseImport(ctx context.Context, q Queue, mark string) error
}

// ErrImport means that the queue cannot take the import: it holds jobs, has another spec, or was not opened for it.
var ErrImport = errors.New("the queue cannot take this import")

// MaxPageBytes is about the most bytes of jobs in a page of an export. A page has at least one job.
const MaxPageBytes = 1 << 20

// PauseReason is why a queue is paused that is being filled.
const PauseReason = "it is being imported"

// Queue is a queue without its jobs.
type Queue struct {
	Spec     queue.Spec
	Revision int64
	Pause    queue.Pause
	Bucket   leaky.Bucket
	Limits   []queue.LimitState // of Spec.Limits
	Turn     int64              // that the next job gets
	MaxCost  int64
	Counts   queue.Counters
	Errors   []queue.LastError // newest first
	// Held is how many jobs it held when Counts were, and of what follows that is not moved how many there were.
	Held     int64
	Deferred int64
	// Dead is how many dead jobs there were.
	Dead int64
	// Import is the mark of the latest import into the queue, and Open that it was not closed yet.
	Import string
	Open   bool
}

// Bucket is that of a queue as one has it whose rate is that of its spec: an adapted one is not moved, and
// what left at a higher rate must not be let out again at a lower one.
func Bucket(i *queue.Info) leaky.Bucket {
	to := i.Spec.Pacer(queue.Horizon)
	from := to
	if from.Rate = i.Rate; from == to {
		return i.Bucket
	}
	return from.Change(i.Bucket, to, leaky.Instant(i.Now.UnixMicro()))
}

// Job is a job as it stands in a queue, or what is remembered of one.
type Job struct {
	ID string
	// State is Waiting, Scheduled, Held, Dead, Delivered, Cancelled or Expired; StateNone in an export is
	// a job that is not what the store wrote.
	State queue.State
	// Turn is by what it stands in its lane: Waiting, Scheduled and Held.
	Turn       int64
	AppendedAt time.Time
	// At is until when it is scheduled, since when it is held, or when it ended.
	At       time.Time
	Attempts int
	Reason   string
	// Timeline is its attempts, as AppendAttempt stores them: of those that hold a place, and of
	// dead ones.
	Timeline []byte
	// Back says that it came back from the overflow.
	Back bool
	// HoldsLane says that it backs off in an ordered queue and so blocks its lane.
	HoldsLane bool
	// Record is the job itself, if that is kept: of all but those that ended otherwise than dead. Of
	// the others there is only Fingerprint and Cost.
	Record      []byte
	Fingerprint uint64
	Cost        int64

	// Lease says, in an export, that the job was leased and what became of that.
	Lease Lease
}

// Lease is what an export makes of a lease.
type Lease uint8

// What an export makes of leases.
const (
	NoLease Lease = iota
	// it stands, and the job is exported as waiting, without a further attempt, unless on_unknown says otherwise
	LeaseHeld
	LeaseOver // it has run out: the job is exported as taken back
)

// ExportRequest asks for a page of jobs.
type ExportRequest struct {
	Queue string
	// State is Waiting, Scheduled, Leased, Held, Dead, or Delivered for all that ended otherwise than dead.
	State queue.State
	After string // the Next of the page before; empty begins. It is opaque.
}

// Exported is a page of jobs: those that wait lane by lane in order of turn, the others by instant.
type Exported struct {
	Jobs []Job
	Next string // empty on the last page
}

// Validate checks all but the queue's name and After. Its error is an *invalid.Error.
func (r *ExportRequest) Validate() error {
	switch r.State {
	case queue.Waiting, queue.Scheduled, queue.Leased, queue.Held, queue.Dead, queue.Delivered:
		return nil
	}
	return invalid.Errorf(
		"state", r.State.String(), "cannot be exported; waiting, scheduled, leased, held, dead and delivered can",
	)
}

// Cursor reads After. It is nil when that is empty. The error is an *invalid.Error.
func (r *ExportRequest) Cursor() (*queue.Cursor, error) {
	return queue.ReadCursor(r.After, 'm', r.State, r.Queue, nil)
}

// NextPage returns what is After in the request for the next page.
func (r *ExportRequest) NextPage(c queue.Cursor) string { return c.Text('m', r.State, r.Queue, nil) }

// Outcome is what became of a job of an import.
type Outcome uint8

// The outcomes of ImportJobs.
const (
	Placed    Outcome = iota + 1 // it is in
	There                        // it was in already
	Clashes                      // another job has its id; it is left out
	Forgotten                    // it ended longer ago than is remembered
	Failed                       // what has its key in the store is not ours
)

func (o Outcome) String() string {
	return [...]string{"", "placed", "there", "clashes", "forgotten", "failed"}[o]
}

// Validate checks jobs of an import. Its error is an *invalid.Error.
func Validate(jobs []Job) error {
	if len(jobs) > queue.MaxPage {
		return invalid.Errorf("jobs", "", "are %d, the limit is %d", len(jobs), queue.MaxPage)
	}
	for i := range jobs {
		if err := jobs[i].Validate(); err != nil {
			err.Field = fmt.Sprintf("jobs[%d].%s", i, err.Field)
			return err
		}
	}
	return nil
}

// lastTurn is beyond all that a number of a script can tell from the next one.
const lastTurn = int64(1) << 53

// Validate checks a job of an import.
func (j *Job) Validate() *invalid.Error {
	if names.ValidateID(j.ID) != nil {
		return invalid.Errorf("id", j.ID, "is not an id")
	}
	switch j.State {
	case queue.Waiting, queue.Scheduled, queue.Held:
		if j.Turn < 0 || j.Turn >= lastTurn {
			return invalid.Errorf("turn", "", "is %d, which no job can have", j.Turn)
		}
	case queue.Dead, queue.Delivered, queue.Cancelled, queue.Expired:
	default:
		return invalid.Errorf("state", j.State.String(), "cannot be imported")
	}
	if j.State != queue.Waiting && validMoment(j.At) != nil || validMoment(j.AppendedAt) != nil {
		return invalid.Errorf("at", j.ID, "has an instant that no job can have")
	}
	if j.Attempts < 0 || j.Attempts > queue.MaxMaxAttempts+1 {
		return invalid.Errorf("attempts", "", "are %d", j.Attempts)
	}
	if len(j.Reason) > queue.MaxReasonBytes {
		return invalid.Errorf("reason", j.Reason, "is longer than %d bytes", queue.MaxReasonBytes)
	}
	if list, err := jobrecord.UnpackTimeline(j.Timeline); err != nil || len(list) > queue.MaxTimeline ||
		len(j.Timeline) > jobrecord.MaxTimelineBytes {
		return invalid.Errorf("timeline", j.ID, "is none")
	}
	if j.State.Ended() && j.State != queue.Dead {
		return nil
	}
	if h, err := jobrecord.UnpackHead(j.Record); err != nil || h.Cost < 1 || h.Cost > leaky.MaxCost {
		return invalid.Errorf("record", j.ID, "is not that of a job")
	}
	return nil
}

// validMoment checks that microseconds since 1970 can say it.
func validMoment(t time.Time) error {
	if us := t.UnixMicro(); us < 0 || us >= 1<<53 {
		return invalid.Errorf("at", "", "is out of reach")
	}
	return nil
}
