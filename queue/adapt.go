package queue

import (
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
)

// MaxRateChanges is the number of changes of an adapted rate that are kept.
const MaxRateChanges = 20

// Adapt lets the rate of a queue follow what the receiver accepts, between two bounds: additive increase,
// multiplicative decrease (D.-M. Chiu, R. Jain, "Analysis of the increase and decrease algorithms for congestion
// avoidance in computer networks", 1989). The zero Adapt is off.
type Adapt struct {
	Floor   leaky.Rate `json:"floor"`
	Ceiling leaky.Rate `json:"ceiling"`
}

// On reports whether the rate adapts.
func (a *Adapt) On() bool { return *a != Adapt{} }

// RateChange is a change of an adapted rate.
type RateChange struct {
	At     time.Time  `json:"at"` // by the engine's clock; for merged increases, the last one
	From   leaky.Rate `json:"from"`
	To     leaky.Rate `json:"to"`
	Cause  string     `json:"cause"`            // throttled | delivered | put | budget
	Reason string     `json:"reason,omitempty"` // throttled: the answer
}

// The causes of a RateChange.
const (
	AdaptedThrottled = "throttled"
	AdaptedDelivered = "delivered"
	AdaptedPut       = "put"
	AdaptedBudget    = "budget" // see Spec.Learn
)

// Rule returns the arithmetic of the adaptation.
func (a *Adapt) Rule() leaky.Adapt {
	return leaky.Adapt{Floor: a.Floor, Ceiling: a.Ceiling, Horizon: Horizon}
}

// validate checks that the queue's initial rate is within the bounds, and that the burst is valid at the lowest rate.
func (a *Adapt) validate(rate leaky.Rate, burst int64) error {
	if !a.On() {
		return nil
	}
	switch {
	case a.Floor.Unlimited():
		return invalid.Errorf(
			"adapt.floor", a.Floor.String(), `must be a rate such as "2/s": the lowest rate of the queue`,
		)
	case a.Ceiling.Unlimited():
		return invalid.Errorf(
			"adapt.ceiling", a.Ceiling.String(), `must be a rate such as "20/s": the highest rate of the queue`,
		)
	case rate.Interval() > a.Floor.Interval() || rate.Interval() < a.Ceiling.Interval():
		return invalid.Errorf(
			"rate", rate.String(), "must be from adapt.floor %s to adapt.ceiling %s: the queue starts with it",
			a.Floor, a.Ceiling,
		)
	}
	if err := (leaky.Pacer{Rate: a.Floor, Burst: burst}).Validate(); err != nil {
		return invalid.Errorf("adapt.floor", a.Floor.String(), "%v", err)
	}
	return nil
}
