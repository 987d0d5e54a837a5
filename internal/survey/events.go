package survey

import (
	"slices"
	"time"

	"github.com/penstock/penstock/queue/status"
)

// Kind is the kind of an event.
type Kind string

// Deleted is the only kind of event whose Row dates from before the event.
const Deleted Kind = "deleted"

// kind is a row of the table of events. matches reports whether an event of this kind turned before into after.
type kind struct {
	kind    Kind
	means   string
	matches func(before, after *Row) bool
}

// kinds are the kinds of events. A change of a queue causes one event: the first kind that matches. after is nil for
// Deleted, before is nil for created.
var kinds = []kind{
	{Deleted, "The queue was deleted.", func(_, after *Row) bool { return after == nil }},
	{"created", "The queue was created.", func(before, _ *Row) bool { return before == nil }},
	{"changed", "The settings changed.", func(before, after *Row) bool { return before.Revision != after.Revision }},
	{"paused", "The queue was paused, or its pause changed.", func(before, after *Row) bool {
		return after.Info.Pause.On() && before.Info.Pause != after.Info.Pause
	}},
	{"resumed", "The queue was resumed, or its pause ended.", func(before, after *Row) bool {
		return before.Info.Pause.On() && !after.Info.Pause.On()
	}},
	{"stopped", "The receiver asked for a delay, or the circuit opened.", func(before, after *Row) bool {
		return after.stopped() && !before.stopped()
	}},
	{"continued", "The stop ended.", func(before, after *Row) bool { return before.stopped() && !after.stopped() }},
	{"full", "The queue is full.", func(before, after *Row) bool { return after.full() && !before.full() }},
	{"room", "The queue has room again.", func(before, after *Row) bool { return before.full() && !after.full() }},
	{
		"state", "The status.code changed. Changes among idle, schedule and flowing cause no event.",
		func(before, after *Row) bool {
			return before.Status.Code != after.Status.Code && (!works(before.Status.Code) || !works(after.Status.Code))
		},
	},
}

func (r *Row) stopped() bool { return r.Info.Stop.On() || r.Info.Circuit.Open() }

// works reports whether a queue with this status works normally.
func works(c status.Code) bool {
	return slices.Contains([]status.Code{status.Idle, status.Schedule, status.Flowing}, c)
}

// Kinds returns all kinds and their meanings, in the order of the documentation.
func Kinds() (all []Kind, means []string) {
	for _, k := range kinds {
		all, means = append(all, k.kind), append(means, k.means)
	}
	return all, means
}

// Event is a change of a queue.
type Event struct {
	ID    int64 // counted from 1 within this Survey
	At    time.Time
	Kind  Kind
	Queue string
	Row   *Row // the queue after the event; before it if it was deleted
}

// eventLog holds the latest events.
type eventLog struct {
	most   int
	last   int64
	events []Event
}

// compare adds an event if two rows of a queue differ, and returns it; else nil.
func (l *eventLog) compare(at time.Time, before, after *Row) *Event {
	for _, k := range kinds {
		if !k.matches(before, after) {
			continue
		}
		row := after
		if row == nil {
			row = before
		}
		l.last++
		e := Event{l.last, at, k.kind, row.Name, row}
		l.events = append(l.events, e)
		if len(l.events) > l.most {
			l.events[0] = Event{}
			l.events = l.events[1:]
		}
		return &e
	}
	return nil
}

// Events returns the events after the given id, and the id of the last event. all is false if some of these events are
// forgotten, or if the id was never used.
func (s *Survey) Events(after int64) (some []Event, last int64, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.log
	behind := l.last - after
	if behind < 0 || behind > int64(len(l.events)) {
		return nil, l.last, false
	}
	return slices.Clone(l.events[int64(len(l.events))-behind:]), l.last, true
}
