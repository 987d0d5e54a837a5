package queue

import (
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// specSettings is the table of the settings of a queue, in the order in which they are validated.
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
		doc: "How many bytes may be taken by the jobs that hold a place. A job takes its payload, headers," +
			" content type, lane and id, and 512 bytes.",
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
		preset: DefaultSlack, min: time.Millisecond, max: time.Minute,
		doc:   "How late a job may start after its departure; later, the slot is lost. At most the lease.",
		holds: nextGrant,
		check: func(s *Spec, field string) error {
			if s.Slack > s.Lease {
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
		doc: "How many ended jobs are remembered.",
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
