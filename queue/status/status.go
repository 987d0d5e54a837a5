// Package status says what a queue does, and why, as everything shows it that shows or judges a queue.
package status

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const (
	// StalledAfter is how long a job may be free to leave before its queue counts as stalled.
	StalledAfter = 10 * time.Second
	// soonFree is how far ahead a departure is still part of a steady flow, and not worth an instant.
	soonFree = time.Second
)

// Code says what a queue does.
type Code string

// The codes, in order of precedence: of those that apply, the first is told.
const (
	Paused       Code = "paused"        // somebody paused it
	ParentPaused Code = "parent_paused" // somebody paused its parent
	NoTarget     Code = "no_target"     // a drainer found no target to deliver its jobs to
	NoDrainer    Code = "no_drainer"    // it holds jobs, and no drainer has asked for any lately
	NoWorker     Code = "no_worker"     // the same of a pull queue in which jobs wait, and its workers
	CircuitOpen  Code = "circuit_open"  // its target is down, and probed
	Throttled    Code = "throttled"     // its receiver asked to be spared
	Quota        Code = "quota"         // as many left in this window of the calendar as may
	MaxInFlight  Code = "max_in_flight" // as many are in flight as may be
	Lanes        Code = "lanes"         // all lanes in which jobs wait are held up by their own limits
	Stalled      Code = "stalled"       // a job may leave, somebody asks for jobs, and yet none leaves
	Flowing      Code = "flowing"       // jobs leave at the rate
	Schedule     Code = "schedule"      // it has only jobs for later
	Deferred     Code = "deferred"      // it has only jobs on the overflow
	Held         Code = "held"          // it has only jobs about which a person decides
	Idle         Code = "idle"          // it has none
)

// Status is what a queue does, and why. All that shows or judges a queue goes by it.
type Status struct {
	Code Code
	// Until is when that ends by itself; zero if that is not known. Of flowing, when the next job leaves, if that is
	// worth saying.
	Until time.Time
	// Since is since when the queue stands still; zero if that is not known, or it does not.
	Since time.Time
	// Queue is whose pause or quota it is, if it is not the queue's own: the parent.
	Queue string
	// Reason is what the pause was told, what the receiver answered, or the quota.
	Reason string
	By     string // who paused it, and Note who he said that he is
	Note   string
	// Full is whether it has no room for another job.
	Full bool
}

// check is one row of the table below: it reports whether a code applies.
type check struct {
	code  Code
	check func(i *queue.Info, s *Status) bool
}

// statusChecks are all codes in order of precedence. The last applies always.
var checks = []check{
	{Paused, func(i *queue.Info, s *Status) bool { return s.pausedBy(&i.Pause) }},
	{ParentPaused, func(i *queue.Info, s *Status) bool {
		return i.Parent != nil && s.pausedBy(&i.Parent.Pause) && s.of(i.Parent)
	}},
	{NoTarget, func(i *queue.Info, s *Status) bool {
		s.Reason = i.Stop.Reason
		return i.Stop.Cause == queue.StopNoTarget
	}},
	{NoDrainer, func(i *queue.Info, s *Status) bool {
		s.Since = i.Asked
		return !i.Spec.Pull && leaving(i) && !attended(i)
	}},
	{NoWorker, func(i *queue.Info, s *Status) bool {
		s.Since = i.Asked
		return i.Spec.Pull && i.Waiting > 0 && !attended(i)
	}},
	{CircuitOpen, func(i *queue.Info, s *Status) bool {
		s.Since, s.Until, s.Reason = i.Circuit.Opened, i.Stop.Until, i.Circuit.Reason
		return i.Circuit.Open() || i.Stop.Cause == queue.StopDown
	}},
	{Throttled, func(i *queue.Info, s *Status) bool {
		s.Until, s.Reason = i.Stop.Until, i.Stop.Reason
		return i.Stop.On()
	}},
	{Quota, func(i *queue.Info, s *Status) bool {
		return backlogged(i) && (s.quotaOf(i) || i.Parent != nil && s.quotaOf(i.Parent) && s.of(i.Parent))
	}},
	{MaxInFlight, func(i *queue.Info, _ *Status) bool {
		return i.Waiting > 0 && i.Spec.MaxInFlight > 0 && i.Leased >= i.Spec.MaxInFlight
	}},
	{Lanes, func(i *queue.Info, s *Status) bool {
		s.Until = i.Ready // zero while all that those lanes wait for is in flight
		return i.Waiting > 0 && i.LanesRest && (i.Ready.IsZero() || i.Ready.Sub(i.Now) > soonFree)
	}},
	{Stalled, func(i *queue.Info, s *Status) bool {
		s.Since = i.Ready
		return backlogged(i) && i.Outflow == 0 && !i.Ready.IsZero() && i.Now.Sub(i.Ready) > StalledAfter
	}},
	{Flowing, func(i *queue.Info, s *Status) bool {
		if i.Ready.Sub(i.Now) > soonFree {
			s.Until = i.Ready
		}
		return backlogged(i) || i.Leased > 0
	}},
	{Schedule, func(i *queue.Info, s *Status) bool {
		s.Until = i.NextDue
		return i.Scheduled > 0
	}},
	{Deferred, func(i *queue.Info, s *Status) bool {
		if i.Deferred > 0 {
			s.Until = i.Spec.Deferred.WhyDeferred(i.Now).Until
		}
		return i.Deferred > 0
	}},
	{Held, func(i *queue.Info, _ *Status) bool { return i.Held > 0 }},
	{Idle, func(*queue.Info, *Status) bool { return true }},
}

// Codes are all codes, in order of precedence.
func Codes() []Code {
	codes := make([]Code, len(checks))
	for n := range checks {
		codes[n] = checks[n].code
	}
	return codes
}

// Of says what a queue does, and why.
func Of(i *queue.Info) Status {
	for _, row := range checks {
		s := Status{Code: row.code}
		if row.check(i, &s) {
			s.Full = i.Full()
			return s
		}
	}
	panic("status: no status applies") // the last one does
}

// attended reports whether somebody asks for the queue's jobs: a drainer, or a worker if it is a pull queue.
func attended(i *queue.Info) bool { return !i.Asked.IsZero() && i.Now.Sub(i.Asked) <= queue.SeenFor }

// leaving reports whether the queue has anything that is to leave without a person's doing.
func leaving(i *queue.Info) bool { return i.Waiting+i.Scheduled+i.Leased+i.Deferred > 0 }

// backlogged reports whether jobs wait that the queue's pace holds for: its own, and of a parent its children's.
func backlogged(i *queue.Info) bool { return i.Waiting > 0 || i.Group.Waiting > 0 }

// of notes whose doing it is.
func (s *Status) of(parent *queue.Info) bool {
	s.Queue = parent.Spec.Name
	return true
}

func (s *Status) pausedBy(p *queue.Pause) bool {
	s.Since, s.Until, s.Reason, s.By, s.Note = p.Since, p.Until, p.Reason, p.By, p.Note
	return p.On()
}

// quotaOf notes the used up quota of a queue whose window ends last.
func (s *Status) quotaOf(i *queue.Info) bool {
	now := leaky.Instant(i.Now.UnixMicro())
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

// texts are what people read, with the instant at the end if there is one. ends is what ends a standstill, beside the
// instant.
var texts = map[Code]struct{ text, until, ends string }{
	Paused:       {"paused", "until", "somebody resumes the queue"},
	ParentPaused: {"parent paused", "until", "somebody resumes the parent"},
	NoTarget:     {"no target", "", "the queue is given a target, or pull"},
	NoDrainer:    {"no drainer", "", "a drainer asks for jobs"},
	NoWorker:     {"waits for workers", "", "a worker asks for jobs"},
	CircuitOpen:  {"circuit open", "next probe", "a probe succeeds, or somebody resumes the queue"},
	Throttled:    {"receiver asked to wait", "until", "somebody resumes the queue"},
	Quota:        {"quota", "until", "the next window of the quota begins"},
	MaxInFlight:  {"at max_in_flight", "", "a job in flight is settled"},
	Lanes:        {"lanes at their limits", "until", "a limit of one of the lanes allows a job"},
	Stalled:      {"stalled", "", "a drainer that can take the jobs asks for them"},
	Flowing:      {"flowing", "next", ""},
	Schedule:     {"schedule", "next", ""},
	Deferred:     {"deferred", "until", ""},
	Held:         {"held", "", ""},
	Idle:         {"idle", "", ""},
}

// Ends says what ends the standstill of the queue; empty if it does not stand still.
func (s *Status) Ends() string {
	ends := texts[s.Code].ends
	switch s.Code {
	case Paused, ParentPaused, Throttled:
		if !s.Until.IsZero() {
			return "that time is over, or " + ends
		}
	}
	return ends
}

// Text says the status in a few words, as of now, and by now's zone: "quota until 21:00 CET". Who paused a queue and
// why, and what a receiver answered, is not in it.
func (s *Status) Text(now time.Time) string {
	words := texts[s.Code]
	text := words.text
	if s.Queue != "" && s.Code != ParentPaused {
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
