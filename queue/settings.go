package queue

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/unit"
)

// Defaults and bounds that other packages use, too. The table below has all of them.
const (
	DefaultCapacity = 10_000
	MaxCapacity     = 100_000_000
	DefaultLease    = 30 * time.Second
	MinLease        = time.Second
	// LeastSlack and MostSlack bound the default slack of a queue, a hundredth of its interval.
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

// MaxChildren is the maximum number of children of a queue. Each grant chooses among them.
const MaxChildren = 1000

// Spec is the configuration of a queue. Normalize replaces zero fields by their defaults; only Rate has no default and
// must be given.
type Spec struct {
	Name     string     `json:"name"`
	Rate     leaky.Rate `json:"rate"`     // the outflow over all drainers
	Burst    int64      `json:"burst"`    // departures back to back after idleness
	Capacity int64      `json:"capacity"` // jobs waiting, scheduled, leased and held together
	// MaxBytes is how many bytes the queue's jobs may take: per job its id, its record and 512; 0 is a quarter of the
	// store.
	MaxBytes unit.Bytes `json:"max_bytes,omitzero"`
	// Limits apply beside the rate.
	Limits []Limit `json:"limits,omitempty"`
	// Estimate says, by unit, what jobs are charged that state no cost in it.
	Estimate map[string]Estimate `json:"estimate,omitempty"`
	// Hours are when jobs leave; those of a parent apply to its children, too.
	Hours Hours `json:"hours,omitzero"`
	// MaxInFlight is how many jobs may be leased at a time, over all drainers; 0 is no limit.
	MaxInFlight int64 `json:"max_in_flight,omitzero"`
	// MaxScheduled is how many places of the capacity scheduled jobs may take; 0 is no limit but the capacity.
	MaxScheduled int64 `json:"max_scheduled,omitzero"`
	// Ordered allows only one job of a lane in flight at a time. A failed job holds up its lane until it has ended.
	Ordered bool `json:"ordered,omitzero"`
	// Lanes bounds each lane.
	Lanes Lanes `json:"lanes,omitzero"`
	// Weight is the queue's share of its group in relation to the other members' weights; 0 means 1.
	Weight int64 `json:"weight,omitzero"`
	// Rules names the rules that decide which jobs of this queue and its children come in. Rules of the queue's own
	// group are asked within the append; package admission asks the others before it.
	Rules []string `json:"rules,omitempty"`
	// Lease is how long after its departure a job belongs to its drainer.
	Lease unit.Duration `json:"lease"`
	// Slack is how late a job may start after its departure; a later job is released and its slot is lost. 0 is
	// EffectiveSlack's default, which follows the rate.
	Slack     unit.Duration `json:"slack,omitzero"`
	Retry     Retry         `json:"retry"`
	Retention Retention     `json:"retention"`
	// OnUnknown says what to do with a job that may have been sent: UnknownRetry, UnknownHold or UnknownDead. If it is
	// empty, a job whose handler reports this is held, and a job whose lease ran out is retried.
	OnUnknown string `json:"on_unknown,omitempty"`
	// Adapt lets Rate follow what the receiver accepts.
	Adapt Adapt `json:"adapt,omitzero"`
	// Learn names the fields of an answer in which the receiver says what remains of a budget; see Learnable. The rate
	// is lowered so that it lasts until it is renewed.
	Learn string `json:"learn,omitempty"`
	// Circuit says when the target counts as down.
	Circuit Circuit `json:"circuit"`
	// Overflow says what to do with jobs that find no room and do not choose for themselves: Reject or Defer.
	Overflow string `json:"overflow"`
	// Deferred bounds the overflow of the queue.
	Deferred Deferral `json:"deferred"`
	// Pull reserves the jobs for clients that ask for this queue by name (ReserveRequest.Queue); drainers get none.
	Pull bool `json:"pull,omitzero"`
	// Deliver names the target and its settings. Engines store it without reading it; package deliver reads it.
	Deliver json.RawMessage `json:"deliver,omitempty"`
}

// Retry says how often and how soon a failed job is tried again, with an exponential backoff between MinBackoff and
// MaxBackoff.
type Retry struct {
	MaxAttempts int           `json:"max_attempts"` // including the first
	MinBackoff  unit.Duration `json:"min_backoff"`
	MaxBackoff  unit.Duration `json:"max_backoff"`
	Jitter      string        `json:"jitter"` // full | none
	// Deadline is how long after its append a failed job is still tried again; 0 means forever.
	Deadline unit.Duration `json:"deadline,omitzero"`
}

// Circuit says when a target counts as down and how it is then probed. After the pattern of M. Nygard, "Release It!",
// 2007.
type Circuit struct {
	// Failures is how many failures in a row open the circuit. A failure is an answer that is the target's fault, for
	// whichever job, or no answer for Slow.
	Failures int64 `json:"failures"`
	// MinProbe is the wait before the first probe. It doubles from probe to probe, up to MaxProbe.
	MinProbe unit.Duration `json:"min_probe"`
	MaxProbe unit.Duration `json:"max_probe"`
	// Slow is how long attempts may go on without an answer from the target: each time it passes counts as a failure.
	// A hanging receiver is noticed this way long before an attempt's own timeout. Not for pull queues.
	Slow unit.Duration `json:"slow"`
	// Off keeps the circuit closed, whatever the target does.
	Off bool `json:"off,omitzero"`
}

// Retention bounds, in age and number, how long ended jobs are remembered.
type Retention struct {
	For unit.Duration `json:"for"`
	Max int64         `json:"max"`
	// Full says what happens when dead jobs leave a new job no room within MaxBytes: DropDead, the default, or Reject.
	Full string `json:"full,omitempty"`
}

// DropDead drops the oldest dead jobs, as many as a new job needs.
const DropDead = "drop"

// Deferral bounds the overflow of a queue and says how its jobs come back.
type Deferral struct {
	// MaxAge is how long a job may be deferred before it becomes a dead letter.
	MaxAge unit.Duration `json:"max_age"`
	// LowWater is the fraction of the capacity up to which returning jobs fill the queue. The rest is for jobs that
	// may not wait.
	LowWater float64 `json:"low_water"`
	MaxJobs  int64   `json:"max_jobs"` // deferred at a time
	// MaxBytes bounds the bytes of the deferred jobs. If 0, they count toward Spec.MaxBytes, if that is given.
	MaxBytes unit.Bytes `json:"max_bytes,omitzero"`
	// ReadmitBetween are the hours in which jobs come back. If they have no zone of their own, they are in Timezone.
	ReadmitBetween ReadmitHours `json:"readmit_between,omitzero"`
	Timezone       string       `json:"timezone,omitempty"` // IANA name; empty is UTC
}

// specSettings is the table of a queue's settings: one row per field of Spec, validated in this order.
var specSettings = slices.Concat(
	paceSettings, hoursSettings("hours", func(s *Spec) *Hours { return &s.Hours }), otherSettings,
)

var paceSettings = []setting[Spec]{
	{
		name: "name", at: func(s *Spec) any { return &s.Name },
		doc:   "Name of the queue: a-z 0-9 _ -, at most 64; group.child is a child of group.",
		check: func(s *Spec, _ string) error { return names.Validate(s.Name) },
	},
	{
		name: "rate", at: func(s *Spec) any { return &s.Rate }, example: "14/s",
		doc: "Outflow over all drainers: NUMBER/s, /m, /h, /d, NUMBER/DURATION, or unlimited.",
	},
	{
		name: "burst", at: func(s *Spec) any { return &s.Burst },
		preset: 1, min: 1,
		doc: "Maximum number of jobs that leave back to back after idleness.",
		check: func(s *Spec, field string) error {
			return invalid.In(field, leaky.Pacer{Rate: s.Rate, Burst: s.Burst}.Validate())
		},
	},
	{
		name: "limits", at: func(s *Spec) any { return &s.Limits },
		items: describe("limits[].", limitSettings),
		doc: "Further rates and quotas in addition to the rate, at most 4." +
			" Without a rate, the first further rate takes its place.",
		check: func(s *Spec, field string) error { return validateLimits(s.Limits, field) },
	},
	{
		name: "estimate", at: func(s *Spec) any { return &s.Estimate },
		items: describe("estimate.UNIT.", estimateSettings),
		doc: "Costs, by unit, of jobs that state none, such as estimate.tokens.default. A child without an estimate has its" +
			" parent's. A job with neither cost nor estimate in a unit that a limit has is refused.",
		check: func(s *Spec, field string) error { return s.validateEstimate(field) },
	},
}

var otherSettings = []setting[Spec]{
	{
		name: "pull", at: func(s *Spec) any { return &s.Pull },
		preset: false,
		doc: "Whether workers pull the jobs; drainers then get none." +
			" A pull queue can be a child, but not a parent. An `http` target is for calls through the proxy.",
		check: func(s *Spec, field string) error { return s.validatePull(field) },
	},
	{
		name: "capacity", at: func(s *Spec) any { return &s.Capacity }, scripts: true,
		preset: DefaultCapacity, min: 1, max: MaxCapacity,
		doc: "Maximum number of jobs: waiting, scheduled, leased and held together.",
	},
	{
		name: "max_bytes", at: func(s *Spec) any { return &s.MaxBytes }, scripts: true,
		absent: "a quarter of the store", min: leastMaxBytes, max: MostMaxBytes,
		doc: "Maximum size of all jobs, including dead and deferred jobs. The size of a job is that of its payload," +
			" headers, content type, lane and id, plus 512 bytes.",
	},
	{
		name: "max_in_flight", at: func(s *Spec) any { return &s.MaxInFlight }, scripts: true,
		absent: "no limit", max: MaxMaxInFlight,
		doc: "Maximum number of jobs leased at a time, over all drainers.",
	},
	{
		name: "max_scheduled", at: func(s *Spec) any { return &s.MaxScheduled }, scripts: true,
		absent: "the capacity", max: MaxCapacity,
		doc: "Maximum number of scheduled jobs, including jobs that wait for a retry. They count toward the capacity.",
	},
	{
		name: "ordered", at: func(s *Spec) any { return &s.Ordered }, scripts: true,
		preset: false,
		doc: "Whether each lane has only one job in flight at a time, and a failed job holds up its lane." +
			" The next job leaves when the one before it has ended, in success or failure.",
	},
	{
		name: "lanes", items: append(describe("lanes.", laneSettings), laneOverrides),
		doc: "Limits of each lane, within the limits of the queue. Jobs without a lane are exempt.",
		check: func(s *Spec, field string) error {
			if err := s.Lanes.validate(field); err != nil {
				return err
			}
			return s.validateUnits(field + ".limits")
		},
	},
	{
		name: "weight", at: func(s *Spec) any { return &s.Weight }, scripts: true,
		absent: "1", min: 1, max: MaxWeight,
		doc: "Share of a child in the parent's rate, in proportion to its siblings' weights." +
			" What a queue does not use, the others get. A parent's own jobs count as a sibling of its children.",
	},
	{
		name: "rules", at: func(s *Spec) any { return &s.Rules },
		doc: "Rules that decide which jobs come in, at most 8. They must exist." +
			" The rules of a parent apply to its children, too.",
		check: func(s *Spec, _ string) error { return validateRuleNames(s.Rules) },
	},
	{
		name: "lease", at: func(s *Spec) any { return &s.Lease }, scripts: true,
		preset: DefaultLease, min: MinLease, max: 24 * time.Hour,
		doc: "Time after its departure during which a job belongs to its drainer.", holds: nextGrant,
	},
	{
		name: "slack", at: func(s *Spec) any { return &s.Slack },
		absent: "a hundredth of the interval, from 5ms to 500ms", min: time.Millisecond, max: time.Minute,
		doc: "Time after its departure by which a job must start; later, its slot is lost. At most the lease." +
			" The default of a child is 5ms, because its parent may be faster. 0s restores the default.",
		holds: nextGrant,
		check: func(s *Spec, field string) error {
			if s.Slack > s.Lease { // the default is shorter than any lease
				return invalid.Errorf(field, "", "is %v, longer than the lease %v: a job could start after its lease ran out",
					s.Slack, s.Lease)
			}
			return nil
		},
	},
	{name: "retry", doc: "Number and timing of the retries of a failed job."},
	{
		name: "retry.max_attempts", at: func(s *Spec) any { return &s.Retry.MaxAttempts }, scripts: true,
		preset: 8, min: 1, max: MaxMaxAttempts,
		doc: "Maximum number of attempts, including the first; then the job is dead.", holds: nextFailure,
	},
	{
		name: "retry.min_backoff", at: func(s *Spec) any { return &s.Retry.MinBackoff },
		preset: time.Second,
		min:    time.Millisecond, max: MaxBackoffLimit, holds: nextFailure,
		doc: "Wait before the first retry; it doubles with each failure.",
	},
	{
		name: "retry.max_backoff", at: func(s *Spec) any { return &s.Retry.MaxBackoff },
		preset:   10 * time.Minute,
		presetBy: func(s *Spec) any { return max(10*time.Minute, s.Retry.MinBackoff.D()) },
		min:      time.Millisecond, max: MaxBackoffLimit, holds: nextFailure,
		doc: "Longest wait before a retry. At least min_backoff, which also raises the default.",
		check: func(s *Spec, field string) error {
			return notBelow(field, s.Retry.MaxBackoff, "retry.min_backoff", s.Retry.MinBackoff)
		},
	},
	{
		name: "retry.jitter", at: func(s *Spec) any { return &s.Retry.Jitter },
		preset: "full", values: []string{"full", "none"},
		doc: "full: each wait is random, from min_backoff to double the backoff; none: the wait is the backoff." +
			" With full, jobs that failed together do not come back together.",
		holds: nextFailure,
	},
	{
		name: "retry.deadline", at: func(s *Spec) any { return &s.Retry.Deadline }, scripts: true,
		absent: "none", min: time.Second, max: maxRetention,
		doc: "Time after its append during which a failed job is retried.", holds: nextFailure,
	},
	{
		name: "on_unknown", at: func(s *Spec) any { return &s.OnUnknown }, scripts: true,
		absent: "the target decides",
		values: []string{UnknownRetry, UnknownHold, UnknownDead},
		doc: "What to do with a job that may have been sent." +
			" The default is hold for sms and smtp, and retry for other targets.",
	},
	{
		name: "adapt", at: func(s *Spec) any { return &s.Adapt },
		doc:   "Bounds within which the rate follows what the receiver accepts.",
		check: func(s *Spec, _ string) error { return s.Adapt.validate(s.Rate, s.Burst) },
	},
	{
		name: "adapt.floor", at: func(s *Spec) any { return &s.Adapt.Floor },
		required: true, example: "2/s",
		doc: "Lowest rate, no matter how often the receiver throttles.",
	},
	{
		name: "adapt.ceiling", at: func(s *Spec) any { return &s.Adapt.Ceiling },
		required: true, example: "20/s",
		doc: "Highest rate. The queue's rate must be between floor and ceiling.",
	},
	{
		name: "learn", at: func(s *Spec) any { return &s.Learn }, example: "openai",
		absent: "nothing",
		doc: "Provider whose headers state the remaining budget: ietf, github, shopify, openai or anthropic." +
			" Or two header names, of the rest and of its renewal, such as X-Left X-Reset. The rate is lowered so that the" +
			" budget lasts, and never exceeds the queue's. For http targets and proxied calls.",
		check: func(s *Spec, field string) error { return s.validateLearn(field) },
	},
	{name: "circuit", doc: "Circuit breaker: when the target counts as down, and how it is then probed."},
	{
		name: "circuit.failures", at: func(s *Spec) any { return &s.Circuit.Failures },
		preset: 5, min: 1, max: 1_000_000,
		doc: "Number of failures in a row that open the circuit, if they are the target's fault. Counted over all drainers.",
	},
	{
		name: "circuit.min_probe", at: func(s *Spec) any { return &s.Circuit.MinProbe },
		preset: time.Second, min: time.Millisecond, max: MaxStop,
		doc: "Wait before the first probe; it doubles with each probe.",
	},
	{
		name: "circuit.max_probe", at: func(s *Spec) any { return &s.Circuit.MaxProbe },
		preset:   time.Minute,
		presetBy: func(s *Spec) any { return max(time.Minute, s.Circuit.MinProbe.D()) },
		min:      time.Millisecond, max: MaxStop,
		doc: "Longest wait between probes. At least min_probe, which also raises the default.",
		check: func(s *Spec, field string) error {
			return notBelow(field, s.Circuit.MaxProbe, "circuit.min_probe", s.Circuit.MinProbe)
		},
	},
	{
		name: "circuit.slow", at: func(s *Spec) any { return &s.Circuit.Slow },
		preset: 10 * time.Second, min: time.Second, max: MaxStop,
		doc: "Time in which a target must answer. Each time it passes without an answer counts as one failure." +
			" Not for pull queues.",
	},
	{
		name: "circuit.off", at: func(s *Spec) any { return &s.Circuit.Off },
		preset: false,
		doc:    "Whether to disable the circuit, so that it never opens.",
	},
	{name: "retention", doc: "Memory of ended jobs."},
	{
		name: "retention.for", at: func(s *Spec) any { return &s.Retention.For },
		preset: DefaultRetention, min: time.Second, max: maxRetention,
		doc: "Time for which an ended job is remembered.", scripts: true, holds: nextEnd,
	},
	{
		name: "retention.max", at: func(s *Spec) any { return &s.Retention.Max }, scripts: true,
		preset: 100_000, min: 1, max: 100_000_000,
		doc: "Maximum number of ended jobs that are remembered; fewer if max_bytes leaves little room.",
	},
	{
		name: "retention.full", at: func(s *Spec) any { return &s.Retention.Full }, scripts: true,
		absent: "drop", values: []string{DropDead, Reject},
		doc: "What to do when dead jobs fill max_bytes: drop the oldest of them, or reject new jobs.",
	},
	{
		name: "overflow", at: func(s *Spec) any { return &s.Overflow }, scripts: true,
		preset: Reject, values: []string{Reject, Defer},
		doc: "What to do with a job that finds no room, unless the job has its own overflow.",
	},
	{name: "deferred", doc: "Limits of the overflow, and when its jobs return."},
	{
		name: "deferred.max_age", at: func(s *Spec) any { return &s.Deferred.MaxAge },
		preset:   DefaultMaxAge,
		presetBy: func(s *Spec) any { return min(DefaultMaxAge, s.Retention.For.D()) },
		min:      time.Second, max: maxRetention, scripts: true,
		doc:   "Time after which a deferred job is dead. At most retention.for, which also limits the default.",
		check: func(s *Spec, field string) error { return s.validateMaxAge(field) },
	},
	{
		name: "deferred.low_water", at: func(s *Spec) any { return &s.Deferred.LowWater },
		preset: 0.5, min: 0.0, max: 1.0,
		doc: "Fraction of the capacity that returning jobs may fill. The rest, at least one place, is for jobs that may" +
			" not wait.",
	},
	{
		name: "deferred.max_jobs", at: func(s *Spec) any { return &s.Deferred.MaxJobs }, scripts: true,
		preset: 1_000_000, min: 1, max: MaxMaxDeferred,
		doc: "Maximum number of deferred jobs; beyond it, the answer is 429 overflow_full.",
	},
	{
		name: "deferred.max_bytes", at: func(s *Spec) any { return &s.Deferred.MaxBytes }, scripts: true,
		absent: "within max_bytes", min: leastMaxBytes, max: MostMaxBytes,
		doc: "Maximum size of all deferred jobs. If set, deferred jobs do not count toward max_bytes.",
	},
	{
		name: "deferred.readmit_between", at: func(s *Spec) any { return &s.Deferred.ReadmitBetween },
		absent: "always", example: "22:00-06:00",
		doc: "Times at which deferred jobs may return: a span such as 22:00-06:00, or an object like `hours`.",
		check: func(s *Spec, _ string) error {
			_, err := s.Deferred.Schedule()
			return err
		},
	},
	{
		name: "deferred.timezone", at: func(s *Spec) any { return &s.Deferred.Timezone },
		absent: "UTC", example: "Europe/Berlin",
		doc: "Time zone of readmit_between, by its IANA name, if that has none of its own.",
	},
	{
		name: "deliver", at: func(s *Spec) any { return &s.Deliver },
		doc:   "Target and its settings. A queue without a target is for drainers with their own handlers.",
		check: func(s *Spec, field string) error { return validateDeliver(s.Deliver, field) },
	},
}
