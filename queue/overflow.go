package queue

import (
	"context"
	"time"

	"github.com/penstock/penstock/internal/readmit"
)

// Overflow is the engine's side of jobs that wait somewhere else until there is
// room: it decides who must, remembers them, and takes them back. Package
// deferred is the other side.
//
// A queue has a backlog while a job is recorded as deferred or was last seen
// behind (ReadmitRequest.Behind). While it has, every deferrable job queues behind
// it, the places up to the queue's low-water mark are for what comes back, and
// the others are for those who may not wait: so the order is kept and neither
// starves.
type Overflow interface {
	// Offer is Append for a caller who can put jobs aside: one that finds no room,
	// or a backlog, and may be deferred answers SetAside and is recorded as Deferred; so does one that rules refuse
	// which all defer. The caller then stores it, and withdraws it if that failed for certain.
	Offer(ctx context.Context, jobs []Job) ([]Appended, error)
	// Withdraw forgets jobs that were offered and could not be stored, and answers
	// in the same order how long until room is expected. One that is not
	// recorded under its ticket any more is left as it is. It may be repeated.
	Withdraw(ctx context.Context, w []Ticketed) ([]time.Duration, error)
	// Announce says that a job is on the overflow that the engine was not asked about: from
	// now on the queue has a backlog, until somebody looks at the overflow and finds none
	// (ReadmitRequest.AsOf). It needs no way back, and may be repeated. Errors also:
	// ErrUnknownQueue.
	Announce(ctx context.Context, queue string) error
	// Readmit takes jobs back in the order of the overflow, as far as there is
	// room. Without jobs it only asks for the room. Repeating it is safe: no job
	// enters twice, whoever asks. Errors also: ErrUnknownQueue.
	Readmit(ctx context.Context, r ReadmitRequest) (Readmitted, error)
	// Backlogged names the queues that have a backlog, up to limit.
	Backlogged(ctx context.Context, limit int) ([]string, error)
	// Room delivers the names of queues with a backlog that have room again. The
	// channel is closed when ctx ends. It may miss some and deliver too many.
	Room(ctx context.Context) <-chan string
}

// Ticket names one deferral of a job. It is opaque, at most MaxTicketBytes of visible ASCII;
// empty is that of a job which was put aside while the engine could not be asked.
type Ticket string

// MaxTicketBytes is the longest a Ticket gets.
const MaxTicketBytes = 64

// Ticketed names a deferred job.
type Ticketed struct {
	Queue, ID string
	Ticket    Ticket
}

// ReadmitFor is how long a caller of Readmit has a queue's way back to himself
// after each call. It saves work and is not needed for safety: the Order is.
const ReadmitFor = 5 * time.Second

// MaxReadmit is the most jobs in one Readmit.
const MaxReadmit = 500

// ReadmitRequest hands jobs back.
type ReadmitRequest struct {
	Queue string
	// Holder is who asks, 1 to 64 visible ASCII characters.
	Holder string
	// Overflow is the identity of the overflow that the Order counts in, at most 64 bytes.
	// Another one than before begins anew.
	Overflow string
	// Jobs in the order of the overflow, without gaps.
	Jobs []Readmission
	// Behind is how many more were seen on the overflow behind these, at the least.
	Behind int64
	// AsOf is the Now of an answer that the caller had before he began to look at the
	// overflow; zero if he had none. What was announced since he may not have seen, so it
	// stays behind whatever he says.
	AsOf time.Time
	// Closed takes nothing back now, but still looks for jobs that are too old.
	Closed bool
	// Empty says that a look begun before this call found nothing of this queue on
	// the overflow; see OrphanAfter.
	Empty bool
	// Leave gives the way back up to somebody else.
	Leave bool
}

// OrphanAfter is how long a job may be on its way to the overflow. Once a job comes
// back that was set aside so much later than others, or the overflow is empty so much
// later, the records that these have left are given up: what they stand for was never
// stored, or was lost.
const OrphanAfter = 30 * time.Second

// Readmission is one job on its way back.
type Readmission struct {
	Job
	// Order grows along the overflow, at least 1. The engine remembers how far it
	// has come, and takes nothing at or below that again.
	Order  int64
	Ticket Ticket
	// At is when it was put aside (Appended.At), by which its age is judged.
	At time.Time
	// Done says that the caller has dealt with it: pass over it.
	Done bool
}

// Readmitted is the answer to Readmit.
type Readmitted struct {
	// Busy is how long somebody else has the way back to himself; nothing was
	// done. Zero when the call was carried out.
	Busy time.Duration
	// Outcomes of the jobs, in their order.
	Outcomes []readmit.Outcome
	// Order is how far the engine has come: what is at or below it can be dropped.
	Order int64
	// Room is how many more it would take now.
	Room int64
	// Batch is for how much room Room's channel speaks up; less is not worth a call.
	Batch int64
	// Deferred is how many jobs are recorded as deferred.
	Deferred int64
	// Behind is how many are behind, as the engine now believes: more than was said if
	// something was announced.
	Behind int64
	// Missing is how many records were given up (see OrphanAfter).
	Missing int64
	// Now is the engine's time.
	Now time.Time
}
