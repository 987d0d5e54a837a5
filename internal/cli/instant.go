package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// moment is an instant as people give it: 07:00, tomorrow 07:00, 2026-12-24 07:00 Europe/Berlin,
// 2026-12-24T07:00:00+01:00, or how long from now, such as 2h. It is read by in, which knows now.
type moment string

const momentForms = "such as 07:00, tomorrow 07:00, 2026-12-24 07:00, 2026-12-24T07:00:00+01:00 or 2h; " +
	"Europe/Berlin or UTC may stand behind, else this machine's zone holds"

// future reads an instant to come: a time of the day without a day is the next one, a duration is from now on. Where
// the text leaves something open, it says on standard error how that was understood.
func (m moment) future(r *run, flag string, now time.Time) (time.Time, error) {
	return m.in(r, flag, now, 1)
}

// past reads one that was: a time of the day is the last one, a duration is how long ago.
func (m moment) past(r *run, flag string, now time.Time) (time.Time, error) {
	return m.in(r, flag, now, -1)
}

func (m moment) in(r *run, flag string, now time.Time, way int) (time.Time, error) {
	at, open, err := readMoment(string(m), now, way)
	if err != nil {
		return at, usage(fmt.Errorf("%s %q: %w", flag, string(m), err))
	}
	if open {
		r.say("%s %s is %s", flag, m, at.Format("Monday 2006-01-02 15:04:05 MST (-07:00)"))
	}
	return at, nil
}

var clocks = []string{"15:04", "15:04:05"}

// readMoment reads a text. open says that it left the day or the zone open.
func readMoment(text string, now time.Time, way int) (at time.Time, open bool, err error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, false, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		if d < 0 {
			return at, false, errors.New("must not be negative")
		}
		return now.Add(time.Duration(way) * d), false, nil
	}
	words := strings.Fields(text)
	zone := now.Location()
	if n := len(words); n > 1 && (strings.Contains(words[n-1], "/") || words[n-1] == "UTC") {
		if zone, err = time.LoadLocation(words[n-1]); err != nil {
			return at, false, fmt.Errorf("%s is no zone of the IANA database, such as Europe/Berlin", words[n-1])
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
		if !given && (way > 0 && !at.After(now) || way < 0 && at.After(now)) {
			at = on(day.AddDate(0, 0, way))
		}
		return at, true, nil
	}
	return at, false, errors.New("must be an instant " + momentForms)
}
