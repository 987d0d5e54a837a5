package queue

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/leaky"
)

const (
	// SeenFor is for how long a drainer, or a worker, that asked for jobs is taken to live. One that lives asks every
	// 2 s, also while all of its handlers are busy; so one that was killed is gone after this.
	SeenFor = 10 * time.Second
	// StalledAfter is how long a job may be free to leave before its queue counts as stalled.
	StalledAfter = 10 * time.Second
	// soonFree is how far ahead a departure is still part of a steady flow, and not worth an instant.
	soonFree = time.Second
)

// StatusCode says what a queue does.
type StatusCode string

// The codes, in order of precedence: of those that apply, the first is told.
const (
	StatusPaused       StatusCode = "paused"        // somebody paused it
	StatusParentPaused StatusCode = "parent_paused" // somebody paused its parent
	StatusNoDrainer    StatusCode = "no_drainer"    // it holds jobs, and no drainer has asked for any lately
	StatusNoWorker     StatusCode = "no_worker"     // the same of a pull queue in which jobs wait, and its workers
	StatusCircuitOpen  StatusCode = "circuit_open"  // its target is down, and probed
	StatusThrottled    StatusCode = "throttled"     // its receiver asked to be spared
	StatusQuota        StatusCode = "quota"         // as many left in this window of the calendar as may
	StatusMaxInFlight  StatusCode = "max_in_flight" // as many are in flight as may be
	StatusLanes        StatusCode = "lanes"         // all lanes in which jobs wait are held up by their own limits
	StatusStalled      StatusCode = "stalled"       // a job may leave, somebody asks for jobs, and yet none leaves
	StatusFlowing      StatusCode = "flowing"       // jobs leave at the rate
	StatusSchedule     StatusCode = "schedule"      // it has only jobs for later
	StatusDeferred     StatusCode = "deferred"      // it has only jobs on the overflow
	StatusHeld         StatusCode = "held"          // it has only jobs about which a person decides
	StatusIdle         StatusCode = "idle"          // it has none
)

// Status is what a queue does, and why. All that shows or judges a queue goes by it.
type Status struct {
	Code StatusCode
	// Until is when that ends by itself; zero if that is not known. Of flowing, when the next job leaves, if that is
	// worth saying.
	Until time.Time
	// Queue is whose pause or quota it is, if it is not the queue's own: the parent.
	Queue string
	// Reason is what the pause was told, what the receiver answered, or the quota.
	Reason string
	By     string // who paused it
	// Full is whether it has no room for another job.
	Full bool
}

// statusCheck is one row of the table below: it reports whether a code applies.
type statusCheck struct {
	code  StatusCode
	check func(i *Info, s *Status) bool
}

// statusChecks are all codes in order of precedence. The last applies always.
var statusChecks = []statusCheck{
	{StatusPaused, func(i *Info, s *Status) bool { return s.pausedBy(&i.Pause) }},
	{StatusParentPaused, func(i *Info, s *Status) bool {
		return i.Parent != nil && s.pausedBy(&i.Parent.Pause) && s.of(i.Parent)
	}},
	{StatusNoDrainer, func(i *Info, _ *Status) bool { return !i.Spec.Pull && i.leaving() && !i.Attended() }},
	{StatusNoWorker, func(i *Info, _ *Status) bool { return i.Spec.Pull && i.Waiting > 0 && !i.Attended() }},
	{StatusCircuitOpen, func(i *Info, s *Status) bool {
		s.Until, s.Reason = i.Stop.Until, i.Circuit.Reason
		return i.Circuit.Open() || i.Stop.Cause == StopDown
	}},
	{StatusThrottled, func(i *Info, s *Status) bool {
		s.Until, s.Reason = i.Stop.Until, i.Stop.Reason
		return i.Stop.On()
	}},
	{StatusQuota, func(i *Info, s *Status) bool {
		return i.backlogged() && (s.quotaOf(i) || i.Parent != nil && s.quotaOf(i.Parent) && s.of(i.Parent))
	}},
	{StatusMaxInFlight, func(i *Info, _ *Status) bool {
		return i.Waiting > 0 && i.Spec.MaxInFlight > 0 && i.Leased >= i.Spec.MaxInFlight
	}},
	{StatusLanes, func(i *Info, s *Status) bool {
		s.Until = i.Ready // zero while all that those lanes wait for is in flight
		return i.Waiting > 0 && i.LanesRest && (i.Ready.IsZero() || i.Ready.Sub(i.Now) > soonFree)
	}},
	{StatusStalled, func(i *Info, _ *Status) bool {
		return i.backlogged() && i.Outflow == 0 && !i.Ready.IsZero() && i.Now.Sub(i.Ready) > StalledAfter
	}},
	{StatusFlowing, func(i *Info, s *Status) bool {
		if i.Ready.Sub(i.Now) > soonFree {
			s.Until = i.Ready
		}
		return i.backlogged() || i.Leased > 0
	}},
	{StatusSchedule, func(i *Info, s *Status) bool {
		s.Until = i.NextDue
		return i.Scheduled > 0
	}},
	{StatusDeferred, func(i *Info, s *Status) bool {
		if i.Deferred > 0 {
			s.Until = i.Spec.Deferred.WhyDeferred(i.Now).Until
		}
		return i.Deferred > 0
	}},
	{StatusHeld, func(i *Info, _ *Status) bool { return i.Held > 0 }},
	{StatusIdle, func(*Info, *Status) bool { return true }},
}

// StatusCodes are all codes, in order of precedence.
func StatusCodes() []StatusCode {
	codes := make([]StatusCode, len(statusChecks))
	for n := range statusChecks {
		codes[n] = statusChecks[n].code
	}
	return codes
}

// Status says what the queue does, and why.
func (i *Info) Status() Status {
	for _, row := range statusChecks {
		s := Status{Code: row.code}
		if row.check(i, &s) {
			s.Full = i.Full()
			return s
		}
	}
	panic("queue: no status applies") // the last one does
}

// Attended reports whether somebody asks for the queue's jobs: a drainer, or a worker if it is a pull queue.
func (i *Info) Attended() bool { return !i.Asked.IsZero() && i.Now.Sub(i.Asked) <= SeenFor }

// leaving reports whether the queue has anything that is to leave without a person's doing.
func (i *Info) leaving() bool { return i.Waiting+i.Scheduled+i.Leased+i.Deferred > 0 }

// backlogged reports whether jobs wait that the queue's pace holds for: its own, and of a parent its children's.
func (i *Info) backlogged() bool { return i.Waiting > 0 || i.Group.Waiting > 0 }

// of notes whose doing it is.
func (s *Status) of(parent *Info) bool {
	s.Queue = parent.Spec.Name
	return true
}

func (s *Status) pausedBy(p *Pause) bool {
	s.Until, s.Reason, s.By = p.Until, p.Reason, p.By
	return p.On()
}

// quotaOf notes the used up quota of a queue whose window ends last.
func (s *Status) quotaOf(i *Info) bool {
	now := i.instant()
	for n := range min(len(i.Spec.Limits), len(i.Limits)) {
		l := &i.Spec.Limits[n]
		if l.Paced() {
			continue
		}
		calendar, err := l.Calendar(i.Now)
		if err != nil {
			continue // this machine does not know the zone; the store goes by what it knows
		}
		q := leaky.Quota{Max: l.Quota.Max, Calendar: calendar}
		if at := q.Next(i.Limits[n].Window, now); at > now && at.Time().After(s.Until) {
			s.Until, s.Reason = at.Time(), strings.TrimSpace(l.Quota.String()+" "+l.Timezone)
		}
	}
	return !s.Until.IsZero()
}

// statusTexts are what people read, with the instant at the end if there is one.
var statusTexts = map[StatusCode]struct{ text, until string }{
	StatusPaused:       {"paused", "until"},
	StatusParentPaused: {"parent paused", "until"},
	StatusNoDrainer:    {"no drainer", ""},
	StatusNoWorker:     {"waits for workers", ""},
	StatusCircuitOpen:  {"circuit open", "next probe"},
	StatusThrottled:    {"receiver asked to wait", "until"},
	StatusQuota:        {"quota", "until"},
	StatusMaxInFlight:  {"at max_in_flight", ""},
	StatusLanes:        {"lanes at their limits", "until"},
	StatusStalled:      {"stalled", ""},
	StatusFlowing:      {"flowing", "next"},
	StatusSchedule:     {"schedule", "next"},
	StatusDeferred:     {"deferred", "until"},
	StatusHeld:         {"held", ""},
	StatusIdle:         {"idle", ""},
}

// Text says the status in a few words, as of now, and by now's zone: "quota until 21:00 CET". Who paused a queue and
// why, and what a receiver answered, is not in it.
func (s *Status) Text(now time.Time) string {
	words := statusTexts[s.Code]
	text := words.text
	if s.Queue != "" && s.Code != StatusParentPaused {
		text = "parent's " + text
	}
	if !s.Until.IsZero() && words.until != "" {
		if words.until != "until" {
			text += ","
		}
		text += " " + words.until + " " + when(s.Until, now, words.until == "until")
	}
	if s.Full {
		text += ", full"
	}
	return text
}

// when is an instant to people: the time left if it is near, else the time of day, with the date unless it is today's.
func when(at, now time.Time, until bool) string {
	at = at.In(now.Location())
	left := max(0, at.Sub(now))
	switch {
	case left < 2*time.Minute && !until:
		return fmt.Sprintf("in %d s", int64((left+time.Second-1)/time.Second))
	case left < 2*time.Minute:
		return at.Format("15:04:05 MST")
	case at.YearDay() == now.YearDay() && at.Year() == now.Year() && until:
		return at.Format("15:04 MST")
	case at.YearDay() == now.YearDay() && at.Year() == now.Year():
		return "at " + at.Format("15:04 MST")
	case until:
		return at.Format("2006-01-02 15:04 MST")
	}
	return "at " + at.Format("2006-01-02 15:04 MST")
}
