package queue

import (
	"encoding/json"
	"fmt"
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
	Capacity int64      `json:"capacity"` // waiting, scheduled and leased together
	// Lease is how long after its departure a job belongs to its drainer.
	Lease Duration `json:"lease"`
	// Slack is how late a job may start after its departure; later, it is
	// released and its slot is lost.
	Slack     Duration  `json:"slack"`
	Retry     Retry     `json:"retry"`
	Retention Retention `json:"retention"`
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
}

// Retention bounds, in age and number, how long ended jobs are remembered.
type Retention struct {
	For Duration `json:"for"`
	Max int64    `json:"max"`
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
	def(&s.Retention.For, Duration(DefaultRetention))
	def(&s.Retention.Max, DefaultRetainMax)
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
	if err := within("capacity", s.Capacity, 1, MaxCapacity); err != nil {
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
	if err := span("retention.for", s.Retention.For, time.Second, MaxRetention); err != nil {
		return err
	}
	if err := within("retention.max", s.Retention.Max, 1, MaxRetainMax); err != nil {
		return err
	}
	if len(s.Deliver) > MaxDeliverBytes {
		return fieldErr("deliver", "", "has %d bytes, the limit is %d", len(s.Deliver), MaxDeliverBytes)
	}
	if deliver, err := canonical(s.Deliver); err != nil {
		return fieldErr("deliver", "", "is not valid JSON: %v", err)
	} else if deliver != nil && deliver[0] != '{' {
		return fieldErr("deliver", string(deliver), "must be an object")
	}
	return nil
}

func within(field string, v, low, high int64) error {
	if v < low || v > high {
		return fieldErr(field, "", "is %d, must be from %d to %d", v, low, high)
	}
	return nil
}

func span(field string, v Duration, low, high time.Duration) error {
	if v.D() < low || v.D() > high || v.D()%time.Microsecond != 0 {
		return fieldErr(field, "", "is %v, must be from %v to %v in whole microseconds", v, low, high)
	}
	return nil
}

// Pacer returns the spec's pacing rule for a store with the given horizon.
func (s *Spec) Pacer(horizon time.Duration) leaky.Pacer {
	return leaky.Pacer{Rate: s.Rate, Burst: s.Burst, Horizon: horizon}
}
