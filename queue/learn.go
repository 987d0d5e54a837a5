package queue

import (
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// Budget is a receiver's remaining budget, as it states it. The zero Budget states nothing.
type Budget struct {
	// Remaining is how many more jobs the receiver accepts before Reset has passed.
	Remaining int64
	Reset     time.Duration // at most MaxReset
}

// Limits of a Budget.
const (
	MaxReset     = 24 * time.Hour
	MaxRemaining = 1_000_000_000
)

// Learnable are the values of Spec.Learn that name a known set of fields. Others name two fields of an answer: one with
// how many requests remain, and one with when they are renewed.
var Learnable = []string{"ietf", "github", "shopify", "openai", "anthropic"}

// LearnFields returns the names of the two fields of a Spec.Learn that names fields.
func LearnFields(learn string) (remaining, reset string, ok bool) {
	remaining, reset, ok = strings.Cut(learn, " ")
	return remaining, reset, ok && names.IsToken(remaining) && names.IsToken(reset)
}

// Adapts reports whether the rate follows the receiver.
func (s *Spec) Adapts() bool { return s.Adapt.On() || s.Learn != "" }

func (s *Spec) validateLearn(field string) error {
	if s.Learn == "" {
		return nil
	}
	if _, _, ok := LearnFields(s.Learn); !ok && !slices.Contains(Learnable, s.Learn) {
		return invalid.Errorf(field, s.Learn, "must be %s, or the names of two fields of an answer with a space in "+
			`between, such as "X-Left X-Reset"`, strings.Join(Learnable, ", "))
	}
	switch {
	case s.Adapt.On():
		return invalid.Errorf(field, s.Learn, "cannot be combined with adapt: leave out one of them")
	case s.Rate.Unlimited():
		return invalid.Errorf(field, s.Learn, "needs a rate, which it lowers and never raises; give the provider's limit")
	}
	slowest, err := leaky.NewRate(1, MaxReset+time.Millisecond) // as the engines round
	if err != nil {
		return err
	}
	if err := (leaky.Pacer{Rate: slowest, Burst: s.Burst}).Validate(); err != nil {
		return invalid.Errorf("burst", "", "is %d, too many for learn, which may lower the rate to %s: %v", s.Burst, slowest,
			err)
	}
	return nil
}
