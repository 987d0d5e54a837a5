package queue

import (
	"encoding/json"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/unit"
)

// Defaults and bounds that others go by too. The table has all of them.
const (
	DefaultCapacity  = 10_000
	MaxCapacity      = 100_000_000
	DefaultLease     = 30 * time.Second
	MinLease         = time.Second
	DefaultSlack     = 5 * time.Millisecond
	MaxMaxAttempts   = 1000
	MaxBackoffLimit  = 30 * 24 * time.Hour
	DefaultRetention = 24 * time.Hour
	maxRetention     = 365 * 24 * time.Hour
	DefaultMaxAge    = 24 * time.Hour
	MaxMaxDeferred   = 100_000_000
	MaxMaxInFlight   = 1_000_000
	MaxDeliverBytes  = 64 << 10
)

// MaxChildren is the most children of a queue, which one decision has to choose from.
const MaxChildren = 1000

// Spec is what a queue's owner decides about it. Zero fields mean the defaults
// that Normalize fills in; Rate alone has none and must be given in full.
type Spec struct {
	Name     string     `json:"name"`
	Rate     leaky.Rate `json:"rate"`     // the outflow over all drainers
	Burst    int64      `json:"burst"`    // departures back to back after idleness
	Capacity int64      `json:"capacity"` // waiting, scheduled, leased and held together
	// MaxBytes is how much those jobs may take together: of each its id, its record and 512; 0 is a quarter of the
	// store.
	MaxBytes unit.Bytes `json:"max_bytes,omitzero"`
	// Limits hold beside the rate.
	Limits []Limit `json:"limits,omitempty"`
	// MaxInFlight is how many jobs may be leased at a time, over all drainers; 0 is no
	// limit.
	MaxInFlight int64 `json:"max_in_flight,omitzero"`
	// MaxScheduled is how many of the capacity's places may be taken by jobs that are
	// scheduled; 0 is no limit but the capacity.
	MaxScheduled int64 `json:"max_scheduled,omitzero"`
	// Ordered lets only one job of a lane be in flight at a time, and one that failed
	// holds its lane up until it has ended.
	Ordered bool `json:"ordered,omitzero"`
	// Lanes is what holds for each lane.
	Lanes Lanes `json:"lanes,omitzero"`
	// Rules names the rules that decide whether a job comes in, of this queue and its children. Those of its own
	// group are asked with the append, in one step; those of others before it, by package admission.
	Rules []string `json:"rules,omitempty"`
	// Lease is how long after its departure a job belongs to its drainer.
	Lease unit.Duration `json:"lease"`
	// Slack is how late a job may start after its departure; later, it is
	// released and its slot is lost.
	Slack     unit.Duration `json:"slack"`
	Retry     Retry         `json:"retry"`
	Retention Retention     `json:"retention"`
	// OnUnknown says what becomes of a job of which nobody can know whether it was sent:
	// UnknownRetry, UnknownHold or UnknownDead. Empty is UnknownHold if a handler says so,
	// and UnknownRetry of a lease that ran out. Otherwise it goes for both.
	OnUnknown string `json:"on_unknown,omitempty"`
	// Adapt lets Rate follow what the receiver takes.
	Adapt Adapt `json:"adapt,omitzero"`
	// Circuit says when the target is taken to be down.
	Circuit Circuit `json:"circuit"`
	// Overflow says what becomes of jobs that find no room, unless they choose for
	// themselves: Reject or Defer.
	Overflow string `json:"overflow"`
	// Deferred is how jobs wait that were put on the overflow.
	Deferred Deferral `json:"deferred"`
	// Pull keeps the jobs for those who ask for this queue by name (ReserveRequest.Queue);
	// no drainer is granted one.
	Pull bool `json:"pull,omitzero"`
	// Deliver names the target and its settings. Engines keep it and never
	// read it; package deliver does.
	Deliver json.RawMessage `json:"deliver,omitempty"`
}

// Retry says how often and how soon a failed job is tried again: exponential
// backoff between MinBackoff and MaxBackoff.
type Retry struct {
	MaxAttempts int           `json:"max_attempts"` // including the first
	MinBackoff  unit.Duration `json:"min_backoff"`
	MaxBackoff  unit.Duration `json:"max_backoff"`
	Jitter      string        `json:"jitter"` // full | none
	// Deadline is how long after it was appended a job may fail and still be tried again; 0
	// is for ever.
	Deadline unit.Duration `json:"deadline,omitzero"`
}

// Retention bounds, in age and number, how long ended jobs are remembered.
type Retention struct {
	For unit.Duration `json:"for"`
	Max int64         `json:"max"`
}

// Deferral bounds the overflow of a queue and says how it comes back.
type Deferral struct {
	// MaxAge is how long a job may be deferred before it becomes a dead letter.
	MaxAge unit.Duration `json:"max_age"`
	// LowWater is the part of the capacity up to which jobs that come back fill
	// the queue; the rest is for those who may not wait.
	LowWater float64 `json:"low_water"`
	MaxJobs  int64   `json:"max_jobs"` // deferred at a time
	// ReadmitBetween are the hours in which jobs come back, such as "22:00-06:00"
	// in Timezone; empty is always.
	ReadmitBetween string `json:"readmit_between,omitempty"`
	Timezone       string `json:"timezone,omitempty"` // of the IANA database; empty is UTC
}
