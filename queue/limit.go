package queue

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a store must open on a machine that has no zones

	"github.com/penstock/penstock/leaky"
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
			Shorten(string(b), 40), MaxQuota)
	}
	switch per {
	case "m", "h", "d", "w", "mo":
		*q = Quota{n, per}
		return nil
	}
	return fmt.Errorf(`%s: a quota is per m, h, d, w or mo, such as "50000/d"; for any other span give a rate and a burst`,
		Shorten(string(b), 40))
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
		doc: "The most, in units of cost, in each window of a calendar. These are a minute (/m), an hour (/h), a day (/d)," +
			" a week from Monday (/w) or a month (/mo).",
	},
	{
		name: "timezone", at: func(l *Limit) any { return &l.Timezone }, absent: "UTC", example: "Europe/Berlin",
		doc: "Where days, weeks and months begin: a zone of the IANA database.",
	},
}

func validateLimits(limits []Limit, field string) error {
	if len(limits) > MaxLimits {
		return fieldErr(field, "", "are %d, at most %d can hold", len(limits), MaxLimits)
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
		return fieldErr(field, "", `must have a rate such as "500/m" or a quota such as "50000/d"`)
	case l.Paced():
		if l.Timezone != "" {
			return fieldErr(field+".timezone", l.Timezone,
				"is of no use without a quota: a rate is the same everywhere")
		}
		if err := within(field+".burst", l.Burst, 0, leaky.MaxBurst); err != nil {
			return err
		}
		return ofField(field+".burst", l.Pacer().Validate())
	case !l.Rate.Unlimited() || l.Burst != 0:
		return fieldErr(field, "", "has a rate or a burst and a quota; make two limits of it")
	}
	if l.Quota.Max < 1 || l.Quota.Max > MaxQuota {
		return within(field+".quota", l.Quota.Max, 1, MaxQuota)
	}
	var q Quota
	if err := q.UnmarshalText([]byte(l.Quota.String())); err != nil {
		return fieldErr(field+".quota", "", "%v", err)
	}
	if l.Timezone == "" {
		return nil
	}
	if l.Quota.Per == "m" || l.Quota.Per == "h" {
		return fieldErr(field+".timezone", l.Timezone, "is of no use for minutes and hours: they end everywhere at the same time")
	}
	if l.Timezone == "Local" || l.Timezone == "localtime" {
		return fieldErr(field+".timezone", l.Timezone, "differs from machine to machine; name a zone such as Europe/Berlin")
	}
	if _, err := time.LoadLocation(l.Timezone); err != nil {
		return fieldErr(field+".timezone", l.Timezone, "is not a time zone of the IANA database, such as Europe/Berlin")
	}
	return nil
}

// Calendar returns the windows of a quota: those of UTC minutes, hours, days and weeks for ever,
// others from the present one on for some time (see leaky.Calendar.Left).
func (l *Limit) Calendar(now time.Time) (leaky.Calendar, error) {
	const second = leaky.Instant(1_000_000)
	if l.Timezone == "" {
		switch l.Quota.Per {
		case "m":
			return leaky.Every(60*second, 0), nil
		case "h":
			return leaky.Every(3600*second, 0), nil
		case "d":
			return leaky.Every(86400*second, 0), nil
		case "w":
			return leaky.Every(7*86400*second, 4*86400*second), nil // 5 January 1970 was a Monday
		}
	}
	zone, err := time.LoadLocation(l.Timezone)
	if err != nil {
		return leaky.Calendar{}, fieldErr("timezone", l.Timezone, "is not known to this machine: %v", err)
	}
	// It begins with the end of the window before this one, so that an instant of that is not
	// taken for one of this.
	end := now.In(zone)
	for begun := now.AddDate(0, 0, -63); !begun.After(now); { // two months are no longer
		end, begun = begun, l.Quota.ends(begun.In(zone))
	}
	ends := make([]leaky.Instant, 0, 1+calendarLen)
	for range cap(ends) {
		ends = append(ends, leaky.Instant(end.UnixMicro()))
		end = l.Quota.ends(end.In(zone))
	}
	return leaky.Ending(ends), nil
}

// ends returns the end of the window that t is in, by t's zone: the first instant at which its
// calendar shows a later day, week or month than it ever did before. A day that changes clocks has 23 or 25 hours; one
// that begins twice, because the clocks go back over midnight, does so the first time.
func (q Quota) ends(t time.Time) time.Time {
	begun := q.number(t)
	if from, _ := t.ZoneBounds(); !from.IsZero() {
		begun = max(begun, q.number(from.Add(-1).In(t.Location())))
	}
	for {
		_, offset := t.Zone()
		_, until := t.ZoneBounds()
		// As if the clocks were never changed again.
		end := q.begins(begun).Add(-time.Duration(offset) * time.Second)
		if until.IsZero() || end.Before(until) {
			return end.In(t.Location())
		}
		t = until.In(t.Location())
		if q.number(t) > begun {
			return t
		}
	}
}

// number numbers the windows by what the calendar of t's zone shows.
func (q Quota) number(t time.Time) int64 {
	year, month, day := t.Date()
	if q.Per == "mo" {
		return int64(year)*12 + int64(month)
	}
	days := floorDiv(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix(), 86400)
	if q.Per == "w" {
		return floorDiv(days+3, 7)
	}
	return days
}

// begins returns when the window behind that one begins, by a wall clock of UTC.
func (q Quota) begins(begun int64) time.Time {
	switch q.Per {
	case "mo":
		return time.Date(int(floorDiv(begun, 12)), time.Month(begun-12*floorDiv(begun, 12))+1, 1, 0, 0, 0, 0, time.UTC)
	case "w":
		return time.Unix((7*(begun+1)-3)*86400, 0).UTC()
	}
	return time.Unix((begun+1)*86400, 0).UTC()
}

func floorDiv(a, b int64) int64 { return int64(math.Floor(float64(a) / float64(b))) }
