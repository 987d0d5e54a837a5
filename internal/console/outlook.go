package console

import (
	"time"

	"github.com/penstock/penstock/internal/wire"
)

// outlook is when the jobs of queues leave, in words. Empty texts are not known, or there are no jobs.
type outlook struct {
	Delay  string // how long a job added now would wait
	Finish string // time of day when the last job leaves, in UTC
	At     *time.Time
	Never  string // why some jobs never leave; empty if all leave
	// Stuck reports whether jobs added now would never leave.
	Stuck bool
}

// outlookOf returns the outlook of a queue with so many jobs. o may be nil.
func outlookOf(o *wire.Outlook, jobs int64, now time.Time) (v outlook) {
	if o == nil {
		return v
	}
	if o.Why != "" {
		v.Never = "waits for " + wire.WaitsFor(o.Why)
	}
	if o.DelaySeconds != nil {
		v.Delay = span(time.Duration(*o.DelaySeconds * float64(time.Second)))
	}
	v.Stuck = o.DelaySeconds == nil
	switch {
	case jobs == 0:
	case o.FinishAt == nil:
		v.Finish = "never"
	default:
		v.Finish, v.At = shortTime(*o.FinishAt, now), o.FinishAt
	}
	return v
}

// shortTime formats an instant in UTC: as a time of day if it is within 20 hours, with seconds if it is within one.
func shortTime(at, now time.Time) string {
	switch away := at.Sub(now).Abs(); {
	case away < time.Hour:
		return at.UTC().Format("15:04:05")
	case away < 20*time.Hour:
		return at.UTC().Format("15:04")
	case away < 300*24*time.Hour:
		return at.UTC().Format("Jan 2 15:04")
	}
	return at.UTC().Format("2006-01-02")
}
