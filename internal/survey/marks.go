package survey

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue"
)

// Mark is an event that pictures of the curves show.
type Mark struct {
	At    time.Time
	Queue string // empty: the mark is about all queues
	Kind  Kind
	Text  string // such as the reason of a pause, or a version; may be empty
}

// Deployed marks a process whose version was not seen before. It is no kind of an Event.
const Deployed Kind = "deployed"

const (
	maxMarks     = 4096
	maxMarkBytes = 80 // of a text
)

// marked has the kinds of events that make marks, and the texts of these marks.
var marked = map[Kind]func(*Row) string{
	"changed": func(r *Row) string { return "revision " + strconv.FormatInt(r.Revision, 10) },
	"paused":  func(r *Row) string { return r.Info.Pause.Reason },
	"resumed": func(*Row) string { return "" },
	"stopped": func(r *Row) string {
		if r.Info.Stop.Reason != "" {
			return r.Info.Stop.Reason
		}
		return r.Info.Circuit.Reason
	},
	"continued": func(*Row) string { return "" },
}

// MarkKinds returns the kinds of marks, sorted.
func MarkKinds() []Kind {
	kinds := []Kind{Deployed}
	for kind := range marked {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return kinds
}

// note adds the mark of an event, which may be nil.
func (s *Survey) note(e *Event) {
	if e == nil {
		return
	}
	if text := marked[e.Kind]; text != nil {
		s.mark(Mark{e.At, e.Queue, e.Kind, text(e.Row)})
	}
}

func (s *Survey) mark(m Mark) {
	m.Text = clip.Text(m.Text, maxMarkBytes)
	s.marks = append(s.marks, m)
	if len(s.marks) > maxMarks {
		s.marks = slices.Clone(s.marks[len(s.marks)-maxMarks:])
	}
}

// sameMark is the time within which two processes may notice the same event.
const sameMark = 10 * time.Second

// restoreMark adds a mark that the store kept, unless it is already here. Marks arrive roughly in order.
func (s *Survey) restoreMark(m Mark) {
	for _, known := range slices.Backward(s.marks) {
		if known.Queue == m.Queue && known.Kind == m.Kind && known.Text == m.Text &&
			m.At.Sub(known.At).Abs() < sameMark {
			return
		}
		if m.At.Sub(known.At) > 2*time.Hour {
			break
		}
	}
	s.mark(m)
}

// marksBetween returns the marks after an instant up to another one, in order.
func (s *Survey) marksBetween(from, to time.Time) (some []Mark) {
	for _, m := range s.marks {
		if m.At.After(from) && !m.At.After(to) {
			some = append(some, m)
		}
	}
	slices.SortStableFunc(some, func(a, b Mark) int { return a.At.Compare(b.At) })
	return some
}

// versionsNow returns the programs that run now, each with its version.
func (s *Survey) versionsNow(drainers queue.Drainers) map[string]bool {
	now := map[string]bool{}
	if s.o.Version != "" {
		now["ingress "+s.o.Version] = true
	}
	for _, d := range drainers.Seen {
		if d.Version != "" {
			now["drainer "+d.Version] = true
		}
	}
	return now
}

// noteVersions marks programs whose version was not seen before. The first set of all is no deployment.
func (s *Survey) noteVersions(at time.Time, now map[string]bool) {
	known := len(s.versions) > 0
	for _, version := range slices.Sorted(maps.Keys(now)) {
		if known && !s.versions[version] {
			s.mark(Mark{At: at, Kind: Deployed, Text: version})
		}
	}
	s.versions = now
}
