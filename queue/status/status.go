// Package status says what a queue is doing and why. Everything that shows or judges a queue uses it.
package status

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const (
	// StalledAfter is how long a job may be free to leave before its queue counts as stalled.
	StalledAfter = 10 * time.Second
	// soonFree is how soon a departure must be to count as part of a steady flow, without an instant of its own.
	soonFree = time.Second
)

// Code says what a queue is doing.
type Code string

// The codes, in order of precedence: only the first that applies is reported.
const (
	Paused       Code = "paused"        // the queue is paused
	ParentPaused Code = "parent_paused" // its parent is paused
	NoTarget     Code = "no_target"     // a drainer found no target for its jobs
	NoDrainer    Code = "no_drainer"    // it has jobs, and no drainer has asked for any recently
	NoWorker     Code = "no_worker"     // jobs wait in a pull queue, and no worker has asked for any recently
	CircuitOpen  Code = "circuit_open"  // its target is down and being probed
	Throttled    Code = "throttled"     // its receiver asked to wait
	Hours        Code = "hours"         // it is outside its hours
	Quota        Code = "quota"         // the quota of the present window is used up
	MaxInFlight  Code = "max_in_flight" // the maximum number of jobs is in flight
	Lanes        Code = "lanes"         // all lanes with waiting jobs are held up by their own limits
	Stalled      Code = "stalled"       // a job may leave and a client asks for jobs, yet none leaves
	Flowing      Code = "flowing"       // jobs leave at the rate
	Schedule     Code = "schedule"      // it has only scheduled jobs
	Deferred     Code = "deferred"      // it has only deferred jobs
	Held         Code = "held"          // it has only jobs that wait for a person's decision
	Idle         Code = "idle"          // it has no jobs
)

// Status says what a queue is doing and why.
type Status struct {
	Code Code
	// Until is when the condition ends by itself; zero if unknown. For Flowing it is the next departure, unless that
	// is soon.
	Until time.Time
	// Since is when the queue stopped; zero if unknown, or if it has not stopped.
	Since time.Time
	// Queue is the parent, if the pause, the quota or the hours are the parent's.
	Queue string
	// Reason is the reason of the pause, the receiver's answer, the quota, or the hours.
	Reason string
	By     string // who paused the queue; Note is the name they claimed
	Note   string
	// Full is whether the queue has no room for another job.
	Full bool
}

// check is a row of the table below. Its function reports whether the code applies, and fills in the Status.
type check struct {
	code  Code
	check func(i *queue.Info, s *Status) bool
}

// checks are all codes in order of precedence. The last one always applies.
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
		return !i.Spec.Pull && leaving(i) && !Attended(i)
	}},
	{NoWorker, func(i *queue.Info, s *Status) bool {
		s.Since = i.Asked
		return i.Spec.Pull && i.Waiting > 0 && !Attended(i)
	}},
	{CircuitOpen, func(i *queue.Info, s *Status) bool {
		s.Since, s.Until, s.Reason = i.Circuit.Opened, i.Stop.Until, i.Circuit.Reason
		return i.Circuit.Open() || i.Stop.Cause == queue.StopDown
	}},
	{Throttled, func(i *queue.Info, s *Status) bool {
		s.Until, s.Reason = i.Stop.Until, i.Stop.Reason
		return i.Stop.On()
	}},
	{Hours, func(i *queue.Info, s *Status) bool {
		return backlogged(i) && (s.hoursOf(i) || i.Parent != nil && s.hoursOf(i.Parent) && s.of(i.Parent))
	}},
	{Quota, func(i *queue.Info, s *Status) bool {
		return backlogged(i) && (s.quotaOf(i) || i.Parent != nil && s.quotaOf(i.Parent) && s.of(i.Parent))
	}},
	{MaxInFlight, func(i *queue.Info, _ *Status) bool {
		return i.Waiting > 0 && i.Spec.MaxInFlight > 0 && i.Leased >= i.Spec.MaxInFlight
	}},
	{Lanes, func(i *queue.Info, s *Status) bool {
		s.Until = i.Ready // zero while those lanes wait only for jobs in flight
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

// Codes returns all codes, in order of precedence.
func Codes() []Code {
	codes := make([]Code, len(checks))
	for n := range checks {
		codes[n] = checks[n].code
	}
	return codes
}

// Of returns the status of a queue.
func Of(i *queue.Info) Status {
	for _, row := range checks {
		s := Status{Code: row.code}
		if row.check(i, &s) {
			s.Full = i.Full()
			return s
		}
	}
	panic("status: no status applies") // the last one always does
}

// Attended reports whether a client asks for the queue's jobs: a drainer, or a worker of a pull queue.
func Attended(i *queue.Info) bool { return !i.Asked.IsZero() && i.Now.Sub(i.Asked) <= queue.SeenFor }

// leaving reports whether the queue has jobs that leave without a person's decision.
func leaving(i *queue.Info) bool { return i.Waiting+i.Scheduled+i.Leased+i.Deferred > 0 }

// backlogged reports whether jobs wait for the queue's pace: its own, and for a parent its children's.
func backlogged(i *queue.Info) bool { return i.Waiting > 0 || i.Group.Waiting > 0 }

// of notes that the condition is the parent's.
func (s *Status) of(parent *queue.Info) bool {
	s.Queue = parent.Spec.Name
	return true
}

func (s *Status) pausedBy(p *queue.Pause) bool {
	s.Since, s.Until, s.Reason, s.By, s.Note = p.Since, p.Until, p.Reason, p.By, p.Note
	return p.On()
}

// hoursOf notes until when the hours of a queue are closed.
func (s *Status) hoursOf(i *queue.Info) bool {
	if hours, err := i.Spec.Hours.Schedule("hours"); err == nil {
		if opens := hours.Opens(i.Now); opens.After(i.Now) {
			s.Until, s.Reason = opens, i.Spec.Hours.String()
		}
	}
	return !s.Until.IsZero()
}

// quotaOf notes the used-up quota of a queue whose window ends last.
func (s *Status) quotaOf(i *queue.Info) bool {
	now := leaky.Instant(i.Now.UnixMicro())
	for n := range min(len(i.Spec.Limits), len(i.Limits)) {
		l := &i.Spec.Limits[n]
		if !l.HasQuota() {
			continue
		}
		q, err := l.QuotaRule(i.Now)
		if err != nil {
			continue // unknown zone on this machine; the store knows it
		}
		w := i.Limits[n].Window
		if at := q.Next(w, now); at > now && at.Time().After(s.Until) {
			s.Until, s.Reason = at.Time(), l.QuotaReason(q, q.At(w, now))
		}
	}
	return !s.Until.IsZero()
}

// texts are for display. If the status has an instant, until and the instant follow text. ends says what else ends a
// standstill.
var texts = map[Code]struct{ text, until, ends string }{
	Paused:       {"paused", "until", "the queue is resumed"},
	ParentPaused: {"parent paused", "until", "the parent is resumed"},
	NoTarget:     {"no target", "", "the queue is given a target, or pull"},
	NoDrainer:    {"no drainer", "", "a drainer asks for jobs"},
	NoWorker:     {"waits for workers", "", "a worker asks for jobs"},
	CircuitOpen:  {"circuit open", "next probe", "a probe succeeds, or the queue is resumed"},
	Throttled:    {"receiver asked to wait", "until", "the queue is resumed"},
	Hours:        {"outside its hours", "until", "the hours begin"},
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

// Ends says what ends the standstill; empty if the queue does not stand still.
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

// Text returns the status in a few words, relative to now and in its zone: "quota until 21:00 CET". It leaves out who
// paused the queue and why, and what the receiver answered.
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

// when formats an instant: the time left if it is near, else the time of day, with the date unless it is today.
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
