package queue

import (
	"math"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
)

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
		return leaky.Calendar{}, invalid.Errorf("timezone", l.Timezone, "is not known to this machine: %v", err)
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
