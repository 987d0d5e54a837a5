package doctor

import (
	"context"
	"time"
)

// reading is one of another's clock, between two instants of this machine.
type reading struct{ time, before, after time.Time }

// ahead is by how much the other clock is ahead at least, negative if it is behind; 0 if it may be the same.
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
	// badSkew is by how much clocks differ that are not kept at all; warnSkew when the instants that people read and write
	// are not those that the store goes by.
	badSkew  = 10 * time.Second
	warnSkew = time.Second
)

// clock compares this machine's with the others. Those of drainers count for nothing: they measure how long ago they
// asked, and read no clock.
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
		if servers, err := v.Servers(ctx); err == nil { // else redis has told
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
		v.ok("this machine and %s agree within %v", count(n, "other clock"), warnSkew)
	}
}
