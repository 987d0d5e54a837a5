package queuetest

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// begins is the start of a chapter's time, unless it is NewClock's.
var begins = map[string]time.Time{"SpringForward": time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)}

// daily checks that the whole quota leaves on each of these days in Berlin, from the start of the day there. The first
// two jobs leave at once.
func (r *rig) daily(q string, begins ...time.Time) {
	r.Helper()
	t0 := r.clock.Now()
	r.appendNumbered(q, 2+2*len(begins))
	want := "j1@0s j2@0s"
	for i, at := range begins {
		d := instantOf(at).Sub(t0)
		want += fmt.Sprintf(" j%d@%v j%d@%v", 2*i+3, d, 2*i+4, d)
	}
	if got := r.departures(q, t0, 2+2*len(begins)); got != want {
		r.Errorf(" got %s\nwant %s", got, want)
	}
}

func utc(month time.Month, day, hour int) time.Time {
	return time.Date(2026, month, day, hour, 0, 0, 0, time.UTC)
}

var springRules = []rule{
	{"a day of 23 hours", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 2/d Europe/Berlin"))
		r.daily(q, utc(3, 28, 23), utc(3, 29, 22), utc(3, 30, 22))
	}},
	{"a day of 23 hours in which the quota is set", func(r *rig) {
		r.clock.Set(instantOf(utc(3, 29, 0)))
		q := r.queue("q", "unlimited", limited("quota 2/d Europe/Berlin"))
		r.daily(q, utc(3, 29, 22), utc(3, 30, 22))
	}},
	{"a week and a month with a change of clocks", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 2/w Europe/Berlin"))
		r.daily(q, utc(3, 29, 22), utc(4, 5, 22))
		q = r.queue("g.m", "unlimited", limited("quota 2/mo Europe/Berlin"))
		r.daily(q, utc(4, 30, 22))
	}},
}

var autumnRules = []rule{
	{"a day of 25 hours", func(r *rig) {
		r.clock.Set(instantOf(utc(10, 24, 12)))
		q := r.queue("q", "unlimited", limited("quota 2/d Europe/Berlin"))
		r.daily(q, utc(10, 24, 22), utc(10, 25, 23), utc(10, 26, 23))
	}},
	{"the hour that occurs twice belongs to one day", func(r *rig) {
		r.clock.Set(instantOf(utc(10, 25, 0)))
		q := r.queue("q", "1/h", limited("quota 3/d Europe/Berlin"))
		t0 := r.clock.Now()
		r.appendNumbered(q, 4)
		if got, want := r.departures(q, t0, 4), "j1@0s j2@1h0m0s j3@2h0m0s j4@23h0m0s"; got != want {
			r.Errorf(" got %s\nwant %s", got, want)
		}
	}},
	{"days follow the calendar for as long as the store is used", func(r *rig) {
		berlin, err := time.LoadLocation("Europe/Berlin")
		r.check(err)
		q := r.queue("q", "unlimited", limited("quota 1/d Europe/Berlin"))
		r.accept(q, "first")
		r.deliver(r.grant(q, 9, "first")...)
		for day := range 240 { // both changes of clocks are among them, and the end of the windows that are computed at once
			id := fmt.Sprint("day-", day)
			r.accept(q, id)
			begins := time.Date(2026, 9, 2+day, 0, 0, 0, 0, berlin)
			r.clock.Set(instantOf(begins) - leaky.Instant(queue.Horizon.Microseconds()) - 1)
			r.grant(q, 9)
			r.clock.Set(instantOf(begins))
			r.deliver(r.grant(q, 9, id)...)
			_, err := r.e.Sweep(r.ctx, r.partition(q))
			r.check(err)
		}
	}},
}
