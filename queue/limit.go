package queue

import (
	"fmt"
	"strconv"
	"strings"
	_ "time/tzdata" // a store must open on a machine without time zones

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
)

// Limit bounds the outflow beside the rate: either by a further pace, or by a quota for each window of a calendar,
// such as a day. A job leaves when all limits allow it, and it counts toward all of them.
type Limit struct {
	// Unit is what the limit counts, such as tokens; empty or UnitJobs is the cost of jobs.
	Unit string `json:"unit,omitempty"`
	// Rate and Burst work as in a Spec: with "500/m" and 100, at most 599 jobs leave in any minute.
	Rate  leaky.Rate `json:"rate,omitzero"`
	Burst int64      `json:"burst,omitzero"`
	// Quota is the maximum, in units of cost, for each window of the calendar.
	Quota Quota `json:"quota,omitzero"`
	// Timezone is the IANA zone in which days, weeks and months of the quota begin; empty is UTC.
	Timezone string `json:"timezone,omitempty"`
	// Ramp makes the quota grow; Quota is its first step.
	Ramp Ramp `json:"ramp,omitzero"`
}

// Limits of limits.
const (
	MaxLimits   = 4
	MaxQuota    = 1_000_000_000
	calendarLen = 64 // window ends that a calendar holds in advance
)

// Quota is a maximum per minute, hour, day, week (from Monday) or month of a calendar, written as "50000/d".
type Quota struct {
	Max int64
	Per string // m, h, d, w or mo
}

func (q Quota) String() string { return strconv.FormatInt(q.Max, 10) + "/" + q.Per }

// short reports whether a window is shorter than a day. These windows end everywhere at the same time.
func (q Quota) short() bool { return q.Per == "m" || q.Per == "h" }

// MarshalText writes q as String does.
func (q Quota) MarshalText() ([]byte, error) { return []byte(q.String()), nil }

// UnmarshalText reads "50000/d".
func (q *Quota) UnmarshalText(b []byte) error {
	number, per, _ := strings.Cut(string(b), "/")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 || n > MaxQuota || number[0] == '+' {
		return fmt.Errorf(`%s: want a whole NUMBER from 1 to %d and /m, /h, /d, /w or /mo, such as "50000/d"`,
			clip.Quote(string(b), 40), MaxQuota)
	}
	switch per {
	case "m", "h", "d", "w", "mo":
		*q = Quota{n, per}
		return nil
	}
	return fmt.Errorf(`%s: the unit of a quota is m, h, d, w or mo, as in "50000/d"; `+
		"for any other span, use a rate and a burst",
		clip.Quote(string(b), 40))
}

// Paced reports whether l is a pace of jobs: neither a quota nor a budget.
func (l *Limit) Paced() bool { return !l.HasQuota() && l.Counts() == "" }

// HasQuota reports whether l is a quota, of jobs or of another unit.
func (l *Limit) HasQuota() bool { return l.Quota != Quota{} }

// IsBudget reports whether l is a rate of another unit than jobs.
func (l *Limit) IsBudget() bool { return !l.HasQuota() && l.Counts() != "" }

// QuotaText returns a quota with its unit and without its time zone, such as "tokens 5000000/d".
func (l *Limit) QuotaText() string {
	if unit := l.Counts(); unit != "" {
		return unit + " " + l.Quota.String()
	}
	return l.Quota.String()
}

// Pacer returns the pacing rule of a pace.
func (l *Limit) Pacer() leaky.Pacer {
	return leaky.Pacer{Rate: l.Rate, Burst: max(1, l.Burst), Horizon: Horizon}
}

// limitSettings is the table of a limit's settings.
var limitSettings = append([]setting[Limit]{
	{
		name: "unit", at: func(l *Limit) any { return &l.Unit }, absent: UnitJobs, example: "tokens",
		doc: "What the limit counts: jobs, or another unit in which jobs state their costs." +
			" A job that costs more than the burst leaves once the whole burst is available.",
	},
	{
		name: "rate", at: func(l *Limit) any { return &l.Rate }, absent: "none", example: "500/m",
		doc: "Further rate, in addition to the queue's rate.",
	},
	{
		name: "burst", at: func(l *Limit) any { return &l.Burst }, absent: "1", max: leaky.MaxUnits,
		doc: "Maximum number of jobs that may leave back to back after idleness, by this rate: up to 1,000,000." +
			" With a unit: maximum cost.",
	},
	{
		name: "quota", at: func(l *Limit) any { return &l.Quota }, absent: "none", example: "50000/d",
		doc: "Maximum cost per calendar window." +
			" A window is a minute (/m), an hour (/h), a day (/d), a week from Monday (/w) or a month (/mo).",
	},
	{
		name: "timezone", at: func(l *Limit) any { return &l.Timezone }, absent: "UTC", example: "Europe/Berlin",
		doc: "IANA time zone in which days, weeks and months begin.",
	},
}, rampSettings...)

func validateLimits(limits []Limit, field string) error {
	if len(limits) > MaxLimits {
		return invalid.Errorf(field, "", "has %d entries, the limit is %d", len(limits), MaxLimits)
	}
	for i := range limits {
		if err := limits[i].validate(fmt.Sprintf("%s.%d", field, i)); err != nil {
			return err
		}
	}
	return nil
}

func (l *Limit) validate(field string) error {
	if l.Unit != "" {
		if err := ValidateUnit(field+".unit", l.Unit); err != nil {
			return err
		}
	}
	switch {
	case !l.HasQuota() && l.Rate.Unlimited():
		return invalid.Errorf(field, "", `must have a rate such as "500/m" or a quota such as "50000/d"`)
	case !l.HasQuota():
		if err := l.validateRamp(field + ".ramp"); err != nil {
			return err
		}
		if l.Timezone != "" {
			return invalid.Errorf(field+".timezone", l.Timezone,
				"has no effect without a quota: a rate is the same everywhere")
		}
		if l.IsBudget() {
			if err := invalid.Range(field+".burst", l.Burst, 0, leaky.MaxUnits); err != nil {
				return err
			}
			return invalid.In(field+".burst", l.Budget().Validate())
		}
		if err := invalid.Range(field+".burst", l.Burst, 0, leaky.MaxBurst); err != nil {
			return err
		}
		return invalid.In(field+".burst", l.Pacer().Validate())
	case !l.Rate.Unlimited() || l.Burst != 0:
		return invalid.Errorf(field, "", "has a quota, and a rate or burst; make them two limits")
	}
	if l.Quota.Max < 1 || l.Quota.Max > MaxQuota {
		return invalid.Range(field+".quota", l.Quota.Max, 1, MaxQuota)
	}
	var q Quota
	if err := q.UnmarshalText([]byte(l.Quota.String())); err != nil {
		return invalid.Errorf(field+".quota", "", "%v", err)
	}
	if err := l.validateTimezone(field + ".timezone"); err != nil {
		return err
	}
	return l.validateRamp(field + ".ramp")
}

func (l *Limit) validateTimezone(field string) error {
	if l.Timezone == "" {
		return nil
	}
	if l.Quota.short() {
		return invalid.Errorf(
			field, l.Timezone, "has no effect on minutes and hours: they end everywhere at the same time",
		)
	}
	_, err := zoneOf(field, l.Timezone)
	return err
}
