package doctor

import (
	"context"
	"time"

	"github.com/penstock/penstock/internal/cli/show"
)

// reading is the time of another clock, read between two instants of this machine.
type reading struct{ time, before, after time.Time }

// ahead returns how far the other clock is ahead at the least. It is negative if that clock is behind, and 0 if the
// clocks may agree.
func (r reading) ahead() time.Duration {
	switch {
	case r.time.Before(r.before):
		return r.time.Sub(r.before)
	case r.time.After(r.after):
		return r.time.Sub(r.after)
	}
	return 0
}

const (
	// badSkew is a difference between clocks that shows that one is not synchronized. From warnSkew on, people notice
	// that the store's times differ from theirs.
	badSkew  = 10 * time.Second
	warnSkew = time.Second
)

// clock compares the clock of this machine with the others. Clocks of drainers do not matter: they only measure
// durations.
func (v *visit) clock(ctx context.Context) {
	n := 0
	compare := func(of string, r reading) {
		if r.time.IsZero() {
			return
		}
		n++
		ahead := r.ahead().Round(10 * time.Millisecond)
		how := "ahead of"
		if ahead < 0 {
			ahead, how = -ahead, "behind"
		}
		const do = "timedatectl set-ntp true"
		switch {
		case ahead >= badSkew:
			v.wrong(do, "the clock of %s is %v %s this machine's: schedules and expiries go by it", of, ahead, how)
		case ahead >= warnSkew:
			v.warn(do, "the clock of %s is %v %s this machine's: schedules and expiries go by it", of, ahead, how)
		}
	}
	compare("the store", v.asked)
	if v.Servers != nil {
		if servers, err := v.Servers(ctx); err == nil { // otherwise the check redis reports it
			for _, s := range servers {
				compare("redis "+s.Addr, reading{s.Time, s.Asked, s.Answered})
			}
		}
	}
	if v.Overflow != nil {
		if streams, err := v.Overflow(ctx); err == nil {
			for _, s := range streams[:min(1, len(streams))] {
				compare("nats", reading{s.Time, s.Asked, s.Answered})
			}
		}
	}
	if n > 0 && v.silent() {
		v.ok("this machine and %s agree within %v", show.Count(int64(n), "other clock"), warnSkew)
	}
}
