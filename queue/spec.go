package queue

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/penstock/penstock/leaky"
)

// Defaults and limits of a Spec.
const (
	DefaultBurst       = 1
	DefaultCapacity    = 10_000
	MaxCapacity        = 100_000_000
	DefaultLease       = 30 * time.Second
	MinLease           = time.Second
	MaxLease           = 24 * time.Hour
	DefaultSlack       = 5 * time.Millisecond
	MaxSlack           = time.Minute
	DefaultMaxAttempts = 8
	MaxMaxAttempts     = 1000
	DefaultMinBackoff  = time.Second
	DefaultMaxBackoff  = 10 * time.Minute
	MaxBackoffLimit    = 30 * 24 * time.Hour
	DefaultRetention   = 24 * time.Hour
	MaxRetention       = 365 * 24 * time.Hour
	DefaultRetainMax   = 100_000
	MaxRetainMax       = 100_000_000
	MaxDeliverBytes    = 64 << 10
	DefaultMaxAge      = 24 * time.Hour
	MaxMaxAge          = 365 * 24 * time.Hour
	DefaultLowWater    = 0.5
	DefaultMaxDeferred = 1_000_000
	MaxMaxDeferred     = 100_000_000
	MaxMaxInFlight     = 1_000_000
)

// Duration is a time.Duration that is written as "30s" in JSON and YAML.
type Duration time.Duration

// D returns d as a time.Duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes d as time.Duration.String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%s is not a duration such as 250ms, 30s or 24h", Shorten(string(b), 40))
	}
	*d = Duration(v)
	return nil
}

// Spec is what a queue's owner decides about it. Zero fields mean the defaults
// that Normalize fills in; Rate alone has none and must be given in full.
type Spec struct {
	Name     string     `json:"name"`
	Rate     leaky.Rate `json:"rate"`     // the outflow over all drainers
	Burst    int64      `json:"burst"`    // departures back to back after idleness
	Capacity int64      `json:"capacity"` // waiting, scheduled, leased and held together
	// MaxBytes is how much those jobs may take together, by SizeOf; 0 is a quarter of the store (StoreShare).
	MaxBytes Bytes `json:"max_bytes,omitzero"`
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
	Lease Duration `json:"lease"`
	// Slack is how late a job may start after its departure; later, it is
	// released and its slot is lost.
	Slack     Duration  `json:"slack"`
	Retry     Retry     `json:"retry"`
	Retention Retention `json:"retention"`
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
	MaxAttempts int      `json:"max_attempts"` // including the first
	MinBackoff  Duration `json:"min_backoff"`
	MaxBackoff  Duration `json:"max_backoff"`
	Jitter      string   `json:"jitter"` // full | none
	// Deadline is how long after it was appended a job may fail and still be tried again; 0
	// is for ever.
	Deadline Duration `json:"deadline,omitzero"`
}

// Retention bounds, in age and number, how long ended jobs are remembered.
type Retention struct {
	For Duration `json:"for"`
	Max int64    `json:"max"`
}

// Deferral bounds the overflow of a queue and says how it comes back.
type Deferral struct {
	// MaxAge is how long a job may be deferred before it becomes a dead letter.
	MaxAge Duration `json:"max_age"`
	// LowWater is the part of the capacity up to which jobs that come back fill
	// the queue; the rest is for those who may not wait.
	LowWater float64 `json:"low_water"`
	MaxJobs  int64   `json:"max_jobs"` // deferred at a time
	// ReadmitBetween are the hours in which jobs come back, such as "22:00-06:00"
	// in Timezone; empty is always.
	ReadmitBetween string `json:"readmit_between,omitempty"`
	Timezone       string `json:"timezone,omitempty"` // of the IANA database; empty is UTC
}

// Normalize fills in the defaults.
func (s *Spec) Normalize() {
	def(&s.Burst, DefaultBurst)
	def(&s.Capacity, DefaultCapacity)
	def(&s.Lease, Duration(DefaultLease))
	def(&s.Slack, Duration(DefaultSlack))
	def(&s.Retry.MaxAttempts, DefaultMaxAttempts)
	def(&s.Retry.MinBackoff, Duration(DefaultMinBackoff))
	def(&s.Retry.MaxBackoff, max(Duration(DefaultMaxBackoff), s.Retry.MinBackoff))
	def(&s.Retry.Jitter, "full")
	s.Circuit.normalize()
	def(&s.Retention.For, Duration(DefaultRetention))
	def(&s.Retention.Max, DefaultRetainMax)
	def(&s.Overflow, Reject)
	def(&s.Deferred.MaxAge, s.defaultMaxAge())
	def(&s.Deferred.LowWater, DefaultLowWater)
	def(&s.Deferred.MaxJobs, DefaultMaxDeferred)
	if len(s.Lanes.Overrides) == 0 {
		s.Lanes.Overrides = nil // an empty one says the same
	}
	if len(s.Limits) == 0 {
		s.Limits = nil
	}
	if len(s.Rules) == 0 {
		s.Rules = nil
	}
}

// defaultMaxAge is as long as the retention allows.
func (s *Spec) defaultMaxAge() Duration { return min(Duration(DefaultMaxAge), s.Retention.For) }

// Mark is up to how many places are for jobs that come back from the overflow
// while it has any; the others, at least one, are for those who may not wait.
func (s *Spec) Mark() int64 {
	mark := int64(math.Ceil(s.Deferred.LowWater * float64(s.Capacity)))
	return max(1, min(mark, s.Capacity-1))
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate checks a normalized spec. Its error is a *FieldError.
func (s *Spec) Validate() error {
	if err := ValidateName(s.Name); err != nil {
		return err
	}
	if err := (leaky.Pacer{Rate: s.Rate, Burst: s.Burst}).Validate(); err != nil {
		return fieldErr("burst", "", "%v", err)
	}
	if len(s.Limits) > MaxLimits {
		return fieldErr("limits", "", "are %d, at most %d can hold", len(s.Limits), MaxLimits)
	}
	for i := range s.Limits {
		if err := s.Limits[i].validate(fmt.Sprintf("limits.%d", i)); err != nil {
			return err
		}
	}
	if parent := Parent(s.Name); s.Pull && parent != "" {
		return fieldErr("pull", "", "is true, and the name makes the queue a child of %s; a pull queue can be neither child nor parent, so give it a name without a dot", parent)
	}
	if err := within("capacity", s.Capacity, 1, MaxCapacity); err != nil {
		return err
	}
	if err := validateMaxBytes("max_bytes", s.MaxBytes, MostMaxBytes); err != nil {
		return err
	}
	if err := within("max_in_flight", s.MaxInFlight, 0, MaxMaxInFlight); err != nil {
		return err
	}
	if err := within("max_scheduled", s.MaxScheduled, 0, MaxCapacity); err != nil {
		return err
	}
	if err := s.Lanes.validate(); err != nil {
		return err
	}
	if err := validateRuleNames(s.Rules); err != nil {
		return err
	}
	if err := span("lease", s.Lease, MinLease, MaxLease); err != nil {
		return err
	}
	if err := span("slack", s.Slack, time.Millisecond, MaxSlack); err != nil {
		return err
	}
	if s.Slack > s.Lease {
		return fieldErr("slack", "", "is %v, longer than the lease %v: a job could start after it belonged to somebody else", s.Slack, s.Lease)
	}
	if err := within("retry.max_attempts", int64(s.Retry.MaxAttempts), 1, MaxMaxAttempts); err != nil {
		return err
	}
	if err := span("retry.min_backoff", s.Retry.MinBackoff, time.Millisecond, MaxBackoffLimit); err != nil {
		return err
	}
	if err := span("retry.max_backoff", s.Retry.MaxBackoff, time.Millisecond, MaxBackoffLimit); err != nil {
		return err
	}
	if s.Retry.MaxBackoff < s.Retry.MinBackoff {
		return fieldErr("retry.max_backoff", "", "is %v, below retry.min_backoff %v", s.Retry.MaxBackoff, s.Retry.MinBackoff)
	}
	if s.Retry.Jitter != "full" && s.Retry.Jitter != "none" {
		return fieldErr("retry.jitter", s.Retry.Jitter, "must be full or none")
	}
	if s.Retry.Deadline != 0 {
		if err := span("retry.deadline", s.Retry.Deadline, time.Second, MaxRetention); err != nil {
			return err
		}
	}
	if err := validateUnknown("on_unknown", s.OnUnknown); err != nil {
		return err
	}
	if err := s.Adapt.validate(s.Rate, s.Burst); err != nil {
		return err
	}
	if err := s.Circuit.validate(); err != nil {
		return err
	}
	if err := span("retention.for", s.Retention.For, time.Second, MaxRetention); err != nil {
		return err
	}
	if err := within("retention.max", s.Retention.Max, 1, MaxRetainMax); err != nil {
		return err
	}
	if s.Overflow != Reject && s.Overflow != Defer {
		return fieldErr("overflow", s.Overflow, "must be reject or defer")
	}
	if err := s.Deferred.validate(s.Retention.For); err != nil {
		return err
	}
	if len(s.Deliver) > MaxDeliverBytes {
		return fieldErr("deliver", "", "has %d bytes, the limit is %d", len(s.Deliver), MaxDeliverBytes)
	}
	if deliver, err := canonical(s.Deliver); err != nil {
		return fieldErr("deliver", "", "is not valid JSON: %v", err)
	} else if deliver != nil && deliver[0] != '{' {
		return fieldErr("deliver", "", "must be an object") // not quoted: it may be a URL with a secret
	}
	return nil
}

func (d *Deferral) validate(retention Duration) error {
	if err := span("deferred.max_age", d.MaxAge, time.Second, MaxMaxAge); err != nil {
		return err
	}
	if d.MaxAge > retention {
		// A job that came back must be remembered for as long as a second copy of it,
		// from a repeated request, may still be on the overflow (invariant 7).
		return fieldErr("deferred.max_age", "", "is %v, longer than retention.for %v: a job would be forgotten while a copy of it may still come back", d.MaxAge, retention)
	}
	if !(d.LowWater > 0 && d.LowWater < 1) {
		return fieldErr("deferred.low_water", "", "is %v, must be between 0 and 1", d.LowWater)
	}
	if err := within("deferred.max_jobs", d.MaxJobs, 1, MaxMaxDeferred); err != nil {
		return err
	}
	_, err := d.Window()
	return err
}

func within(field string, v, low, high int64) error {
	if v < low || v > high {
		return fieldErr(field, "", "is %d, must be from %d to %d", v, low, high)
	}
	return nil
}

func validateMaxBytes(field string, v, most Bytes) error {
	if v != 0 && (v < LeastMaxBytes || v > most) {
		return fieldErr(field, "", "is %v, must be from %v to %v", v, Bytes(LeastMaxBytes), most)
	}
	return nil
}

func span(field string, v Duration, low, high time.Duration) error {
	if v.D() < low || v.D() > high || v.D()%time.Microsecond != 0 {
		return fieldErr(field, "", "is %v, must be from %v to %v in whole microseconds", v, low, high)
	}
	return nil
}

// Fastest is the highest rate that the queue can have under this spec.
func (s *Spec) Fastest() leaky.Rate {
	if s.Adapt.On() {
		return s.Adapt.Ceiling
	}
	return s.Rate
}

// Pacer returns the spec's pacing rule for a store with the given horizon.
func (s *Spec) Pacer(horizon time.Duration) leaky.Pacer {
	return leaky.Pacer{Rate: s.Rate, Burst: s.Burst, Horizon: horizon}
}
