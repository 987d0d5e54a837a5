package quote

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/machine"
	"github.com/penstock/penstock/queue/status"
)

const (
	// MaxDepartures is the maximum number of departures in a Timetable.
	MaxDepartures = 1000
	// MaxLanes is the maximum number of lanes in a Timetable.
	MaxLanes = 50
	// MaxSpan is the maximum time span of a Timetable.
	MaxSpan = 10 * time.Minute
)

// Timetable predicts the departures of a queue if no more jobs are appended.
type Timetable struct {
	From, Until time.Time // by the engine's clock
	Queue       queue.Info
	Departures  []Departure
	// More is whether further departures until then are left out.
	More bool
	// Lanes are the lanes with waiting jobs, the deepest first.
	Lanes []LaneDepth
	// LanesMore is whether some waiting jobs were not read, or some lanes are left out.
	LanesMore bool
}

// LaneDepth is how many jobs of a lane wait, and how many leave within the span.
type LaneDepth struct {
	Lane            string
	Waiting, Leaves int64
}

// Departure is a future departure.
type Departure struct {
	At      time.Time
	ID      string
	Lane    string
	Attempt int // counts from 1
	// Doubt says why the departure is an estimate. It is empty if the departure is exact: granted already, or decided
	// by the pace alone.
	Doubt Doubt
}

// Doubt is the reason why a departure is an estimate.
type Doubt string

// The doubts, in order of precedence: only the first that applies is reported.
const (
	OfPause       Doubt = "paused"        // the queue or its parent may be resumed sooner
	OfDrainer     Doubt = "drainer"       // no client asks for jobs; assumes that one does now
	OfDown        Doubt = "down"          // depends on a successful probe
	OfNoTarget    Doubt = "no_target"     // the queue needs a target first
	OfThrottled   Doubt = "throttled"     // the receiver may ask for more time
	OfLimits      Doubt = "limits"        // further paces, or a quota
	OfParent      Doubt = "parent"        // members of its group take turns
	OfLanes       Doubt = "lanes"         // lanes take turns and have their own limits
	OfMaxInFlight Doubt = "max_in_flight" // depends on when other jobs end
	OfOrdered     Doubt = "ordered"       // the same within a lane
	OfAdapt       Doubt = "adapt"         // the rate follows the receiver
	OfInFlight    Doubt = "in_flight"     // a leased or held job may come back to its turn
	OfDeferred    Doubt = "deferred"      // a job from the overflow may have a higher priority
	OfChange      Doubt = "changed"       // jobs came or left while they were read
	OfScheduled   Doubt = "scheduled"     // it is scheduled, or other jobs become due before it
)

// doubts is the table of doubts, in order of precedence. A doubt that concerns only some departures has no check.
var doubts = []struct {
	Doubt
	applies func(v *view, c status.Code) bool
}{
	{OfPause, func(_ *view, c status.Code) bool { return c == status.Paused || c == status.ParentPaused }},
	{OfDrainer, func(_ *view, c status.Code) bool { return c == status.NoDrainer || c == status.NoWorker }},
	{OfDown, func(_ *view, c status.Code) bool { return c == status.CircuitOpen }},
	{OfNoTarget, func(_ *view, c status.Code) bool { return c == status.NoTarget }},
	{OfThrottled, func(v *view, _ status.Code) bool { return v.info.Stop.On() }},
	{OfLimits, func(v *view, _ status.Code) bool { return len(v.info.Spec.Limits) > 0 }},
	{OfParent, func(v *view, _ status.Code) bool { return v.info.Parent != nil || v.info.Group.Children > 0 }},
	{OfLanes, func(v *view, _ status.Code) bool { return len(v.backlog.lanes) > 1 }},
	{OfMaxInFlight, func(v *view, _ status.Code) bool { return v.info.Spec.MaxInFlight > 0 }},
	{OfOrdered, func(v *view, _ status.Code) bool { return v.info.Spec.Ordered }},
	{OfAdapt, func(v *view, _ status.Code) bool { return v.info.Spec.Adapts() }},
	{OfInFlight, func(v *view, _ status.Code) bool { return v.info.Leased+v.info.Held > 0 }},
	{OfDeferred, func(v *view, _ status.Code) bool { return v.info.Deferred > 0 }},
	{OfChange, func(v *view, _ status.Code) bool { return v.changed }},
	{OfScheduled, nil},
}

// Doubts returns all doubts, in order of precedence.
func Doubts() []Doubt {
	all := make([]Doubt, len(doubts))
	for n := range doubts {
		all[n] = doubts[n].Doubt
	}
	return all
}

// TimetableSource is the part of an engine that ReadTimetable needs.
type TimetableSource interface {
	queue.SpecReader
	ListJobs(ctx context.Context, r queue.ListRequest) (queue.Listing, error)
}

// ReadTimetable returns the departures of a queue within the span, in a bounded number of calls. Errors: an
// *invalid.Error, and as Get and ListJobs.
func ReadTimetable(ctx context.Context, from TimetableSource, name string, span time.Duration) (Timetable, error) {
	if span <= 0 || span > MaxSpan {
		return Timetable{}, invalid.Errorf("for", span.String(), "must be longer than 0s, up to %s", MaxSpan)
	}
	for try := 1; ; try++ {
		v, err := readJobs(ctx, from, name)
		if err != nil {
			return Timetable{}, err
		}
		if !v.changed || try == maxReads || v.info.Lanes > 1 {
			t, err := v.timetable(span)
			t.sort()
			return t, err
		}
	}
}

// timetable simulates the departures.
func (v *view) timetable(span time.Duration) (t Timetable, err error) {
	i := &v.info
	t = Timetable{From: i.Now, Until: i.Now.Add(span), Queue: *i}
	leaves := map[string]int64{}
	for n := range v.granted {
		t.add(&v.granted[n], v.granted[n].DueAt, "")
	}
	defer func() { t.Lanes, t.LanesMore = v.lanes(leaves) }()
	paused, ends := stops(i)
	if paused && ends.IsZero() {
		return t, nil
	}
	out, err := machine.NewRehearsal(i, nil)
	if err != nil {
		return Timetable{}, err
	}
	doubt := v.doubt(status.Of(i).Code)
	due := leaky.Instant(i.NextDue.UnixMicro())
	beyond := false // other jobs leave after the span
	for w, departs := range v.backlog.departures(out) {
		if departs.expired {
			continue
		}
		if departs.at.Time().After(t.Until) {
			beyond = beyond || w.due == 0
			continue
		}
		of := doubt
		if of == "" && !i.NextDue.IsZero() && departs.at >= due {
			of = OfScheduled
		}
		if w.due == 0 {
			leaves[v.jobs[w.n].Lane]++
		}
		t.add(&v.jobs[w.n], departs.at.Time(), of)
	}
	t.More = v.more(t.Until, beyond)
	return t, nil
}

// lanes counts the waiting jobs by lane.
func (v *view) lanes(leaves map[string]int64) (all []LaneDepth, more bool) {
	at := map[string]int{}
	for n := range v.jobs {
		j := &v.jobs[n]
		if j.State != queue.Waiting {
			continue
		}
		if _, known := at[j.Lane]; !known {
			at[j.Lane] = len(all)
			all = append(all, LaneDepth{Lane: j.Lane, Leaves: leaves[j.Lane]})
		}
		all[at[j.Lane]].Waiting++
	}
	slices.SortStableFunc(all, func(a, b LaneDepth) int { return cmp.Compare(b.Waiting, a.Waiting) })
	more = v.cut[queue.Waiting] || len(all) > MaxLanes
	return all[:min(len(all), MaxLanes)], more
}

// doubt returns the reason why every departure of a waiting job is an estimate, or "".
func (v *view) doubt(c status.Code) Doubt {
	for _, row := range doubts {
		if row.applies != nil && row.applies(v, c) {
			return row.Doubt
		}
	}
	return ""
}

func (t *Timetable) add(j *queue.JobInfo, at time.Time, d Doubt) {
	t.Departures = append(t.Departures, Departure{
		At: at, ID: j.ID, Lane: j.Lane, Attempt: j.Attempts + 1, Doubt: d,
	})
}

// sort sorts the departures and cuts them to MaxDepartures.
func (t *Timetable) sort() {
	slices.SortStableFunc(t.Departures, func(a, b Departure) int {
		return cmp.Compare(a.At.UnixMicro(), b.At.UnixMicro())
	})
	if len(t.Departures) > MaxDepartures {
		t.Departures, t.More = t.Departures[:MaxDepartures], true
	}
}
