package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
)

// Mover takes a queue out of a store, page by page and changing nothing, and puts it into
// another one, of whatever kind, as it was. It is for stores at rest; out
// of one in use a queue can be taken as of about now. Each call does a bounded part.
type Mover interface {
	// ExportQueue returns all of a queue but its jobs. Errors: ErrUnknownQueue.
	ExportQueue(ctx context.Context, name string) (MovedQueue, error)
	// ExportJobs returns a page of its jobs. Errors: ErrUnknownQueue, a *FieldError.
	ExportJobs(ctx context.Context, r ExportRequest) (Exported, error)
	// OpenImport makes a queue, or one that holds nothing and has the same spec, ready to be filled under a mark that
	// names the import, and pauses it. It may be repeated. closed says that this very import was
	// closed before: nothing is left to do. Errors: ErrImport, ErrHasChildren, a *FieldError.
	OpenImport(ctx context.Context, q MovedQueue, mark string) (closed bool, err error)
	// ImportJobs puts up to MaxPage jobs where they were, whatever the capacity, and answers in the same order.
	// It may be repeated: a job that is there already is passed. Errors: ErrUnknownQueue, ErrImport, a *FieldError.
	ImportJobs(ctx context.Context, queue, mark string, jobs []MovedJob) ([]ImportOutcome, error)
	// CloseImport gives the queue its bucket, counters and pause, and lets it go on. It may be repeated.
	// Errors: ErrUnknownQueue, ErrImport.
	CloseImport(ctx context.Context, q MovedQueue, mark string) error
}

// MaxMovePage is about the most bytes of jobs in a page of an export. A page has at least one job.
const MaxMovePage = 1 << 20

// ImportReason is why a queue is paused that is being filled.
const ImportReason = "it is being imported"

// MovedQueue is a queue without its jobs.
type MovedQueue struct {
	Spec     Spec
	Revision int64
	Pause    Pause
	Bucket   leaky.Bucket
	Limits   []LimitState // of Spec.Limits
	Turn     int64        // that the next job gets
	MaxCost  int64
	Counts   Counters
	Errors   []LastError // newest first
	// Held is how many jobs it held when Counts were, and of what follows that is not moved how many there were.
	Held     int64
	Deferred int64
	// Dead is how many dead jobs there were.
	Dead int64
	// Import is the mark of the latest import into the queue, and Open that it was not closed yet.
	Import string
	Open   bool
}

// MovedBucket is that of a queue as one has it whose rate is that of its spec: an adapted one is not moved, and
// what left at a higher rate must not be let out again at a lower one.
func MovedBucket(i *Info) leaky.Bucket {
	to := i.Spec.Pacer(Horizon)
	from := to
	if from.Rate = i.Rate; from == to {
		return i.Bucket
	}
	return from.Change(i.Bucket, to, leaky.Instant(i.Now.UnixMicro()))
}

// MovedJob is a job as it stands in a queue, or what is remembered of one.
type MovedJob struct {
	ID string
	// State is Waiting, Scheduled, Held, Dead, Delivered, Cancelled or Expired; StateNone in an export is
	// a job that is not what the store wrote.
	State State
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
	Lease ExportedLease
}

// ExportedLease is what an export makes of a lease.
type ExportedLease uint8

// What an export makes of leases.
const (
	NoLease ExportedLease = iota
	// it stands, and the job is exported as waiting, without a further attempt, unless on_unknown says otherwise
	LeaseHeld
	LeaseOver // it has run out: the job is exported as taken back
)

// ExportRequest asks for a page of jobs.
type ExportRequest struct {
	Queue string
	// State is Waiting, Scheduled, Leased, Held, Dead, or Delivered for all that ended otherwise than dead.
	State State
	After string // the Next of the page before; empty begins. It is opaque.
}

// Exported is a page of jobs: those that wait lane by lane in order of turn, the others by instant.
type Exported struct {
	Jobs []MovedJob
	Next string // empty on the last page
}

// Validate checks all but the queue's name and After. Its error is a *FieldError.
func (r *ExportRequest) Validate() error {
	switch r.State {
	case Waiting, Scheduled, Leased, Held, Dead, Delivered:
		return nil
	}
	return FieldErrorf(
		"state", r.State.String(), "cannot be exported; waiting, scheduled, leased, held, dead and delivered can",
	)
}

// Cursor reads After. It is nil when that is empty. The error is a *FieldError.
func (r *ExportRequest) Cursor() (*Cursor, error) {
	return readCursor(r.After, 'm', r.State, r.Queue, nil)
}

// NextPage returns what is After in the request for the next page.
func (r *ExportRequest) NextPage(c Cursor) string { return c.text('m', r.State, r.Queue, nil) }

// ImportOutcome is what became of a job of an import.
type ImportOutcome uint8

// The outcomes of ImportJobs.
const (
	Placed     ImportOutcome = iota + 1 // it is in
	There                               // it was in already
	Clashes                             // another job has its id; it is left out
	Forgotten                           // it ended longer ago than is remembered
	ImportFail                          // what has its key in the store is not ours
)

func (o ImportOutcome) String() string {
	return [...]string{"", "placed", "there", "clashes", "forgotten", "failed"}[o]
}

// ValidateImport checks jobs of an import. Its error is a *FieldError.
func ValidateImport(jobs []MovedJob) error {
	if len(jobs) > MaxPage {
		return FieldErrorf("jobs", "", "are %d, the limit is %d", len(jobs), MaxPage)
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
func (j *MovedJob) Validate() *FieldError {
	if ValidateID(j.ID) != nil {
		return FieldErrorf("id", j.ID, "is not an id")
	}
	switch j.State {
	case Waiting, Scheduled, Held:
		if j.Turn < 0 || j.Turn >= lastTurn {
			return FieldErrorf("turn", "", "is %d, which no job can have", j.Turn)
		}
	case Dead, Delivered, Cancelled, Expired:
	default:
		return FieldErrorf("state", j.State.String(), "cannot be imported")
	}
	if j.State != Waiting && validMoment(j.At) != nil || validMoment(j.AppendedAt) != nil {
		return FieldErrorf("at", j.ID, "has an instant that no job can have")
	}
	if j.Attempts < 0 || j.Attempts > MaxMaxAttempts+1 {
		return FieldErrorf("attempts", "", "are %d", j.Attempts)
	}
	if len(j.Reason) > MaxReasonBytes {
		return FieldErrorf("reason", j.Reason, "is longer than %d bytes", MaxReasonBytes)
	}
	if list, err := UnpackTimeline(j.Timeline); err != nil || len(list) > MaxTimeline ||
		len(j.Timeline) > maxTimelineBytes {
		return FieldErrorf("timeline", j.ID, "is none")
	}
	if j.State.Ended() && j.State != Dead {
		return nil
	}
	if h, err := UnpackHead(j.Record); err != nil || h.Cost < 1 || h.Cost > leaky.MaxCost {
		return FieldErrorf("record", j.ID, "is not that of a job")
	}
	return nil
}

// validMoment checks that microseconds since 1970 can say it.
func validMoment(t time.Time) error {
	if us := t.UnixMicro(); us < 0 || us >= 1<<53 {
		return FieldErrorf("at", "", "is out of reach")
	}
	return nil
}
