package command

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Moment is an instant as people write it: 07:00, tomorrow 07:00, 2026-12-24 07:00 Europe/Berlin,
// 2026-12-24T07:00:00+01:00, or a time from or before now, such as 2h.
type Moment string

const momentForms = "such as 07:00, tomorrow 07:00, 2026-12-24 07:00, 2026-12-24T07:00:00+01:00 or 2h; " +
	"a time zone may follow, such as Europe/Berlin or UTC (default: that of this machine)"

// Future reads an instant in the future: a time without a day is the next one, a duration counts from now. If the day
// or the zone was left open, it prints the result on standard error.
func (m Moment) Future(r *Run, flag string, now time.Time) (time.Time, error) {
	return m.in(r, flag, now, 1)
}

// Past reads an instant in the past: a time without a day is the last one, a duration counts back from now.
func (m Moment) Past(r *Run, flag string, now time.Time) (time.Time, error) {
	return m.in(r, flag, now, -1)
}

func (m Moment) in(r *Run, flag string, now time.Time, direction int) (time.Time, error) {
	at, open, err := readMoment(string(m), now, direction)
	if err != nil {
		return at, Usage(fmt.Errorf("%s %q: %w", flag, string(m), err))
	}
	if open {
		r.Say("%s %s is %s", flag, m, at.Format("Monday 2006-01-02 15:04:05 MST (-07:00)"))
	}
	return at, nil
}

var clocks = []string{"15:04", "15:04:05"}

// readMoment reads a text. direction is 1 for the future and -1 for the past. open reports that the text left the day
// or the zone open.
func readMoment(text string, now time.Time, direction int) (at time.Time, open bool, err error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, false, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		if d < 0 {
			return at, false, errors.New("must not be negative")
		}
		return now.Add(time.Duration(direction) * d), false, nil
	}
	words := strings.Fields(text)
	zone := now.Location()
	if n := len(words); n > 1 && (strings.Contains(words[n-1], "/") || words[n-1] == "UTC") {
		if zone, err = time.LoadLocation(words[n-1]); err != nil {
			return at, false, fmt.Errorf("%s is not a time zone of the IANA database, such as Europe/Berlin", words[n-1])
		}
		words = words[:n-1]
	}
	now = now.In(zone)
	day, given := now, len(words) == 2
	if given {
		switch words[0] {
		case "today":
		case "tomorrow":
			day = now.AddDate(0, 0, 1)
		case "yesterday":
			day = now.AddDate(0, 0, -1)
		default:
			if day, err = time.ParseInLocation(time.DateOnly, words[0], zone); err != nil {
				return at, false, errors.New("must be an instant " + momentForms)
			}
		}
		words = words[1:]
	}
	if len(words) != 1 {
		return at, false, errors.New("must be an instant " + momentForms)
	}
	for _, form := range clocks {
		clock, err := time.Parse(form, words[0])
		if err != nil {
			continue
		}
		on := func(day time.Time) time.Time {
			return time.Date(day.Year(), day.Month(), day.Day(), clock.Hour(), clock.Minute(), clock.Second(), 0, zone)
		}
		at := on(day)
		if !given && (direction > 0 && !at.After(now) || direction < 0 && at.After(now)) {
			at = on(day.AddDate(0, 0, direction))
		}
		return at, true, nil
	}
	return at, false, errors.New("must be an instant " + momentForms)
}
