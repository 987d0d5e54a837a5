package queue

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
)

// Schedule is Hours, ready to be asked. A nil Schedule is always open.
type Schedule struct {
	week   [7][]span // the open spans of each weekday from Sunday, ascending and apart
	closed map[date]bool
	zone   *time.Location
}

type date struct {
	year  int
	month time.Month
	day   int
}

// span is a part of a day, in minutes since midnight, and its text.
type span struct {
	from, to int
	text     string
}

const dayMinutes = 24 * 60

// Schedule checks the hours; field names them in errors, each an *invalid.Error. It returns nil for the zero Hours.
func (h Hours) Schedule(field string) (*Schedule, error) {
	return h.schedule(field, field+".open", field+".timezone")
}

func (h Hours) schedule(field, openField, zoneField string) (*Schedule, error) {
	if !h.On() {
		return nil, nil
	}
	rules := h.Rules()
	zone, err := zoneOf(zoneField, rules.Timezone)
	if err != nil {
		return nil, err
	}
	s := &Schedule{zone: zone, closed: map[date]bool{}}
	open, closed := rules.Open.All(), rules.Closed.All()
	switch {
	case len(open) == 0:
		return nil, invalid.Errorf(openField, "",
			`has no span, such as "mon-fri 08:00-20:00", so the queue would never open; to stop a queue, pause it`)
	case len(open) > MaxHoursOpen:
		return nil, invalid.Errorf(openField, "", "has %d spans, the limit is %d", len(open), MaxHoursOpen)
	case len(closed) > MaxHoursClosed:
		return nil, invalid.Errorf(field+".closed", "", "has %d dates, the limit is %d", len(closed), MaxHoursClosed)
	}
	for _, text := range open {
		if err := s.add(openField, text); err != nil {
			return nil, err
		}
	}
	for _, text := range closed {
		d, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return nil, invalid.Errorf(field+".closed", text, "is not a date such as 2026-12-25")
		}
		s.closed[dateOf(d)] = true
	}
	return s, nil
}

// add adds a span such as "mon-fri 08:00-20:00".
func (s *Schedule) add(field, text string) error {
	days, times, ok := strings.Cut(text, " ")
	if !ok {
		days, times = "sun-sat", text
	}
	from, to, ok := clockTimes(times)
	on := weekdays(days)
	if !ok || on == nil {
		return invalid.Errorf(field, text,
			`must be two times of day such as "08:00-20:00", with two digits each, after days such as "mon-fri" or "sat,sun"`+
				` if not for every day; each day once`)
	}
	if from == to {
		return invalid.Errorf(field, text,
			"begins when it ends; for whole days write 00:00-24:00, to stop a queue pause it")
	}
	for _, day := range on {
		parts := []span{{from, to, text}}
		if to < from {
			parts = []span{{from, dayMinutes, text}}
			if to > 0 {
				parts = append(parts, span{0, to, text})
			}
		}
		for n, p := range parts {
			if err := s.insert(field, (day+n)%7, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Schedule) insert(field string, day int, p span) error {
	list := &s.week[day]
	for _, other := range *list {
		if p.from < other.to && other.from < p.to {
			if p.text == other.text {
				return invalid.Errorf(field, p.text, "is listed twice, or overlaps itself on %s", dayNames[day])
			}
			return invalid.Errorf(field, p.text, "overlaps %q on %s; make them one span", other.text, dayNames[day])
		}
	}
	*list = append(*list, p)
	slices.SortFunc(*list, func(a, b span) int { return a.from - b.from })
	return nil
}

var dayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// weekdays reads "mon-fri", "sat" or "mon,wed-thu"; nil if it cannot.
func weekdays(text string) (days []int) {
	var seen [7]bool
	for part := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(part, "-")
		from := slices.Index(dayNames, strings.ToLower(first))
		to := from
		if ranged {
			to = slices.Index(dayNames, strings.ToLower(last))
		}
		if from < 0 || to < 0 {
			return nil
		}
		for n := from; ; n = (n + 1) % 7 {
			if seen[n] {
				return nil
			}
			seen[n] = true
			days = append(days, n)
			if n == to {
				break
			}
		}
	}
	return days
}

// clockTimes reads "08:00-20:00" as minutes since midnight.
func clockTimes(text string) (from, to int, ok bool) {
	begin, end, found := strings.Cut(text, "-")
	from, ok1 := clockTime(begin)
	to, ok2 := clockTime(end)
	return from, to, found && ok1 && ok2 && from < dayMinutes
}

func clockTime(text string) (minutes int, ok bool) {
	if text == "24:00" {
		return dayMinutes, true
	}
	t, err := time.Parse("15:04", text)
	return t.Hour()*60 + t.Minute(), err == nil && len(text) == len("15:04")
}

var zones sync.Map // name to *time.Location: reading one takes a while

// zoneOf returns a time zone; field names it in errors.
func zoneOf(field, name string) (*time.Location, error) {
	if name == "Local" || name == "localtime" {
		return nil, invalid.Errorf(field, name, "differs from machine to machine; name a zone such as Europe/Berlin")
	}
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, invalid.Errorf(field, name, "is not a time zone of the IANA database, such as Europe/Berlin")
	}
	zones.Store(name, zone)
	return zone, nil
}

func dateOf(t time.Time) date {
	year, month, day := t.Date()
	return date{year, month, day}
}

// instant returns when the clocks of the zone show a time of a day. As in iCalendar (RFC 5545), a time that occurs
// twice is the first one, and a skipped time is as long after midnight as if nothing were skipped. So no span is
// skipped or repeated when clocks change.
func (s *Schedule) instant(d date, minutes int) time.Time {
	wall := time.Date(d.year, d.month, d.day, 0, minutes, 0, 0, time.UTC)
	t := time.Date(d.year, d.month, d.day, 0, minutes, 0, 0, s.zone)
	_, offset := t.Zone()
	shown := wall.Add(-time.Duration(offset) * time.Second) // t, unless the time is skipped
	if shown.After(t) {
		return shown.In(s.zone)
	}
	if begins, _ := t.ZoneBounds(); !begins.IsZero() {
		_, before := begins.Add(-1).Zone()
		if early := wall.Add(-time.Duration(before) * time.Second); early.Before(begins) {
			return early.In(s.zone)
		}
	}
	return t
}

// maxDays is how many days ahead a schedule looks.
const maxDays = 800

// spans yields the open spans that end after t, in order. Spans that touch are one. The last one ends within maxDays.
func (s *Schedule) spans(t time.Time) func(yield func(from, to time.Time) bool) {
	return func(yield func(from, to time.Time) bool) {
		var from, to time.Time // the span that may still be extended
		year, month, day := t.In(s.zone).Date()
		for n := -2; n < maxDays; n++ {
			on := time.Date(year, month, day+n, 0, 0, 0, 0, time.UTC)
			d := dateOf(on)
			if s.closed[d] {
				continue
			}
			for _, p := range s.day(d, s.week[on.Weekday()]) {
				switch {
				case from.IsZero():
					from, to = p.begins, p.ends
				case !p.begins.After(to):
					to = later(to, p.ends)
				default:
					if to.After(t) && !yield(from, to) {
						return
					}
					from, to = p.begins, p.ends
				}
			}
		}
		if !from.IsZero() && to.After(t) {
			yield(from, to)
		}
	}
}

// opening is a span of a certain day.
type opening struct{ begins, ends time.Time }

// day returns the spans of a day in the order in which they begin. A skipped span is moved, so it may begin after later
// ones. If only its begin is skipped, and it would be over by then, it is as long as on other days.
func (s *Schedule) day(d date, spans []span) (list []opening) {
	for _, p := range spans {
		o := opening{s.instant(d, p.from), s.instant(d, p.to)}
		if !o.ends.After(o.begins) {
			o.ends = o.begins.Add(time.Duration(p.to-p.from) * time.Minute)
		}
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b opening) int { return a.begins.Compare(b.begins) })
	return list
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Span returns the first span that ends after t.
func (s *Schedule) Span(t time.Time) (from, to time.Time, ok bool) {
	for from, to := range s.spans(t) {
		return from, to, true
	}
	return t, t, false
}

// Open reports whether jobs may leave at t.
func (s *Schedule) Open(t time.Time) bool { return !s.Opens(t).After(t) }

// Opens returns the first instant, not before t, at which jobs may leave. If it is not within maxDays, it returns their
// end.
func (s *Schedule) Opens(t time.Time) time.Time {
	if s != nil {
		for from := range s.spans(t) {
			return later(from, t)
		}
		return t.AddDate(0, 0, maxDays)
	}
	return t
}

// Closes returns when the span that is open at t ends; t if none is. A schedule that is always open closes far ahead.
func (s *Schedule) Closes(t time.Time) time.Time {
	if s != nil {
		for from, to := range s.spans(t) {
			if !from.After(t) {
				return to
			}
			break
		}
	}
	return t
}

const (
	calendarSpans = 64                   // spans that a calendar of hours holds in advance
	calendarKeeps = 180 * 24 * time.Hour // for how long it holds, if there are fewer
)

// Calendar returns the coming spans, and when half of them are over: get a new calendar then.
func (s *Schedule) Calendar(now time.Time) (h leaky.Hours, renew leaky.Instant) {
	edges, renewAt := make([]leaky.Instant, 0, 2*calendarSpans), now.Add(calendarKeeps)
	for from, to := range s.spans(now.Add(-24 * time.Hour)) { // the wall clock may go back a little
		edges = append(edges, leaky.Instant(from.UnixMicro()), leaky.Instant(to.UnixMicro()))
		if len(edges) == calendarSpans {
			renewAt = earlier(renewAt, to)
		}
		if len(edges) == 2*calendarSpans {
			break
		}
	}
	return leaky.Between(edges), leaky.Instant(renewAt.UnixMicro())
}
