package queue

import (
	"time"

	"github.com/penstock/penstock/leaky"
)

// Info has a queue and its statistics at one instant.
type Info struct {
	Spec     Spec
	Revision int64
	Pause    Pause

	Waiting   int64
	Scheduled int64
	Leased    int64
	Held      int64 // may have been sent; wait for a person's decision
	Deferred  int64 // recorded as deferred, or last seen on the overflow; the larger number
	Dead      int64
	Bytes     int64 // of the jobs that the capacity counts: per job its id, its record and 512
	// DeadBytes and DeferredBytes are the bytes of dead and deferred jobs, counted the same way.
	DeadBytes, DeferredBytes int64
	MaxBytes                 int64 // Spec.MaxBytes, or a share of the store; AnyBytes if unknown
	Lanes                    int64 // lanes with waiting jobs, including the lane of jobs without one
	LaneWeights              int64 // sum of their weights

	Counters

	// OldestWaiting is when the job at the head was appended; zero if no job waits.
	OldestWaiting time.Time
	// Outflow is the measured number of departures per second over the last 10 to 20 s.
	Outflow float64
	// Next is the earliest next departure that the pace allows.
	Next time.Time
	// Ready is when a waiting job can leave, or since when, as far as the pace, the receiver, lanes, jobs in flight
	// and the parent allow. It is zero if something else must end first. For a parent it is about a job of the group.
	Ready time.Time
	// LanesRest is whether jobs wait but each lane's own limits, or its jobs in flight, hold them all back.
	LanesRest bool
	// NextDue is when the first scheduled job is due; zero if no job is scheduled.
	NextDue time.Time
	// Asked is when a drainer, or a worker of a pull queue, last asked for jobs of the queue; zero if unknown.
	Asked time.Time

	// A Quote is computed from these. Now is the engine's time, and Bucket the bucket at that time. Ahead and DeferredCost
	// are the approximate costs of the waiting and the deferred jobs. Back is how many jobs in the queue came back from
	// the overflow.
	Now          time.Time
	Bucket       leaky.Bucket
	Ahead        int64
	DeferredCost int64
	Back         int64
	// Limits are the states of Spec.Limits, in order.
	Limits []LimitState
	// Learned are the actual costs that Estimate.Learn goes by, sorted by unit.
	Learned []LearnedCosts
	// Group sums up the children if the queue has any.
	Group GroupInfo
	// Parent is the queue's parent at about the same instant, or nil. The parent's own Parent is not set.
	Parent *Info

	// Stop says until when nothing leaves because of the receiver's answer.
	Stop    Stop
	Circuit CircuitInfo
	// Rate is the present rate: Spec.Rate, or the adapted one. RateChanges are its latest changes, newest first, at most
	// MaxRateChanges.
	Rate        leaky.Rate
	RateChanges []RateChange

	// Errors are the latest failures, newest first, at most 10.
	Errors []LastError
}

// LimitState is the state of one of Spec.Limits: the bucket of a pace, or the window of a quota. Of a budget, Bucket is
// that of its leaky.Balance.
type LimitState struct {
	Bucket leaky.Bucket
	Window leaky.Window
}

// QuotaState is a quota in its present window.
type QuotaState struct {
	leaky.Window
	Max  int64     // of this window
	Ramp RampState // zero without a ramp
}

// Left returns what is left of the quota.
func (s *QuotaState) Left() int64 { return max(0, s.Max-s.Used) }

// QuotaState returns the state of Spec.Limits[k]. ok is false if the limit is a pace, if it is newer than i.Limits, or
// if this machine does not know its time zone.
func (i *Info) QuotaState(k int) (s QuotaState, ok bool) {
	l := &i.Spec.Limits[k]
	if !l.HasQuota() || k >= len(i.Limits) {
		return s, false
	}
	q, err := l.QuotaRule(i.Now)
	if err != nil {
		return s, false
	}
	if s.Window = i.Limits[k].Window; s.Ends <= leaky.Instant(i.Now.UnixMicro()) {
		s.Window = q.At(s.Window, leaky.Instant(i.Now.UnixMicro()))
	}
	if s.Max = q.Most(s.Window); l.Ramp.On() {
		s.Ramp = rampState(q, s.Window)
	}
	return s, true
}

// BudgetState is how much of a budget is in use.
type BudgetState struct {
	Used int64     // of the burst; more than the burst is a debt
	Free time.Time // when nothing is in use, if nothing leaves until then
}

// BudgetState returns the state of Spec.Limits[k]. ok is false if the limit is not a budget, or is newer than i.Limits.
func (i *Info) BudgetState(k int) (s BudgetState, ok bool) {
	l := &i.Spec.Limits[k]
	if !l.IsBudget() || k >= len(i.Limits) {
		return s, false
	}
	return l.budgetState(i.Limits[k], i.Now), true
}

func (l *Limit) budgetState(s LimitState, at time.Time) BudgetState {
	b, now := leaky.BalanceOf(s.Bucket), leaky.Instant(at.UnixMicro())
	return BudgetState{Used: l.Budget().Used(&b, now), Free: max(b.TAT, now).Time()}
}

// GroupInfo sums up a parent and its children. Pull children count only as children: whether their jobs leave is up to
// their clients.
type GroupInfo struct {
	Children int64 // if 0, the other fields are 0
	Members  int64 // queues of the group with waiting jobs
	Weight   int64 // sum of their weights
	Weights  int64 // sum of the weights of all children, pull children too
	Waiting  int64 // jobs waiting in the group
	MaxCost  int64 // highest cost of a job in the group
}

// Size returns how many jobs the queue holds, as its capacity counts them.
func (i *Info) Size() int64 { return i.Waiting + i.Scheduled + i.Leased + i.Held }

// Guaranteed returns how many jobs per second a child can let out whatever its siblings do: its part of the parent's
// rate by weight. A parent counts while it holds jobs of its own. ok is false for other queues, and if the parent
// has no rate.
func (i *Info) Guaranteed() (perSecond float64, ok bool) {
	p := i.Parent
	if p == nil || p.slowest().Unlimited() {
		return 0, false
	}
	own, all := i.Spec.Share(), p.Group.Weights
	if p.Size()+p.Deferred > 0 {
		all += p.Spec.Share()
	}
	return capped(p.slowest().PerSecond()*float64(own)/float64(max(own, all)), i.slowest()), true
}

// slowest returns the lowest of the rate and the further rates.
func (i *Info) slowest() leaky.Rate {
	rate := i.Rate
	for _, l := range i.Spec.Limits {
		if l.Paced() && l.Rate.Interval() > rate.Interval() {
			rate = l.Rate
		}
	}
	return rate
}

// LaneGuaranteed returns how many jobs per second a lane can let out beside the lanes that have waiting jobs now. ok is
// false if neither the queue nor its parent has a rate.
func (i *Info) LaneGuaranteed(key string) (perSecond float64, ok bool) {
	of, child := i.Guaranteed()
	rule, share := i.Spec.Lanes.Of(key), i.Spec.Share()
	switch {
	case child:
	case i.slowest().Unlimited():
		return 0, false
	default: // beside its own children, if it has any
		of = i.slowest().PerSecond() * float64(share) / float64(share+i.Group.Weights)
	}
	return capped(of*float64(rule.Share())/float64(max(rule.Share(), i.LaneWeights)), rule.Rate), true
}

// capped returns the lower of a rate per second and a rate.
func capped(perSecond float64, by leaky.Rate) float64 {
	if by.Unlimited() {
		return perSecond
	}
	return min(perSecond, by.PerSecond())
}

// Full reports whether the queue has no place left, or too few bytes for a job of average size.
func (i *Info) Full() bool {
	n := i.Size()
	return n >= i.Spec.Capacity || i.MaxBytes > 0 && n > 0 && i.Bytes+i.Bytes/n > i.MaxBytes
}

// LaneInfo has one lane of a queue at the same instant.
type LaneInfo struct {
	Waiting int64
	// Size is how many jobs count toward the lane's capacity: waiting, scheduled, leased and held. It is 0 for the lane
	// without a key, which has no capacity.
	Size  int64
	Bytes int64 // of these jobs
	// Stop is until when nothing leaves the lane because of the receiver's answer, or zero.
	Stop time.Time
	// Bucket is the bucket of the lane's rate under its present rule; zero if the lane has no rate.
	Bucket leaky.Bucket
	// Limits are the states of the limits of its rule, in order.
	Limits []LimitState
}

// LastError is a failure that a drainer reported.
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
	Deferred  int64 // recorded as deferred
	Dead      int64
}

// SeenFor is how long a drainer or worker counts as alive after it asked for jobs. Live clients ask every 2 s, even
// while all their handlers are busy, so a killed one is gone after SeenFor.
const SeenFor = 10 * time.Second

// Drainers are the clients that drain a store.
type Drainers struct {
	Seen []Drainer // clients that reserved within SeenFor
	// Last is when any client last reserved; zero if unknown.
	Last  time.Time
	Now   time.Time // by the engine's wall clock, like all times here
	Clock ClockState
}

// ClockState relates the engine's clock to its host's, whose jumps the engine's clock does not follow.
type ClockState struct {
	Ahead  time.Duration // of the host's clock; negative if behind
	Jumps  int64         // noticed jumps of the host's clock by 5 s or more
	Jumped time.Time     // time of the last jump, or zero
}

// JumpLasts is how long a jump of its host's clock marks an engine as degraded.
const JumpLasts = time.Minute

// Jumping reports whether the host's clock jumped within JumpLasts.
func (d *Drainers) Jumping() bool {
	return !d.Clock.Jumped.IsZero() && d.Now.Sub(d.Clock.Jumped) < JumpLasts
}

// Space is the use of a store, in bytes. Limit is 0 if unknown. From Stop on, the store accepts no jobs, but calls
// that free room still work. Memory says that the figures are about this process's memory, not the disk.
type Space struct {
	Used, Stop, Limit int64
	Memory            bool
	// Data is the number of bytes of the store's own data if Used includes the data of others; else 0.
	Data int64
}

// Full reports whether the store accepts no more jobs.
func (s Space) Full() bool { return s.Limit > 0 && s.Used >= s.Stop }

// Filling reports whether little room is left before Stop: less than a fifth and less than 4 GiB. For memory the
// threshold is a quarter, because from about a fifth on, a queue that takes nearly everything gets no more.
func (s Space) Filling() bool {
	if s.Memory {
		return s.Limit > 0 && s.Stop-s.Used < s.Stop/4
	}
	return s.Limit > 0 && s.Stop-s.Used < min(s.Stop/5, 4<<30)
}

// Drainer is a client that reserved recently.
type Drainer struct {
	Client
	LastSeen time.Time
	// Outflow is how many jobs per second it was granted over the last 10 to 20 s. It is 0 if the engine does not
	// count this, like boltq, which a single process drains.
	Outflow float64
}

// JobInfo describes a job and its state.
type JobInfo struct {
	Queue      string
	ID         string
	State      State
	Position   int64 // 1 is the next of its lane to leave; while waiting, and roughly while deferred
	ETA        ETA   // while waiting, scheduled or deferred
	Cost       int64
	Costs      map[string]int64 // in other units, while the engine keeps the job
	Lane       string
	Batch      string
	Priority   int
	Attempts   int       // attempts that ended or were lost
	AppendedAt time.Time // of a deferred job, when it was deferred
	ExpiresAt  time.Time // zero means never; unknown for deferred jobs, and ended jobs that are not dead
	// DueAt is the departure of a leased job, or when a scheduled job is due.
	DueAt   time.Time
	HeldAt  time.Time // when it was held
	EndedAt time.Time // when it was delivered or died
	Reason  string    // of the last failure
	Why     Why       // only from Jobs.Job
	// Timeline has the attempts, oldest first: the first and the latest, at most MaxTimeline, plus one in progress. A
	// delivered job has only the last attempt; a cancelled or expired job has none. Lists show it only for dead jobs, and
	// for delivered jobs without the drainer.
	Timeline []Attempt
	// Payload, ContentType and Headers are set by Jobs.Job while the engine keeps them: until the job ends, or beyond
	// if it is dead. For a deferred job the overflow has them.
	Payload     []byte
	ContentType string
	Headers     map[string]string
}

// AddLast adds the attempt in progress, or the attempt that delivered the job, to the timeline.
func (i *JobInfo) AddLast(a Attempt) {
	if i.State == Delivered {
		a.EndedAt, a.Outcome = i.EndedAt, AttemptDelivered
		if a.At.After(a.EndedAt) {
			a.At = a.EndedAt
		}
	}
	i.Timeline = append(i.Timeline, a)
}
