package queue

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
)

// Ramp makes a quota grow from window to window: by a factor, or along a list of steps. It is comparable. The zero Ramp
// does not grow.
type Ramp struct {
	// Factor multiplies the maximum of each window, rounded down, until it reaches Until.
	Factor float64 `json:"factor,omitzero"`
	Until  int64   `json:"until,omitzero"`
	// Steps are the maxima of the first windows. The first one is the quota; the last one stays.
	Steps Steps `json:"steps,omitzero"`
	// From is the date of the first step, such as "2026-12-01".
	From string `json:"from,omitempty"`
	// Idle is RampCount, the default, or RampHold: a window in which nothing left does not count.
	Idle string `json:"idle,omitempty"`
}

// The values of Ramp.Idle.
const (
	RampCount = "count"
	RampHold  = "hold"
)

// Limits of ramps.
const (
	MaxRampSteps   = 32  // listed
	MaxRampWindows = 400 // until a ramp with a factor ends
	maxRampFactor  = 100
	factorParts    = 1000 // a factor has three decimals
)

// Steps is a list of numbers as a spec holds it, comparable.
type Steps string

// StepsOf returns a list of numbers.
func StepsOf(numbers ...int64) Steps {
	var b []byte
	for i, n := range numbers {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return Steps(b)
}

// All returns the numbers; nil if there are none.
func (s Steps) All() (numbers []int64) {
	for text := range strings.FieldsSeq(string(s)) {
		n, _ := strconv.ParseInt(text, 10, 64)
		numbers = append(numbers, n)
	}
	return numbers
}

// MarshalJSON writes a list of numbers.
func (s Steps) MarshalJSON() ([]byte, error) { return json.Marshal(append([]int64{}, s.All()...)) }

// UnmarshalJSON reads a list of numbers.
func (s *Steps) UnmarshalJSON(text []byte) error {
	var numbers []int64
	if err := json.Unmarshal(text, &numbers); err != nil {
		return err
	}
	if *s = StepsOf(numbers...); *s == "" {
		*s = " " // an error, which the ramp reports
	}
	return nil
}

// On reports whether there is a ramp.
func (r *Ramp) On() bool { return *r != Ramp{} }

// String returns all settings of a ramp as a text.
func (r *Ramp) String() string {
	text := "ramp " + string(r.Steps)
	if r.Factor != 0 {
		text = fmt.Sprintf("ramp factor %v until %d", r.Factor, r.Until)
	}
	if r.From != "" {
		text += " from " + r.From
	}
	if r.Idle == RampHold {
		text += " idle hold"
	}
	return text
}

// steps returns the maxima of the first windows of a valid ramp.
func (r *Ramp) steps(first int64) []int64 {
	if r.Factor == 0 {
		return r.Steps.All()
	}
	all := []int64{first}
	for n := first; n < r.Until && len(all) <= MaxRampWindows; all = append(all, n) {
		n = min(r.Until, r.next(n))
	}
	return all
}

// next returns the product of a maximum and the factor, rounded down.
func (r *Ramp) next(most int64) int64 {
	return most * int64(math.Round(r.Factor*factorParts)) / factorParts
}

// QuotaRule returns the arithmetic of a quota. Its calendar starts at now (see Calendar).
func (l *Limit) QuotaRule(now time.Time) (q leaky.Quota, err error) {
	q.Max = l.Quota.Max
	if q.Calendar, err = l.Calendar(now); err != nil || !l.Ramp.On() {
		return q, err
	}
	q.Ramp.Steps, q.Ramp.Hold = l.Ramp.steps(l.Quota.Max), l.Ramp.Idle == RampHold
	if l.Ramp.From == "" {
		return q, nil
	}
	from, err := l.rampFrom("ramp.from")
	if err != nil {
		return q, err
	}
	if q.Ramp.Hold {
		q.Ramp.From = leaky.Instant(from.UnixMicro())
	} else {
		q.Ramp.Past = l.Quota.windowsSince(from, q.Calendar, int64(len(q.Ramp.Steps)))
	}
	return q, nil
}

// rampFrom returns when the first day of a ramp begins. For windows of a day or more it returns noon of that day,
// because midnight may occur twice, or not at all.
func (l *Limit) rampFrom(field string) (time.Time, error) {
	zone, err := zoneOf("timezone", l.Timezone)
	if err != nil {
		return time.Time{}, err
	}
	from, err := time.ParseInLocation(time.DateOnly, l.Ramp.From, zone)
	if err != nil || from.Year() < 2000 || from.Year() > 2199 {
		return time.Time{}, invalid.Errorf(field, l.Ramp.From, `must be a date from 2000 to 2199, such as "2026-12-01"`)
	}
	if l.Quota.short() {
		return from, nil
	}
	year, month, day := from.Date()
	return time.Date(year, month, day, 12, 0, 0, 0, zone), nil
}

// windowsSince returns the number of windows from the one that contains an instant to the one with the number 0 in a
// calendar. Above most, it need not be exact.
func (q Quota) windowsSince(from time.Time, c leaky.Calendar, most int64) int64 {
	ends := c.Ends()
	if len(ends) == 0 {
		return -c.Number(c.End(leaky.Instant(from.UnixMicro())))
	}
	first := ends[0].Time().Add(-time.Microsecond).In(from.Location())
	past := q.number(first) - q.number(from)
	if past <= 0 {
		return -c.Number(c.End(leaky.Instant(from.UnixMicro())))
	}
	if past > most+calendarLen {
		return past
	}
	past = 0 // a zone that changes sides of the date line skips a day
	for end := q.ends(from); leaky.Instant(end.UnixMicro()) < ends[0]; end = q.ends(end) {
		past++
	}
	return past
}

// RampState is the step of a ramp in the present window.
type RampState struct {
	Step  int64 // from 1
	Steps int64
	Next  int64 // maximum of the next window, if something leaves in this one
}

// rampState returns the step of a window in a ramp.
func rampState(q leaky.Quota, w leaky.Window) RampState {
	return RampState{Step: q.Step(w) + 1, Steps: int64(len(q.Ramp.Steps)), Next: q.Most(q.After(w))}
}

// Began reports whether a ramp grows, in a window with that maximum.
func (s RampState) Began(most int64) bool { return s.Next > most || s.Step == s.Steps }

// periods are the windows of quotas, in words.
var periods = map[string]string{"m": "minute", "h": "hour", "d": "day", "w": "week", "mo": "month"}

// Period returns the window of a quota, from "minute" to "month".
func (q Quota) Period() string { return periods[q.Per] }

// QuotaReason returns a quota as the reason why jobs wait in a window: its settings, or the present step of its ramp.
func (l *Limit) QuotaReason(q leaky.Quota, w leaky.Window) string {
	if !l.Ramp.On() || len(q.Ramp.Steps) == 0 {
		return l.String()
	}
	most, s, plain := q.Most(w), rampState(q, w), *l
	plain.Quota.Max, plain.Ramp = most, Ramp{}
	switch {
	case !s.Began(most):
		return fmt.Sprintf("%s (the ramp begins on %s)", plain.String(), l.Ramp.From)
	case s.Step == s.Steps:
		return plain.String() + " (last step of the ramp)"
	}
	return fmt.Sprintf("%s (%s %d of the ramp, then %d)", plain.String(), l.Quota.Period(), s.Step, s.Next)
}

// rampSettings are the settings of a limit's ramp.
var rampSettings = []setting[Limit]{
	{
		name: "ramp", doc: "Growth of a quota from window to window.",
		check: func(l *Limit, field string) error { return l.validateRamp(field) },
	},
	{
		name: "ramp.factor", at: func(l *Limit) any { return &l.Ramp.Factor }, absent: "none", example: "2",
		min: 1.0, max: float64(maxRampFactor),
		doc: "Factor by which each window's maximum exceeds the one before, rounded down. At most three decimals.",
	},
	{
		name: "ramp.until", at: func(l *Limit) any { return &l.Ramp.Until }, absent: "none", example: "100000",
		max: MaxQuota,
		doc: "Maximum at which a ramp with a factor ends, after at most 400 windows.",
	},
	{
		name: "ramp.steps", at: func(l *Limit) any { return &l.Ramp.Steps }, absent: "none", example: "50, 100, 500",
		doc: "Maxima of the first windows, instead of a factor: 2 to 32, ascending, the first as in `quota`." +
			" The last one stays.",
	},
	{
		name: "ramp.from", at: func(l *Limit) any { return &l.Ramp.From }, absent: "now, with `idle: hold`",
		example: "2026-12-01",
		doc:     "Date of the first step. Until then, the maximum is `quota`. Required without `idle: hold`.",
	},
	{
		name: "ramp.idle", at: func(l *Limit) any { return &l.Ramp.Idle }, absent: RampCount,
		values: []string{RampCount, RampHold},
		doc:    "Whether a window in which nothing leaves counts as a step (`count`) or not (`hold`).",
	},
}

func (l *Limit) validateRamp(field string) error {
	r := &l.Ramp
	switch {
	case !r.On():
		return nil
	case !l.HasQuota():
		return invalid.Errorf(field, "", `needs a quota, such as "50/d": the maximum of the first window`)
	case r.Steps != "" && (r.Factor != 0 || r.Until != 0):
		return invalid.Errorf(field, "", "has steps and a factor; leave out steps, or factor and until")
	case r.Steps == "" && r.Factor == 0:
		return invalid.Errorf(field, "", "must have steps such as [%d, %d], or a factor and until", l.Quota.Max,
			2*l.Quota.Max)
	}
	err := r.validateSteps(field+".steps", l.Quota)
	if r.Factor != 0 {
		err = r.validateFactor(field, l.Quota)
	}
	if err != nil {
		return err
	}
	if err := oneOf(field+".idle", r.Idle, []string{RampCount, RampHold}, true); err != nil {
		return err
	}
	if r.From != "" {
		_, err := l.rampFrom(field + ".from")
		return err
	}
	if r.Idle != RampHold {
		return invalid.Errorf(field+".from", "",
			`is missing; give the date of the first step, such as "2026-12-01", or set idle to hold`)
	}
	return nil
}

func (r *Ramp) validateSteps(field string, quota Quota) error {
	steps := r.Steps.All()
	if n := len(steps); r.Steps != "" && n < 2 || n > MaxRampSteps {
		return invalid.Errorf(field, "", "has %d steps, must have from 2 to %d; for more, use a factor", n, MaxRampSteps)
	}
	for i, n := range steps {
		at := fmt.Sprintf("%s.%d", field, i)
		if err := invalid.Range(at, n, 1, MaxQuota); err != nil {
			return err
		}
		if i == 0 && n != quota.Max {
			return invalid.Errorf(at, "", "is %d, must be %d: the quota %s is the first step", n, quota.Max, quota)
		}
		if i > 0 && n <= steps[i-1] {
			return invalid.Errorf(at, "", "is %d, must be above the step before, %d: a ramp only grows", n, steps[i-1])
		}
	}
	return nil
}

func (r *Ramp) validateFactor(field string, quota Quota) error {
	parts := r.Factor * factorParts
	if !(r.Factor > 1 && r.Factor < maxRampFactor) || math.Abs(parts-math.Round(parts)) > 1e-6 {
		return invalid.Errorf(field+".factor", "",
			"is %v, must be above 1 and below %d, with at most three decimals: a ramp only grows", r.Factor, maxRampFactor)
	}
	switch {
	case r.Until == 0:
		return invalid.Errorf(field+".until", "", "is missing; give the maximum at which the ramp ends, such as %d",
			min(MaxQuota, 1000*quota.Max))
	case r.Until <= quota.Max || r.Until > MaxQuota:
		return invalid.Errorf(field+".until", "", "is %d, must be above the quota %s and at most %d: a ramp only grows",
			r.Until, quota, MaxQuota)
	case r.next(quota.Max) <= quota.Max:
		return invalid.Errorf(
			field+".factor", "", "is %v, which does not raise %d, rounded down; use a greater one, or steps", r.Factor,
			quota.Max,
		)
	}
	if n := len(r.steps(quota.Max)); n > MaxRampWindows {
		return invalid.Errorf(field+".factor", "",
			"is %v, which takes more than %d windows from %d to %d; use a greater one", r.Factor, MaxRampWindows, quota.Max,
			r.Until)
	}
	return nil
}
