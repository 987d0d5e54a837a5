package queue

import (
	"strings"
	"time"

	"github.com/penstock/penstock/queue/invalid"
)

// Window is a time of day, by the wall clock of a zone. The zero Window is always open.
type Window struct {
	from, to time.Duration // since midnight; to may be before from, over midnight
	zone     *time.Location
}

// Window returns the time of day in which jobs come back. Its error is an *invalid.Error.
func (d *Deferral) Window() (Window, error) {
	if d.ReadmitBetween == "" {
		if d.Timezone != "" {
			return Window{}, invalid.Errorf("deferred.timezone", d.Timezone, "has no effect without deferred.readmit_between")
		}
		return Window{}, nil
	}
	const form = `must be two times of day such as "22:00-06:00"`
	begin, end, ok := strings.Cut(d.ReadmitBetween, "-")
	from, err1 := time.Parse("15:04", begin)
	to, err2 := time.Parse("15:04", end)
	if !ok || err1 != nil || err2 != nil {
		return Window{}, invalid.Errorf("deferred.readmit_between", d.ReadmitBetween, form)
	}
	if from.Equal(to) {
		return Window{}, invalid.Errorf(
			"deferred.readmit_between", d.ReadmitBetween, "begins when it ends; leave it out to mean always",
		)
	}
	if d.Timezone == "Local" || d.Timezone == "localtime" {
		return Window{}, invalid.Errorf(
			"deferred.timezone", d.Timezone, "differs from machine to machine; name a zone such as Europe/Berlin",
		)
	}
	zone, err := time.LoadLocation(d.Timezone)
	if err != nil {
		return Window{}, invalid.Errorf(
			"deferred.timezone", d.Timezone, "is not a time zone of the IANA database, such as Europe/Berlin",
		)
	}
	midnight, _ := time.Parse("15:04", "00:00")
	return Window{from: from.Sub(midnight), to: to.Sub(midnight), zone: zone}, nil
}

// Open reports whether the window is open at t, by the wall clock of its zone. When clocks change, the shown time
// counts: a skipped hour is not in the window, and a repeated hour is in it twice.
func (w Window) Open(t time.Time) bool {
	if w.zone == nil {
		return true
	}
	h, m, s := t.In(w.zone).Clock()
	clock := time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + time.Duration(s)*time.Second
	if w.from < w.to {
		return w.from <= clock && clock < w.to
	}
	return clock >= w.from || clock < w.to
}

// Opens returns the first instant at or after t at which the window is open, to the minute.
func (w Window) Opens(t time.Time) time.Time { return w.next(t, true) }

// Closes returns the first instant at or after t at which the window is closed, to the minute; t if it never is.
func (w Window) Closes(t time.Time) time.Time { return w.next(t, false) }

func (w Window) next(t time.Time, open bool) time.Time {
	// Windows begin and zones change on whole minutes. A window opens once a day, and a day has at most 25 hours.
	for try := t; try.Sub(t) <= 49*time.Hour; try = try.Truncate(time.Minute).Add(time.Minute) {
		if w.Open(try) == open {
			return try
		}
	}
	return t
}
