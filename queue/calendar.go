package queue

import (
	"math"
	"time"

	"github.com/penstock/penstock/leaky"
)

// Calendar returns the windows of a quota. UTC minutes, hours, days and weeks go on forever; other windows start at
// the present one and last for a limited time (see leaky.Calendar.Left).
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
	zone, err := zoneOf("timezone", l.Timezone)
	if err != nil {
		return leaky.Calendar{}, err
	}
	// Start with the end of the previous window, so that an instant of that window is not counted toward this one.
	end := now.In(zone)
	for begun := now.AddDate(0, 0, -63); !begun.After(now); { // at least two months back
		end, begun = begun, l.Quota.ends(begun.In(zone))
	}
	ends := make([]leaky.Instant, 0, 1+calendarLen)
	for range cap(ends) {
		ends = append(ends, leaky.Instant(end.UnixMicro()))
		end = l.Quota.ends(end.In(zone))
	}
	return leaky.Ending(ends), nil
}

// ends returns the end of the window that contains t, in t's zone. It is the first instant at which the calendar shows
// a later day, week or month than ever before. A day on which clocks change has 23 or 25 hours. A day that begins
// twice, because clocks go back across midnight, begins the first time.
func (q Quota) ends(t time.Time) time.Time {
	begun := q.number(t)
	if from, _ := t.ZoneBounds(); !from.IsZero() {
		begun = max(begun, q.number(from.Add(-1).In(t.Location())))
	}
	for {
		_, offset := t.Zone()
		_, until := t.ZoneBounds()
		// As if the clocks never changed again.
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

// number numbers the windows by the calendar of t's zone.
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

// begins returns the start of the window after that number, on a UTC wall clock.
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
