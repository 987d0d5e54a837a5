package queue

import (
	"context"
	"time"

	"github.com/penstock/penstock/internal/readmit"
)

// Overflow is the engine's side of jobs that wait elsewhere until there is room: it decides which jobs must wait,
// remembers them, and takes them back. Package deferred is the other side.
//
// A queue has a backlog while a job is recorded as deferred or was last seen behind (ReadmitRequest.Behind). Then
// every deferrable job lines up behind the backlog, and returning jobs may fill the queue up to its low-water mark.
// The places above it are for jobs that may not wait. So the order is kept and neither kind starves.
type Overflow interface {
	// Offer is Append for a caller that can put jobs aside. A deferrable job that finds no room, or a backlog, answers
	// SetAside and is recorded as Deferred. So does a job refused by rules whose action is defer. The caller then
	// stores the job, and withdraws it if storing definitely failed.
	Offer(ctx context.Context, jobs []Job) ([]Appended, error)
	// Withdraw forgets offered jobs that could not be stored, and returns in the same order how long until room is
	// expected. A job no longer recorded under its ticket is left as it is. It may be repeated.
	Withdraw(ctx context.Context, w []Ticketed) ([]time.Duration, error)
	// Announce says that the overflow has a job that the engine was not asked about. The queue then has a backlog
	// until a caller looks at the overflow and finds no job (ReadmitRequest.AsOf). The caller need not hold the way
	// back. It may be repeated. Errors also: ErrUnknownQueue.
	Announce(ctx context.Context, queue string) error
	// Readmit takes jobs back in the order of the overflow, as far as there is room. Without jobs it only asks for the
	// room. It may be repeated, by any caller: no job enters twice. Errors also: ErrUnknownQueue.
	Readmit(ctx context.Context, r ReadmitRequest) (Readmitted, error)
	// Backlogged returns the names of up to limit queues with a backlog.
	Backlogged(ctx context.Context, limit int) ([]string, error)
	// Room delivers the names of queues with a backlog that have room again. The channel is closed when ctx ends. It
	// may miss some and deliver too many.
	Room(ctx context.Context) <-chan string
}

// Ticket identifies one deferral of a job. It is opaque, at most MaxTicketBytes of visible ASCII. It is empty if the
// job was put aside while the engine could not be reached.
type Ticket string

// MaxTicketBytes is the maximum length of a Ticket.
const MaxTicketBytes = 64

// Ticketed identifies a deferred job.
type Ticketed struct {
	Queue, ID string
	Ticket    Ticket
}

// ReadmitFor is how long after each call the caller of Readmit is the only one that may readmit to the queue. This
// saves work; safety depends on Order alone.
const ReadmitFor = 5 * time.Second

// MaxReadmit is the maximum number of jobs in one Readmit.
const MaxReadmit = 500

// ReadmitRequest brings jobs back.
type ReadmitRequest struct {
	Queue string
	// Holder identifies the caller, 1 to 64 visible ASCII characters.
	Holder string
	// Overflow identifies the overflow whose places the Order counts, at most 64 bytes. A different overflow starts
	// anew.
	Overflow string
	// Jobs in the order of the overflow, without gaps.
	Jobs []Readmission
	// Behind is the minimum number of further jobs seen on the overflow behind these.
	Behind int64
	// AsOf is the Now of an earlier answer, from before the caller began to look at the overflow; zero if there was
	// none. The caller may not have seen jobs announced since, so the engine counts them as behind in any case.
	AsOf time.Time
	// Closed takes no jobs back now, but still ends jobs that are too old.
	Closed bool
	// Empty says that a look at the overflow, begun before this call, found no job of this queue; see OrphanAfter.
	Empty bool
	// Leave gives up the way back.
	Leave bool
}

// OrphanAfter is the longest a job may be on its way to the overflow. A record is given up once a job comes back that
// was set aside that much later, or once the overflow has been empty for that long. The record's job was then never
// stored, or was lost.
const OrphanAfter = 30 * time.Second

// Readmission is one job on its way back.
type Readmission struct {
	Job
	// Order grows along the overflow, from 1. The engine remembers how far it has come and takes nothing up to there
	// again.
	Order  int64
	Ticket Ticket
	// At is when the job was put aside (Appended.At). Its age counts from there.
	At time.Time
	// Done says that the caller has dealt with the job, so the engine passes over it.
	Done bool
}

// Readmitted is the answer to Readmit.
type Readmitted struct {
	// Busy is how long another caller still has the way back; nothing was done. Zero if the call was carried out.
	Busy time.Duration
	// Outcomes has the outcomes of the jobs, in their order.
	Outcomes []readmit.Outcome
	// Order is how far the engine has come: jobs up to there can be dropped.
	Order int64
	// Room is how many more jobs the queue would take now.
	Room int64
	// Batch is the least room for which Room's channel reports the queue; less is not worth a call.
	Batch int64
	// Deferred is how many jobs are recorded as deferred.
	Deferred int64
	// Behind is how many jobs the engine now believes are behind: more than the caller said if jobs were announced.
	Behind int64
	// Missing is how many records were given up (see OrphanAfter).
	Missing int64
	// Now is the engine's time.
	Now time.Time
}
