package queue

import (
	"time"

	"github.com/penstock/penstock/leaky"
)

// Info is a queue and its statistics at one instant.
type Info struct {
	Spec     Spec
	Revision int64
	Pause    Pause

	Waiting   int64
	Scheduled int64
	Leased    int64
	Held      int64 // may have been sent; a person decides
	Deferred  int64 // recorded as such, or last seen on the overflow, whichever is more
	Dead      int64
	Bytes     int64 // that the jobs take which the capacity counts: of each its id, its record and 512
	// DeadBytes and DeferredBytes are what dead jobs and deferred jobs take, counted alike.
	DeadBytes, DeferredBytes int64
	MaxBytes                 int64 // Spec.MaxBytes, or a share of the store; AnyBytes if that is not known
	Lanes                    int64 // that have jobs waiting, the one of jobs that name none included

	Counters

	// OldestWaiting is when the job at the head was appended; zero if none waits.
	OldestWaiting time.Time
	// Outflow is the measured departures a second over the last 10 to 20 s.
	Outflow float64
	// Next is the earliest next departure by the pace.
	Next time.Time
	// Ready is since when, or when, a job can leave that waits, as far as the pace, the receiver, the lanes, what is in
	// flight and the parent allow; zero if something else has to end before. Of a parent, one of the group.
	Ready time.Time
	// LanesRest is whether jobs wait, and none can leave for the limits of its own lane, or what is in flight there.
	LanesRest bool
	// NextDue is when the first scheduled job is; zero if there is none.
	NextDue time.Time
	// Asked is when jobs of the queue were last asked for: by a drainer, or by a worker if it is a pull queue; zero if
	// that is not known.
	Asked time.Time

	// What a Quote goes by: the engine's time, the bucket at that, about the cost of what
	// waits and of what is recorded as deferred, and how many of the jobs that the
	// queue holds came back from the overflow.
	Now          time.Time
	Bucket       leaky.Bucket
	Ahead        int64
	DeferredCost int64
	Back         int64
	// Limits are the states of Spec.Limits, in their order; see Bucket.
	Limits []LimitState
	// Group is what a queue that has children knows of them.
	Group GroupInfo
	// Parent is the queue's parent at about the same instant, nil if there is none; its own is not looked up.
	Parent *Info

	// Stop is until when nothing leaves because of what the receiver answered.
	Stop    Stop
	Circuit CircuitInfo
	// Rate is what the queue sends at: Spec.Rate, or what that has been adapted to. Adaptions are the
	// latest changes of it, newest first, at most MaxAdaptions.
	Rate      leaky.Rate
	Adaptions []Adaption

	// Errors are the latest failures, newest first, at most 10.
	Errors []LastError
}

// LimitState is that of one of Spec.Limits: the bucket of a further pace, or the window of a
// quota.
type LimitState struct {
	Bucket leaky.Bucket
	Window leaky.Window
}

// GroupInfo sums up a parent and its children.
type GroupInfo struct {
	Children int64 // queues that are children; all below is 0 if there are none
	Members  int64 // queues of the group in which jobs wait
	Waiting  int64 // jobs that wait in them
	MaxCost  int64 // the greatest cost of a job that they were given
}

// Size is how many jobs the queue holds, as its capacity counts them.
func (i *Info) Size() int64 { return i.Waiting + i.Scheduled + i.Leased + i.Held }

// Full reports whether the queue has no place, or too few bytes for a job as large as those that it holds.
func (i *Info) Full() bool {
	n := i.Size()
	return n >= i.Spec.Capacity || i.MaxBytes > 0 && n > 0 && i.Bytes+i.Bytes/n > i.MaxBytes
}

// LaneInfo is one lane of a queue at the same instant.
type LaneInfo struct {
	Waiting int64
	// Held is how many jobs its capacity counts: those that wait, are scheduled, leased or held.
	// It is 0 for the lane without a key, which has no capacity.
	Held  int64
	Bytes int64 // that those take
	// Stop is until when nothing leaves it because of what the receiver answered; zero if it goes on.
	Stop time.Time
	// Bucket is that of the lane's rate, under its rule as it is; the zero Bucket if it has none.
	Bucket leaky.Bucket
}

// LastError is one failure that a drainer reported.
type LastError struct {
	At     time.Time `json:"at"`
	ID     string    `json:"id"`
	Reason string    `json:"reason"`
}

// Totals sums up a store.
type Totals struct {
	Queues    int64
	Waiting   int64
	Scheduled int64
	Leased    int64
	Held      int64
	Deferred  int64 // recorded as such
	Dead      int64
}

// SeenFor is for how long a drainer, or a worker, that asked for jobs is taken to live. One that lives asks every 2 s,
// also while all of its handlers are busy; so one that was killed is gone after this.
const SeenFor = 10 * time.Second

// Drainers are who drains a store.
type Drainers struct {
	Seen []Drainer // those that reserved within SeenFor
	// Last is when one last did, whoever that was; zero if that is not known.
	Last  time.Time
	Now   time.Time // by the wall clock of the engine, as all of it is
	Clock ClockState
}

// ClockState is how the engine's clock stands to its host's. The engine's takes part in no jump of the latter.
type ClockState struct {
	Ahead  time.Duration // of the host's clock; negative if it is behind
	Jumps  int64         // of the host's clock, by 5 s or more, as far as they were noticed
	Jumped time.Time     // when the last one was; zero if none was
}

// JumpLasts is for how long after a jump of its host's clock an engine is told to be in trouble.
const JumpLasts = time.Minute

// Jumping reports whether the host's clock jumped just now.
func (d *Drainers) Jumping() bool {
	return !d.Clock.Jumped.IsZero() && d.Now.Sub(d.Clock.Jumped) < JumpLasts
}

// Space is how much of a store is used, in bytes. Limit is 0 if it is not known. At Stop nothing comes in any more,
// while what makes room goes on. Memory says that the figures are of this process' memory, not of the disk.
type Space struct {
	Used, Stop, Limit int64
	Memory            bool
}

// Full reports whether nothing comes in.
func (s Space) Full() bool { return s.Limit > 0 && s.Used >= s.Stop }

// Filling reports whether little is left until then: less than a fifth, and than 4 GiB; of memory a quarter, as from
// about a fifth on a queue that takes nearly all gets no more.
func (s Space) Filling() bool {
	if s.Memory {
		return s.Limit > 0 && s.Stop-s.Used < s.Stop/4
	}
	return s.Limit > 0 && s.Stop-s.Used < min(s.Stop/5, 4<<30)
}

// Drainer is a client that reserved lately.
type Drainer struct {
	Client
	LastSeen time.Time
	// Outflow is how many jobs a second it was granted over the last 10 to 20 s; 0 also where the engine does not count
	// it, as boltq, whose one process drains it alone.
	Outflow float64
}

// JobInfo is where a job is.
type JobInfo struct {
	Queue      string
	ID         string
	State      State
	Position   int64 // 1 is the next of its lane to leave; while waiting, and roughly while deferred
	ETA        ETA   // while waiting, scheduled or deferred
	Cost       int64
	Lane       string
	Priority   int
	Attempts   int       // started and ended or lost
	AppendedAt time.Time // of a deferred one, when it was deferred
	ExpiresAt  time.Time // zero is never; not known of deferred ones and of those that ended otherwise than dead
	// DueAt is the departure of a leased job, or until when a scheduled one waits.
	DueAt   time.Time
	HeldAt  time.Time // since when it is held
	EndedAt time.Time // when it was delivered or died
	Reason  string    // of the last failure
	Why     Why       // it has not left; of Job alone
	// Timeline is its attempts, oldest first: the first and the latest, MaxTimeline at most,
	// beside the one under way. Of a delivered job it is the last one alone, of one that was
	// cancelled or expired none. Of Job, and of dead ones in a list.
	Timeline []Attempt
	// Payload, ContentType and Headers are what it carries, of Job alone: while the engine keeps it, which is until
	// it ends otherwise than dead. Of a deferred job the overflow has it.
	Payload     []byte
	ContentType string
	Headers     map[string]string
}

// AddLast adds the attempt to the timeline that is under way, or that ended with the
// delivery.
func (i *JobInfo) AddLast(a Attempt) {
	if i.State == Delivered {
		a.EndedAt, a.Outcome = i.EndedAt, AttemptDelivered
		if a.At.After(a.EndedAt) {
			a.At = a.EndedAt
		}
	}
	i.Timeline = append(i.Timeline, a)
}
