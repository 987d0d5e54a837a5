package queue

import (
	"cmp"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// Client is one process that reserves jobs.
type Client struct {
	ID      string // unique to the process, 1 to 64 visible ASCII characters
	Name    string // for display, such as host and pid
	Version string
}

// ReserveRequest asks for jobs.
type ReserveRequest struct {
	Partition int
	Client    Client
	Number    uint64 // grows with every request of this client to this partition
	// Max is how many handlers are free, 0 to MaxReserve. A client with no free handler still asks at least every
	// SeenFor/4. So the engine knows it is alive, and lets it do work that no other client would do.
	Max int
	// Queue restricts the request to one pull queue; the engine then ignores Partition. The caller counts as a
	// separate client per queue and not as a drainer. Errors also: ErrUnknownQueue, and an *invalid.Error if the queue
	// is not a pull queue.
	Queue string
	// Lead is how long the client's recent calls took. No paced departure is granted sooner, because the answer would
	// arrive after it.
	Lead time.Duration
	// Uncertainty is the time between the earliest and the latest possible reading of the engine's clock at the client.
	// For this long after a departure granted to the client, clients with other clocks get no grant: the jobs could start
	// too close together. It is 0 if the client starts jobs only within their slack, whatever the clock shows: because
	// that time is within the slack of a fast queue, or because it exceeds Horizon.
	Uncertainty time.Duration
	// Latest is the latest time the engine's clock can show when the request is made, by the client's monotonic clock;
	// zero if unknown. With it the engine distinguishes a jump of its host's clock from time that passes.
	Latest time.Time
	// Clock names the clock of Uncertainty, for clients that share a process. The default is Client.ID.
	Clock string
	// Shares limits how many jobs are granted per queue it names: 0 leaves the queue to other clients. At most
	// MaxShares entries; unknown names are ignored, and so is all of Shares when Queue is set.
	Shares map[string]int
}

// MaxShares is the maximum number of queues in ReserveRequest.Shares.
const MaxShares = 1000

// ClockID returns Clock or its default.
func (r *ReserveRequest) ClockID() string { return cmp.Or(r.Clock, r.Client.ID) }

// Check checks everything that does not depend on the store. Errors: an *invalid.Error.
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

// MaxReserve is the maximum number of jobs granted in one Reserve.
const MaxReserve = 500

// MaxVisits is the maximum number of queues that one Reserve visits, so that no call takes long however many are due.
// A member of a group counts once it is tried. Choosing one job of a group may try several members, and so exceed the
// maximum. Reserved.Next is zero when more queues are due.
const MaxVisits = 20

// MaxReserveBytes is the approximate maximum of payload bytes granted in one Reserve.
const MaxReserveBytes = 4 << 20

// Reserved is what a client was granted, and when to ask again.
type Reserved struct {
	Jobs []Reservation
	// Now is the time on the engine's clock from which the departures of Jobs are counted.
	Now time.Time
	// Expired lists the queues of the leases that this call took back, one entry per lease.
	Expired []string
	// Lost counts, by queue, the departures that a backlogged queue could have had since the last call and did not.
	Lost map[string]int64
	// Short names the queues with more due jobs than Shares allowed. Next ignores them: ask again as soon as a handler
	// is free for one.
	Short []string
	// Next is how long to wait before asking again, for a departure, a lease that runs out or a job that expires. Zero
	// means that more is due than Max or MaxVisits allowed.
	Next time.Duration
	// Backup is how long to wait after a Wakeup that names another client.
	Backup time.Duration
	// Garbage reports whether Sweep has work in this partition.
	Garbage bool
}

// Reservation is a departure granted to a client.
type Reservation struct {
	Job
	Fence Fence
	// In is when the job departs, relative to the reply. The job must not start before In after the reply arrived, or
	// later than In + slack after the request was sent. It is negative if a replayed grant is already past.
	In time.Duration
	// Lease is how long after its departure the job belongs to the client.
	Lease time.Duration
	// Attempt counts from 1.
	Attempt int
	// Revision is the revision of the queue's spec, for caches.
	Revision   int64
	AppendedAt time.Time
	// Age is how long ago AppendedAt was when the reply arrived, by the engine's clock.
	Age time.Duration
}

// Fence distinguishes the present holder of a job from earlier ones. It is opaque.
type Fence string

// Lease identifies a lease.
type Lease struct {
	Queue, ID string
	Fence     Fence
}
