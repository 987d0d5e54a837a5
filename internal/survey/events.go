package survey

import (
	"slices"
	"time"

	"github.com/penstock/penstock/queue/status"
)

// Kind is what an event tells.
type Kind string

// Deleted is the kind of an event of which the Row is from before it.
const Deleted Kind = "deleted"

// kind is a row of the table of events. tells reports whether it is what made the second row of the first.
type kind struct {
	kind  Kind
	means string
	tells func(before, after *Row) bool
}

// kinds are those of which a queue's change has at most one: the first that applies. Those before Changed have no
// second row, or no first.
var kinds = []kind{
	{Deleted, "The queue was deleted.", func(_, after *Row) bool { return after == nil }},
	{"created", "A queue was made.", func(before, _ *Row) bool { return before == nil }},
	{"changed", "Its settings were.", func(before, after *Row) bool { return before.Revision != after.Revision }},
	{"paused", "Somebody paused it, or changed the pause.", func(before, after *Row) bool {
		return after.Info.Pause.On() && before.Info.Pause != after.Info.Pause
	}},
	{"resumed", "Somebody resumed it, or the pause is over.", func(before, after *Row) bool {
		return before.Info.Pause.On() && !after.Info.Pause.On()
	}},
	{"stopped", "Its receiver asked to be spared, or its circuit opened.", func(before, after *Row) bool {
		return after.stopped() && !before.stopped()
	}},
	{"continued", "That is over.", func(before, after *Row) bool { return before.stopped() && !after.stopped() }},
	{"full", "It has no place left.", func(before, after *Row) bool { return after.full() && !before.full() }},
	{"room", "It has places again.", func(before, after *Row) bool { return before.full() && !after.full() }},
	{
		"state", "Its status.code is another one. Of idle, schedule and flowing each is as good as the others.",
		func(before, after *Row) bool {
			return before.Status.Code != after.Status.Code && (!goes(before.Status.Code) || !goes(after.Status.Code))
		},
	},
}

func (r *Row) stopped() bool { return r.Info.Stop.On() || r.Info.Circuit.Open() }

// goes reports whether a queue does what it is for.
func goes(c status.Code) bool {
	return slices.Contains([]status.Code{status.Idle, status.Schedule, status.Flowing}, c)
}

// Kinds are all kinds and what they mean, in the order of the docs.
func Kinds() (all []Kind, means []string) {
	for _, k := range kinds {
		all, means = append(all, k.kind), append(means, k.means)
	}
	return all, means
}

// Event is something that happened to a queue.
type Event struct {
	ID    int64 // of this Survey, from 1 on
	At    time.Time
	Kind  Kind
	Queue string
	Row   *Row // the queue after it; before it if it was deleted
}

// eventLog is the latest events.
type eventLog struct {
	most   int
	last   int64
	events []Event
}

// compare adds what tells two rows of a queue apart, if anything does.
func (l *eventLog) compare(at time.Time, before, after *Row) {
	for _, k := range kinds {
		if !k.tells(before, after) {
			continue
		}
		row := after
		if row == nil {
			row = before
		}
		l.last++
		l.events = append(l.events, Event{l.last, at, k.kind, row.Name, row})
		if len(l.events) > l.most {
			l.events[0] = Event{}
			l.events = l.events[1:]
		}
		return
	}
}

// Events are those behind one. It reports false if not all of them are remembered, or there was never such an event;
// last is the number of the last one.
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
