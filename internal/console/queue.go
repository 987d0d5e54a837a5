package console

import (
	"net/url"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/wire"
)

// timetableFor is how far into the future departures are shown, and maxDepartures how many of them by name.
const (
	timetableFor  = time.Minute
	maxDepartures = 100
)

// queueView is what the page of a queue shows.
type queueView struct {
	wire.Queue
	State     state
	Fill      gauge
	PerSecond float64
	Timetable wire.Timetable
	Marks     []mark
	Shown     []wire.Departure
	Unshown   int
	Standing  string // how what holds it up ends; empty if nothing does
	Window    string // of the charts
	History   string // where the charts have their values from
	Events    string // where what happens to it is followed
	Actions   []action
	Parts     []part
	Lanes     []laneRow
}

// laneRow is a lane with jobs that wait, and its share of all that do, and of what leaves next.
type laneRow struct {
	wire.LaneDepth
	Jobs   string // a link to them; empty of the lane without a key
	Share  gauge
	Leaves gauge
}

// mark is a departure on the line of the next minute, in thousandths of it.
type mark struct {
	At    float64
	Exact bool
}

// part is a number of jobs in a state, and a link to them.
type part struct {
	Name, URL string
	N         int64
}

func readQueue(r *request) (any, error) {
	name := r.PathValue("queue")
	r.Title = name
	q, err := r.api.Queue(r.Context(), name)
	if err != nil {
		return nil, err
	}
	v := queueView{
		Queue: q, State: stateOf(&q.Status), Window: "15m", Actions: queueActions(&q),
		Fill: fillOf(&wire.QueueRow{
			Size: q.Stats.Size(), Capacity: q.Capacity, Bytes: q.Stats.Bytes, MaxBytes: q.Stats.MaxBytes,
		}),
	}
	if r.URL.Query().Get("window") == "24h" {
		v.Window = "24h"
	}
	v.History = r.console.root + "/api" + apiPath("queues", name, "history") + "?window=" + v.Window
	v.Events = r.console.root + "/api" + apiPath("queues", name, "events")
	jobs := r.console.path("queues", name, "jobs") + "?state="
	for _, s := range jobStates {
		v.Parts = append(v.Parts, part{s.name, jobs + s.name, s.count(&q.Stats)})
	}
	if v.Timetable, err = r.api.Timetable(r.Context(), name, timetableFor); err != nil {
		return nil, err
	}
	v.departures()
	v.lanes(r.console)
	if s := v.Timetable.Standstill; s != nil {
		v.Standing = s.Ends
	}
	return v, nil
}

// departures draws those that are to come.
func (v *queueView) departures() {
	t := &v.Timetable
	span := t.Until.Sub(t.From)
	for i := range t.Departures {
		d := &t.Departures[i]
		if at := d.At.Sub(t.From); at >= 0 && at <= span && span > 0 {
			v.Marks = append(v.Marks, mark{1000 * at.Seconds() / span.Seconds(), d.Exact})
		}
	}
	v.Shown = t.Departures[:min(len(t.Departures), maxDepartures)]
	v.Unshown = len(t.Departures) - len(v.Shown)
}

// lanes are those of the jobs that wait, if there are several.
func (v *queueView) lanes(c *Console) {
	lanes := v.Timetable.Lanes
	if len(lanes) < 2 && v.Stats.Lanes < 2 {
		return
	}
	var leave int64
	for _, l := range lanes {
		leave += l.Leaves
	}
	for _, l := range lanes {
		row := laneRow{LaneDepth: l}
		row.Share, row.Leaves = gaugeOf(l.Waiting, v.Stats.Waiting, num), gaugeOf(l.Leaves, leave, num)
		row.Share.Tone, row.Leaves.Tone = "", "" // much of it is nothing bad
		if l.Lane != "" {
			row.Jobs = c.path("queues", v.Name, "jobs") + "?" + url.Values{"lane": {l.Lane}}.Encode()
		}
		v.Lanes = append(v.Lanes, row)
	}
}

// queueActions are what an operator does with a queue.
func queueActions(q *wire.Queue) []action {
	if q.Paused {
		return []action{{
			Label: "Resume", Method: "POST", Path: apiPath("queues", q.Name, "resume"), Role: auth.Operate,
			Command: []string{"queue", "resume", q.Name},
		}}
	}
	return []action{{
		Label: "Pause", Method: "POST", Path: apiPath("queues", q.Name, "pause"), Role: auth.Operate,
		Confirm: "Nothing leaves until it is resumed. Jobs still come in.",
		Fields:  []field{{Name: "reason", Label: "Reason", Hint: "why, for the others"}},
		Command: []string{"queue", "pause", q.Name},
	}}
}

// changesView is what was done to a queue.
type changesView struct {
	Name string
	Rows []changeRow
	// Older is where the changes before follow; empty if there are none.
	Older   string
	Dropped int64
	Call    action
}

type changeRow struct {
	wire.Change
	Edits []edit
	// Rollback makes the queue what it was then; without a Path there is nothing to go back to.
	Rollback action
}

func readChanges(r *request) (any, error) {
	name := r.PathValue("queue")
	r.Title = "Changes of " + name
	before, err := strconv.ParseInt(r.URL.Query().Get("before"), 10, 64)
	if err != nil {
		before = 0
	}
	page, err := r.api.Changes(r.Context(), name, changesAsked(before))
	if err != nil {
		return nil, err
	}
	v := changesView{Name: name, Dropped: page.Dropped, Call: action{
		Method: "GET", Path: apiPath("queues", name, "changes"), Command: []string{"queue", "log", name},
	}}
	for i := range page.Changes {
		c := &page.Changes[i]
		row := changeRow{Change: *c}
		if c.Before != nil && c.After != nil {
			row.Edits = editsOf(objectOf(c.Before), objectOf(c.After))
		}
		if c.After != nil && c.Revision > 0 && i > 0 {
			row.Rollback = rollback(name, c.Revision)
		}
		v.Rows = append(v.Rows, row)
	}
	if page.Next > 0 {
		v.Older = r.console.path("queues", name, "changes") + "?" +
			url.Values{"before": {strconv.FormatInt(page.Next, 10)}}.Encode()
	}
	return v, nil
}

func rollback(name string, revision int64) action {
	to := strconv.FormatInt(revision, 10)
	return action{
		Label: "Go back to this", Method: "POST", Path: apiPath("queues", name, "rollback"), Role: auth.Configure,
		Confirm: "Its settings are those of revision " + to + " again. Jobs stay.",
		Fields:  []field{{Name: "revision:json", Value: to}},
		Command: []string{"queue", "rollback", name, "--to", to},
	}
}
