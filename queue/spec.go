package queue

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/unit"
)

// Normalize fills in the defaults.
func (s *Spec) Normalize() {
	for i := range specSettings {
		specSettings[i].fill(s)
	}
	s.unite()
}

// Fields returns the names and values of the settings that scripts in Redis use: numbers, durations in microseconds,
// and "" for settings not given.
func (s *Spec) Fields() (fields []any) {
	for i := range specSettings {
		if r := &specSettings[i]; r.scripts {
			fields = append(fields, r.name, plain(r.at(s)))
		}
	}
	return fields
}

// unite maps empty lists and maps to nil, and the unit jobs to none, so that equal specs are equal in Go.
func (s *Spec) unite() {
	if len(s.Lanes.Overrides) == 0 {
		s.Lanes.Overrides = nil
	}
	if len(s.Limits) == 0 {
		s.Limits = nil
	}
	for i := range s.Limits {
		if s.Limits[i].Unit == UnitJobs {
			s.Limits = slices.Clone(s.Limits)
			s.Limits[i].Unit = ""
		}
	}
	if len(s.Estimate) == 0 {
		s.Estimate = nil
	}
	if len(s.Rules) == 0 {
		s.Rules = nil
	}
}

// Validate checks a normalized spec. Its error is an *invalid.Error.
func (s *Spec) Validate() error { return validate(s, specSettings, "") }

// Mark returns how many places returning jobs may fill while the queue has a backlog. The rest, at least one place, is
// for jobs that may not wait.
func (s *Spec) Mark() int64 {
	mark := int64(math.Ceil(s.Deferred.LowWater * float64(s.Capacity)))
	return max(1, min(mark, s.Capacity-1))
}

// Share returns the weight of the queue in its group.
func (s *Spec) Share() int64 { return max(1, s.Weight) }

// Fastest returns the highest rate that the queue can have under this spec.
func (s *Spec) Fastest() leaky.Rate {
	if s.Adapt.On() {
		return s.Adapt.Ceiling
	}
	return s.Rate
}

// EffectiveSlack returns the slack. The default is a hundredth of the shortest interval between departures, within
// bounds: a start that late disturbs spacing less than the jitter on the way to the receiver. A child has the least
// slack, because a late start is late for its parent, too, and the parent may be faster.
func (s *Spec) EffectiveSlack() time.Duration {
	if s.Slack != 0 {
		return s.Slack.D()
	}
	if names.Parent(s.Name) != "" {
		return LeastSlack
	}
	fastest := s.Fastest().Interval()
	for i := range s.Limits {
		if r := s.Limits[i].Rate; !r.Unlimited() && s.Limits[i].Paced() {
			fastest = min(fastest, r.Interval())
		}
	}
	return min(max(fastest/100, LeastSlack), MostSlack)
}

// Pacer returns the spec's pacing rule for a horizon.
func (s *Spec) Pacer(horizon time.Duration) leaky.Pacer {
	return leaky.Pacer{Rate: s.Rate, Burst: s.Burst, Horizon: horizon}
}

// When a change of a setting applies, if not immediately.
const (
	nextGrant   = "to leases granted later"
	nextFailure = "from the next failure on"
	nextEnd     = "to jobs that end later"
)

// NeedsTarget reports whether the queue has neither a target nor pulling workers. Its jobs then go nowhere unless a Go
// program drains it with its own handler.
func (s *Spec) NeedsTarget() bool {
	target, err := canonical(s.Deliver)
	return !s.Pull && target == nil && err == nil
}

func (s *Spec) validatePull(field string) error {
	target, err := canonical(s.Deliver)
	if s.Pull && err == nil && target != nil && !bytes.HasPrefix(target, []byte(`{"http":`)) {
		return invalid.Errorf(field, "", "is true, and deliver names a target that is not http; workers pull the jobs of"+
			" a pull queue, and only calls through /proxy use its target, which must be http")
	}
	return nil
}

func (s *Spec) validateMaxAge(field string) error {
	if s.Deferred.MaxAge > s.Retention.For {
		// A job that came back must be remembered while the overflow may still have a second copy of it, from a
		// repeated request (invariant 7).
		return invalid.Errorf(field, "", "is %v, longer than retention.for %v:"+
			" a job would be forgotten while a copy of it may still come back", s.Deferred.MaxAge, s.Retention.For)
	}
	return nil
}

func validateDeliver(target json.RawMessage, field string) error {
	if len(target) > MaxDeliverBytes {
		return invalid.Errorf(field, "", "has %d bytes, the limit is %d", len(target), MaxDeliverBytes)
	}
	if deliver, err := canonical(target); err != nil {
		return invalid.Errorf(field, "", "is not valid JSON: %v", err)
	} else if deliver != nil && deliver[0] != '{' {
		return invalid.Errorf(field, "", "must be an object") // not quoted: it may be a URL with a secret
	}
	return nil
}

func notBelow(field string, v unit.Duration, other string, least unit.Duration) error {
	if v < least {
		return invalid.Errorf(field, "", "is %v, below %s %v", v, other, least)
	}
	return nil
}
