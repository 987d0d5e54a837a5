package queue

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a store must open on a machine that has no zones

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
)

// Limit is a window on the outflow beside the rate: either a further pace, or a quota for
// each day, say, of a calendar. A job leaves when all allow it, and uses up something of all.
type Limit struct {
	// Rate and Burst are as those of a Spec: with "500/m" and 100, no more than 599 leave in any minute.
	Rate  leaky.Rate `json:"rate,omitzero"`
	Burst int64      `json:"burst,omitzero"`
	// Quota is the most, in units of cost, in each window of the calendar.
	Quota Quota `json:"quota,omitzero"`
	// Timezone, of the IANA database, is where days, weeks and months of the quota begin; empty is UTC.
	Timezone string `json:"timezone,omitempty"`
}

// Limits of limits.
const (
	MaxLimits   = 4
	MaxQuota    = 1_000_000_000
	calendarLen = 64 // ends that a calendar knows ahead
)

// Quota is so much in each minute, hour, day, week (they begin on Monday) or
// month of a calendar, written as "50000/d".
type Quota struct {
	Max int64
	Per string // m, h, d, w or mo
}

func (q Quota) String() string { return strconv.FormatInt(q.Max, 10) + "/" + q.Per }

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
	return fmt.Errorf(`%s: a quota is per m, h, d, w or mo, such as "50000/d"; `+
		"for any other span give a rate and a burst",
		clip.Quote(string(b), 40))
}

// Paced reports whether l is a further pace and no quota.
func (l *Limit) Paced() bool { return l.Quota == Quota{} }

// Pacer returns the rule of a further pace.
func (l *Limit) Pacer() leaky.Pacer {
	return leaky.Pacer{Rate: l.Rate, Burst: max(1, l.Burst), Horizon: Horizon}
}

// limitSettings is the table of the settings of a limit.
var limitSettings = []setting[Limit]{
	{
		name: "rate", at: func(l *Limit) any { return &l.Rate }, absent: "none", example: "500/m",
		doc: "A further pace beside the queue's rate, and like it.",
	},
	{
		name: "burst", at: func(l *Limit) any { return &l.Burst }, absent: "1", max: leaky.MaxBurst,
		doc: "How many may leave back to back after idleness, as far as this pace goes.",
	},
	{
		name: "quota", at: func(l *Limit) any { return &l.Quota }, absent: "none", example: "50000/d",
		doc: "The most, in units of cost, in each window of a calendar. These are a minute (/m), an hour (/h), a day " +
			"(/d)," +
			" a week from Monday (/w) or a month (/mo).",
	},
	{
		name: "timezone", at: func(l *Limit) any { return &l.Timezone }, absent: "UTC", example: "Europe/Berlin",
		doc: "Where days, weeks and months begin: a zone of the IANA database.",
	},
}

func validateLimits(limits []Limit, field string) error {
	if len(limits) > MaxLimits {
		return invalid.Errorf(field, "", "are %d, at most %d can hold", len(limits), MaxLimits)
	}
	for i := range limits {
		if err := limits[i].validate(fmt.Sprintf("%s.%d", field, i)); err != nil {
			return err
		}
	}
	return nil
}

func (l *Limit) validate(field string) error {
	switch {
	case l.Paced() && l.Rate.Unlimited():
		return invalid.Errorf(field, "", `must have a rate such as "500/m" or a quota such as "50000/d"`)
	case l.Paced():
		if l.Timezone != "" {
			return invalid.Errorf(field+".timezone", l.Timezone,
				"is of no use without a quota: a rate is the same everywhere")
		}
		if err := invalid.Range(field+".burst", l.Burst, 0, leaky.MaxBurst); err != nil {
			return err
		}
		return invalid.In(field+".burst", l.Pacer().Validate())
	case !l.Rate.Unlimited() || l.Burst != 0:
		return invalid.Errorf(field, "", "has a rate or a burst and a quota; make two limits of it")
	}
	if l.Quota.Max < 1 || l.Quota.Max > MaxQuota {
		return invalid.Range(field+".quota", l.Quota.Max, 1, MaxQuota)
	}
	var q Quota
	if err := q.UnmarshalText([]byte(l.Quota.String())); err != nil {
		return invalid.Errorf(field+".quota", "", "%v", err)
	}
	if l.Timezone == "" {
		return nil
	}
	if l.Quota.Per == "m" || l.Quota.Per == "h" {
		return invalid.Errorf(
			field+".timezone", l.Timezone, "is of no use for minutes and hours: they end everywhere at the same time",
		)
	}
	if l.Timezone == "Local" || l.Timezone == "localtime" {
		return invalid.Errorf(
			field+".timezone", l.Timezone, "differs from machine to machine; name a zone such as Europe/Berlin",
		)
	}
	if _, err := time.LoadLocation(l.Timezone); err != nil {
		return invalid.Errorf(field+".timezone", l.Timezone, "is not a time zone of the IANA database, such as Europe/Berlin")
	}
	return nil
}
