package queue

import (
	"encoding/json"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/unit"
)

// Defaults and bounds that others go by too. The table has all of them.
const (
	DefaultCapacity = 10_000
	MaxCapacity     = 100_000_000
	DefaultLease    = 30 * time.Second
	MinLease        = time.Second
	// LeastSlack and MostSlack bound the slack that a queue has by default, a hundredth of its interval.
	LeastSlack       = 5 * time.Millisecond
	MostSlack        = 500 * time.Millisecond
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
	// Slack is how late a job may start after its departure; later, it is released and its slot is lost. 0 is
	// EffectiveSlack's default, which follows the rate.
	Slack     unit.Duration `json:"slack,omitzero"`
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

// Circuit says when a target is taken to be down, and how it is then probed. After the pattern of M. Nygard, "Release
// It!", 2007.
type Circuit struct {
	// Failures in a row open it: answers that are the target's fault, whosever job it was, or none for Slow.
	Failures int64 `json:"failures"`
	// MinProbe is how long nothing is sent then; it doubles from probe to probe, to MaxProbe.
	MinProbe unit.Duration `json:"min_probe"`
	MaxProbe unit.Duration `json:"max_probe"`
	// Slow is how long attempts may go on without an answer from the target: each time that it passes counts as a
	// failure. So a receiver that hangs is found out long before an attempt's own timeout. Not of pull queues.
	Slow unit.Duration `json:"slow"`
	// Off keeps it closed, whatever the target does.
	Off bool `json:"off,omitzero"`
}

// Retention bounds, in age and number, how long ended jobs are remembered.
type Retention struct {
	For unit.Duration `json:"for"`
	Max int64         `json:"max"`
	// Full says what gives way when dead jobs leave a new job no room within MaxBytes: DropDead, also if empty, or Reject.
	Full string `json:"full,omitempty"`
}

// DropDead drops the oldest dead jobs, as many as a new job needs.
const DropDead = "drop"

// Deferral bounds the overflow of a queue and says how it comes back.
type Deferral struct {
	// MaxAge is how long a job may be deferred before it becomes a dead letter.
	MaxAge unit.Duration `json:"max_age"`
	// LowWater is the part of the capacity up to which jobs that come back fill
	// the queue; the rest is for those who may not wait.
	LowWater float64 `json:"low_water"`
	MaxJobs  int64   `json:"max_jobs"` // deferred at a time
	// MaxBytes bounds the bytes of the deferred jobs. With 0 they count toward Spec.MaxBytes, if that is given.
	MaxBytes unit.Bytes `json:"max_bytes,omitzero"`
	// ReadmitBetween are the hours in which jobs come back, such as "22:00-06:00"
	// in Timezone; empty is always.
	ReadmitBetween string `json:"readmit_between,omitempty"`
	Timezone       string `json:"timezone,omitempty"` // of the IANA database; empty is UTC
}

// specSettings is the table of the settings of a queue, a row for each field of Spec, in the order in which they are
// validated.
var specSettings = []setting[Spec]{
	{
		name: "name", at: func(s *Spec) any { return &s.Name },
		doc:   "The queue's name: a-z 0-9 _ -, at most 64; group.child is a child of group.",
		check: func(s *Spec, _ string) error { return names.Validate(s.Name) },
	},
	{
		name: "rate", at: func(s *Spec) any { return &s.Rate }, example: "14/s",
		doc: "The outflow over all drainers: NUMBER/s, /m, /h, /d, NUMBER/DURATION, or unlimited.",
	},
	{
		name: "burst", at: func(s *Spec) any { return &s.Burst },
		preset: 1, min: 1,
		doc: "How many may leave back to back after idleness.",
		check: func(s *Spec, field string) error {
			return invalid.In(field, leaky.Pacer{Rate: s.Rate, Burst: s.Burst}.Validate())
		},
	},
	{
		name: "limits", at: func(s *Spec) any { return &s.Limits },
		items: describe("limits[].", limitSettings),
		doc:   "What holds beside the rate, at most 4. Without a rate, the first one among them is the rate.",
		check: func(s *Spec, field string) error { return validateLimits(s.Limits, field) },
	},
	{
		name: "pull", at: func(s *Spec) any { return &s.Pull },
		preset: false,
		doc: "Whether the jobs are for workers that ask for them, and no drainer is given any." +
			" Such a queue can be neither parent nor child.",
		check: func(s *Spec, field string) error { return s.validatePull(field) },
	},
	{
		name: "capacity", at: func(s *Spec) any { return &s.Capacity }, scripts: true,
		preset: DefaultCapacity, min: 1, max: MaxCapacity,
		doc: "How many jobs the queue may hold: waiting, scheduled, leased and held together.",
	},
	{
		name: "max_bytes", at: func(s *Spec) any { return &s.MaxBytes }, scripts: true,
		absent: "a quarter of the store", min: leastMaxBytes, max: MostMaxBytes,
		doc: "How many bytes its jobs may take, dead and deferred ones too. A job takes its payload, headers, content" +
			" type, lane and id, and 512 bytes.",
	},
	{
		name: "max_in_flight", at: func(s *Spec) any { return &s.MaxInFlight }, scripts: true,
		absent: "no limit", max: MaxMaxInFlight,
		doc: "How many jobs may be leased at a time, over all drainers.",
	},
	{
		name: "max_scheduled", at: func(s *Spec) any { return &s.MaxScheduled }, scripts: true,
		absent: "the capacity", max: MaxCapacity,
		doc: "How many of the capacity's places scheduled jobs may take, those that back off included.",
	},
	{
		name: "ordered", at: func(s *Spec) any { return &s.Ordered }, scripts: true,
		preset: false,
		doc: "Whether one job of a lane is in flight at a time, and one that failed holds its lane up." +
			" The next leaves when the one before it has ended, well or not.",
	},
	{
		name: "lanes", items: append(describe("lanes.", laneSettings), laneOverrides),
		doc: "What holds for each lane by itself, within what holds for the queue. Not for the jobs that name no " +
			"lane.",
		check: func(s *Spec, field string) error { return s.Lanes.validate(field) },
	},
	{
		name: "rules", at: func(s *Spec) any { return &s.Rules },
		doc: "The rules by which a job may come in, at most 8. They must exist." +
			" A child's jobs are asked by those of its parent too.",
		check: func(s *Spec, _ string) error { return validateRuleNames(s.Rules) },
	},
	{
		name: "lease", at: func(s *Spec) any { return &s.Lease }, scripts: true,
		preset: DefaultLease, min: MinLease, max: 24 * time.Hour,
		doc: "How long after its departure a job belongs to its drainer.", holds: nextGrant,
	},
	{
		name: "slack", at: func(s *Spec) any { return &s.Slack },
		absent: "a hundredth of the interval, from 5ms to 500ms", min: time.Millisecond, max: time.Minute,
		doc: "Time after its departure by which a job must start; later, its slot is lost. At most the lease." +
			" The default of a child is 5ms, as its parent may be faster; 0s is the default.",
		holds: nextGrant,
		check: func(s *Spec, field string) error {
			if s.Slack > s.Lease { // the default is shorter than any lease
				return invalid.Errorf(field, "", "is %v, longer than the lease %v: a job could start after it belonged to "+
					"somebody else",
					s.Slack, s.Lease)
			}
			return nil
		},
	},
	{name: "retry", doc: "How often and how soon a failed job is tried again."},
	{
		name: "retry.max_attempts", at: func(s *Spec) any { return &s.Retry.MaxAttempts }, scripts: true,
		preset: 8, min: 1, max: MaxMaxAttempts,
		doc: "How often a job is tried, the first time included; then it is dead.", holds: nextFailure,
	},
	{
		name: "retry.min_backoff", at: func(s *Spec) any { return &s.Retry.MinBackoff },
		preset: time.Second,
		min:    time.Millisecond, max: MaxBackoffLimit, holds: nextFailure,
		doc: "How long the first backoff takes; it doubles from failure to failure.",
	},
	{
		name: "retry.max_backoff", at: func(s *Spec) any { return &s.Retry.MaxBackoff },
		preset:   10 * time.Minute,
		presetBy: func(s *Spec) any { return max(10*time.Minute, s.Retry.MinBackoff.D()) },
		min:      time.Millisecond, max: MaxBackoffLimit, holds: nextFailure,
		doc: "The longest backoff. At least min_backoff, which it is by default if that is longer.",
		check: func(s *Spec, field string) error {
			return notBelow(field, s.Retry.MaxBackoff, "retry.min_backoff", s.Retry.MinBackoff)
		},
	},
	{
		name: "retry.jitter", at: func(s *Spec) any { return &s.Retry.Jitter },
		preset: "full", values: []string{"full", "none"},
		doc: "Whether backoffs are up to twice as long by chance." +
			" Jobs that failed together then do not come back together.",
		holds: nextFailure,
	},
	{
		name: "retry.deadline", at: func(s *Spec) any { return &s.Retry.Deadline }, scripts: true,
		absent: "none", min: time.Second, max: maxRetention,
		doc: "How long after it was appended a job may fail and still be tried again.", holds: nextFailure,
	},
	{
		name: "on_unknown", at: func(s *Spec) any { return &s.OnUnknown }, scripts: true,
		absent: "the target decides",
		values: []string{UnknownRetry, UnknownHold, UnknownDead},
		doc: "What becomes of a job of which nobody can know whether it was sent." +
			" The default of sms and smtp is hold, that of the other targets retry.",
	},
	{
		name: "adapt", at: func(s *Spec) any { return &s.Adapt },
		doc:   "Lets the rate follow what the receiver takes, between two bounds.",
		check: func(s *Spec, _ string) error { return s.Adapt.validate(s.Rate, s.Burst) },
	},
	{
		name: "adapt.floor", at: func(s *Spec) any { return &s.Adapt.Floor },
		required: true, example: "2/s",
		doc: "The least rate, however often the receiver throttles.",
	},
	{
		name: "adapt.ceiling", at: func(s *Spec) any { return &s.Adapt.Ceiling },
		required: true, example: "20/s",
		doc: "The rate that is never exceeded. The queue's rate must be from the floor to it.",
	},
	{name: "circuit", doc: "When the target is taken to be down, and how it is then probed."},
	{
		name: "circuit.failures", at: func(s *Spec) any { return &s.Circuit.Failures },
		preset: 5, min: 1, max: 1_000_000,
		doc: "How many failures in a row open the circuit, if they are the target's fault. Over all drainers.",
	},
	{
		name: "circuit.min_probe", at: func(s *Spec) any { return &s.Circuit.MinProbe },
		preset: time.Second, min: time.Millisecond, max: MaxStop,
		doc: "How long nothing is sent before the first probe; it doubles from probe to probe.",
	},
	{
		name: "circuit.max_probe", at: func(s *Spec) any { return &s.Circuit.MaxProbe },
		preset:   time.Minute,
		presetBy: func(s *Spec) any { return max(time.Minute, s.Circuit.MinProbe.D()) },
		min:      time.Millisecond, max: MaxStop,
		doc: "The longest time between probes. At least min_probe, which it is by default if that is longer.",
		check: func(s *Spec, field string) error {
			return notBelow(field, s.Circuit.MaxProbe, "circuit.min_probe", s.Circuit.MinProbe)
		},
	},
	{
		name: "circuit.slow", at: func(s *Spec) any { return &s.Circuit.Slow },
		preset: 10 * time.Second, min: time.Second, max: MaxStop,
		doc: "How long attempts may go on without an answer: each time that it passes counts as a failure. Not of pull" +
			" queues.",
	},
	{
		name: "circuit.off", at: func(s *Spec) any { return &s.Circuit.Off },
		preset: false,
		doc:    "Whether the circuit never opens, whatever the target does.",
	},
	{name: "retention", doc: "How long ended jobs are remembered."},
	{
		name: "retention.for", at: func(s *Spec) any { return &s.Retention.For },
		preset: DefaultRetention, min: time.Second, max: maxRetention,
		doc: "How long an ended job is remembered.", scripts: true, holds: nextEnd,
	},
	{
		name: "retention.max", at: func(s *Spec) any { return &s.Retention.Max }, scripts: true,
		preset: 100_000, min: 1, max: 100_000_000,
		doc: "How many ended jobs are remembered; fewer if max_bytes leaves little.",
	},
	{
		name: "retention.full", at: func(s *Spec) any { return &s.Retention.Full }, scripts: true,
		absent: "drop", values: []string{DropDead, Reject},
		doc: "What gives way when dead jobs fill max_bytes. drop drops the oldest; reject refuses new jobs.",
	},
	{
		name: "overflow", at: func(s *Spec) any { return &s.Overflow }, scripts: true,
		preset: Reject, values: []string{Reject, Defer},
		doc: "What becomes of a job that finds no room, unless it chooses for itself.",
	},
	{name: "deferred", doc: "How jobs wait that were put on the overflow."},
	{
		name: "deferred.max_age", at: func(s *Spec) any { return &s.Deferred.MaxAge },
		preset:   DefaultMaxAge,
		presetBy: func(s *Spec) any { return min(DefaultMaxAge, s.Retention.For.D()) },
		min:      time.Second, max: maxRetention, scripts: true,
		doc:   "How long a job may be deferred before it is dead. At most retention.for, which it is if that is less.",
		check: func(s *Spec, field string) error { return s.validateMaxAge(field) },
	},
	{
		name: "deferred.low_water", at: func(s *Spec) any { return &s.Deferred.LowWater },
		preset: 0.5, min: 0.0, max: 1.0,
		doc: "The part of the capacity that jobs which come back may fill. The rest, one place at least, is for those" +
			" that may not wait.",
	},
	{
		name: "deferred.max_jobs", at: func(s *Spec) any { return &s.Deferred.MaxJobs }, scripts: true,
		preset: 1_000_000, min: 1, max: MaxMaxDeferred,
		doc: "How many may be deferred at a time; then the answer is 429 overflow_full.",
	},
	{
		name: "deferred.max_bytes", at: func(s *Spec) any { return &s.Deferred.MaxBytes }, scripts: true,
		absent: "within max_bytes", min: leastMaxBytes, max: MostMaxBytes,
		doc: "How many bytes may be deferred at a time. They then do not count toward max_bytes.",
	},
	{
		name: "deferred.readmit_between", at: func(s *Spec) any { return &s.Deferred.ReadmitBetween },
		absent: "always", example: "22:00-06:00",
		doc: "The hours in which jobs come back.",
		check: func(s *Spec, _ string) error {
			_, err := s.Deferred.Window()
			return err
		},
	},
	{
		name: "deferred.timezone", at: func(s *Spec) any { return &s.Deferred.Timezone },
		absent: "UTC", example: "Europe/Berlin",
		doc: "The time zone of those hours, by its name in the IANA database.",
	},
	{
		name: "deliver", at: func(s *Spec) any { return &s.Deliver },
		doc:   "The target and its settings. A queue without one is for drainers with a handler of their own.",
		check: func(s *Spec, field string) error { return validateDeliver(s.Deliver, field) },
	},
}
