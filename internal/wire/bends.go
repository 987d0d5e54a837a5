package wire

import (
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cause"
)

// halts are the causes for which nothing leaves: what to say while one lasts, and when it ends.
var halts = map[cause.Cause]struct{ lasts, ends string }{
	cause.Paused:        {"paused", "pause ends"},
	cause.Throttled:     {"receiver asked to wait", "receiver's wait ends"},
	cause.Down:          {"receiver is down", "next probe"},
	cause.Quota:         {"quota used up", "quota renews"},
	cause.Hours:         {"outside the queue's hours", "hours begin"},
	cause.LaneHours:     {"outside the hours of its lanes", "hours of a lane begin"},
	cause.NoTarget:      {"no target", "target is set"},
	cause.Scheduled:     {"waits for scheduled jobs", "scheduled jobs are due"},
	cause.DeferredHours: {"deferred jobs wait for their hours", "deferred jobs come back"},
	cause.Drainer:       {"no drainer asks for jobs", "a drainer asks for jobs"},
	cause.Puller:        {"no worker asks for jobs", "a worker asks for jobs"},
}

// limiters say what decides the rate while jobs leave.
var limiters = map[cause.Cause]string{
	cause.Rate:            "the queue's rate",
	cause.Parent:          "the parent's rate",
	cause.Quota:           "the quota",
	cause.LaneRate:        "the rates of its lanes",
	cause.LaneMaxInFlight: "jobs in flight per lane",
	cause.MaxInFlight:     "jobs in flight",
	cause.Ordered:         "one job in flight per lane",
	cause.Deferred:        "deferred jobs",
}

// BendText says in a few words what happens at bend n of a forecast: "lane gmail.com is empty", "pause ends 14:10",
// "quota used up until 00:00". clock formats an instant. The text of the last job is "done", plus its time.
func (f *QueueForecast) BendText(n int, clock func(time.Time) string) string {
	b := &f.Bends[n]
	last := n == len(f.Bends)-1
	switch {
	case last && f.FinishAt != nil:
		return "done " + clock(b.At)
	case b.Drained != "":
		return "lane " + b.Drained + " is empty"
	case b.Rate == 0 || last:
		return b.halt(clock)
	case n > 0 && f.Bends[n-1].Rate == 0:
		before := &f.Bends[n-1]
		text := halts[cause.Cause(before.Why)].ends
		if text == "" {
			text = "jobs leave again"
		}
		return before.ofParent(text) + " " + clock(b.At)
	}
	by := limiters[cause.Cause(b.Why)]
	switch {
	case b.Why == "": // a sum of forecasts
		return perSecond(b.Rate)
	case by == "":
		by = strings.ReplaceAll(b.Why, "_", " ")
	case cause.Cause(b.Why) == cause.Rate && b.Reason != "":
		by = "the limit " + b.Reason
	}
	return perSecond(b.Rate) + " by " + by
}

// Never says why some jobs never leave, and "" if all do.
func (f *QueueForecast) Never(clock func(time.Time) string) string {
	if f.FinishAt != nil || len(f.Bends) == 0 {
		return ""
	}
	return "never: " + f.Bends[len(f.Bends)-1].halt(clock)
}

// halt says why nothing leaves from here on.
func (b *Bend) halt(clock func(time.Time) string) string {
	text := halts[cause.Cause(b.Why)].lasts
	switch {
	case cause.Cause(b.Why) == cause.Quota && b.Reason != "":
		text = "quota " + b.Reason + " used up"
	case text == "" && limiters[cause.Cause(b.Why)] != "":
		text = "waits for " + limiters[cause.Cause(b.Why)]
	case b.Why == "":
		text = "nothing leaves"
	case text == "":
		text = strings.ReplaceAll(b.Why, "_", " ")
	}
	text = b.ofParent(text)
	if b.Until != nil {
		text += " until " + clock(*b.Until)
	}
	return text
}

// ofParent adds the parent, if it is about the parent.
func (b *Bend) ofParent(text string) string {
	if b.Queue == "" {
		return text
	}
	return b.Queue + ": " + text
}

// perSecond formats a rate as a person would say it: 20/s, 1.5/s, 12/m.
func perSecond(v float64) string {
	for _, unit := range []struct {
		name    string
		seconds float64
	}{{"/s", 1}, {"/m", 60}, {"/h", 3600}} {
		if n := v * unit.seconds; n >= 1 || unit.name == "/h" {
			digits := 0
			if n < 10 {
				digits = 1
			}
			return strings.TrimSuffix(strconv.FormatFloat(n, 'f', digits, 64), ".0") + unit.name
		}
	}
	return ""
}
