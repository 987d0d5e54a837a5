package console

import (
	"errors"
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// timetableFor is the time for which departures are shown, maxDepartures the number of listed departures.
const (
	timetableFor  = time.Minute
	maxDepartures = 100
)

// queueView is the data of a queue's page.
type queueView struct {
	wire.Queue
	Attention attention
	State     state
	Fill      gauge
	PerSecond float64
	Timetable wire.Timetable
	Marks     []mark
	Most      int // departures in the busiest second, if marks stand for seconds
	Shown     []wire.Departure
	Unshown   int
	Standing  string // what ends the standstill; empty if there is no standstill
	Picture   pictureCard
	History   string // path of the charts' values
	Events    string // path of the event stream
	Actions   []action
	Parts     []part
	Lanes     []laneRow
	Quotas    []quotaCard
	Budgets   []budgetCard
	Leaves    outlook
}

// laneRow is a lane with its share of the waiting jobs and of the next departures.
type laneRow struct {
	wire.LaneDepth
	Jobs   string // link to its jobs; empty for jobs without a lane
	Share  gauge
	Leaves gauge
}

// mark is a departure in the drawing of the next minute, or several in the same second. At and Width are in thousandths
// of the width of the drawing, Height is at most 1.
type mark struct {
	At, Width float64
	Height    float64
	Exact     bool
}

// Tall returns the height of a mark in the drawing.
func (m mark) Tall() float64 { return 27 * m.Height }

// Top returns the place of the upper end of a mark.
func (m mark) Top() float64 { return 31 - m.Tall() }

// part is the number of jobs in a state, with a link to them.
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
		Queue: q, State: stateOf(&q.Status), Actions: append(queueActions(&q), r.console.sendTestJob(name)),
		Fill: fillOf(&wire.QueueRow{
			Size: q.Stats.Size(), Capacity: q.Capacity, Bytes: q.Stats.Bytes, MaxBytes: q.Stats.MaxBytes,
		}),
	}
	needs, err := r.api.Attention(r.Context(), name, 0, queueProblems)
	if err != nil {
		return nil, err
	}
	v.Attention = r.attentionOf(&needs).besides()
	v.State.people(q.Stats.HeldJobs, q.Stats.Dead)
	for _, t := range needs.Problems {
		v.State.raise(t.Verdict)
	}
	if v.Picture, err = r.queuePicture(&q); err != nil {
		return nil, err
	}
	v.History = r.console.root + "/api" + apiPath("queues", name, "history") + "?window=" + v.Picture.Window
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
	v.Leaves = outlookOf(q.Outlook, q.Stats.Size()+q.Stats.Deferred, time.Now())
	if v.Quotas, err = quotaCards(r, &q); err != nil {
		return nil, err
	}
	v.Budgets = budgetCards(&q)
	if s := v.Timetable.Standstill; s != nil {
		v.Standing = s.Ends
	}
	return v, nil
}

// departures fills in the drawing and the list of departures.
func (v *queueView) departures() {
	t := &v.Timetable
	v.Marks, v.Most = marksOf(t)
	v.Shown = t.Departures[:min(len(t.Departures), maxDepartures)]
	v.Unshown = len(t.Departures) - len(v.Shown)
}

// maxMarks is the number of departures in a second up to which each has a mark of its own. More marks would touch each
// other.
const maxMarks = 4

// marksOf draws the departures of a timetable. If they are close together, a mark stands for a second, and most is the
// maximum number of departures in one.
func marksOf(t *wire.Timetable) (marks []mark, most int) {
	span := t.Until.Sub(t.From)
	if span <= 0 {
		return nil, 0
	}
	seconds := int(math.Ceil(span.Seconds()))
	counts, exact := make([]int, seconds), make([]bool, seconds)
	for i := range t.Departures {
		d := &t.Departures[i]
		at := d.At.Sub(t.From)
		if at < 0 || at > span {
			continue
		}
		marks = append(marks, mark{1000 * at.Seconds() / span.Seconds(), 2, 1, d.Exact})
		n := min(int(at.Seconds()), seconds-1)
		exact[n] = d.Exact && (exact[n] || counts[n] == 0)
		counts[n]++
		most = max(most, counts[n])
	}
	if most <= maxMarks {
		return marks, 0
	}
	marks = nil
	each := 1000 / span.Seconds()
	for n, count := range counts {
		if count > 0 {
			marks = append(marks, mark{float64(n) * each, 0.7 * each, float64(count) / float64(most), exact[n]})
		}
	}
	return marks, most
}

// lanes fills in the lanes of waiting jobs, if there are several.
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
		row.Share.Tone, row.Leaves.Tone = "", "" // a large share is not a warning
		if l.Lane != "" {
			row.Jobs = c.path("queues", v.Name, "jobs") + "?" + url.Values{"lane": {l.Lane}}.Encode()
		}
		v.Lanes = append(v.Lanes, row)
	}
}

// queueActions returns the actions that an operator can take: to pause a queue, and to end what stops it.
func queueActions(q *wire.Queue) []action {
	if q.Paused {
		return []action{*resume("Resume", q.Name)}
	}
	var ends []action
	switch open := q.CircuitState != nil && q.CircuitState.State == "open"; {
	case open:
		ends = append(ends, *resume("Probe now", q.Name))
	case q.Stop != nil:
		ends = append(ends, *resume("Resume", q.Name))
	}
	if q.Parent != nil && q.Parent.Paused {
		ends = append(ends, *resume("Resume parent", q.Parent.Name))
	}
	return append(ends, action{
		Label: "Pause", Method: "POST", Path: apiPath("queues", q.Name, "pause"), Role: auth.Operate,
		Confirm: "No jobs leave until you resume the queue. It still accepts new jobs.",
		Fields:  []field{{Name: "reason", Label: "Reason", Hint: "shown to other operators"}},
		Command: []string{"queue", "pause", q.Name},
	})
}

// changesView is the data of a queue's history of changes.
type changesView struct {
	Name    string
	Rows    []changeRow
	Older   string // link to older changes; empty if there are none
	Dropped int64
	Call    action
}

type changeRow struct {
	wire.Change
	Edits []edit
	// Rollback restores the settings of this revision. An empty Path means that they cannot be restored.
	Rollback action
}

func readChanges(r *request) (any, error) {
	name := r.PathValue("queue")
	r.Title = "Changes to " + name
	before, err := strconv.ParseInt(r.URL.Query().Get("before"), 10, 64)
	if err != nil {
		before = 0
	}
	page, err := r.api.Changes(r.Context(), name, client.ChangesQuery{Limit: 50, Before: before})
	if err != nil {
		return nil, err
	}
	current, err := currentRevision(r, name)
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
		if c.After != nil && c.Revision > 0 && c.Revision != current {
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

// currentRevision returns the revision of a queue, 0 if the queue was deleted.
func currentRevision(r *request, name string) (int64, error) {
	q, err := r.api.Queue(r.Context(), name)
	if p := (*client.Problem)(nil); errors.As(err, &p) && p.Reason == "unknown_queue" {
		return 0, nil
	}
	return q.Revision, err
}

func rollback(name string, revision int64) action {
	to := strconv.FormatInt(revision, 10)
	return action{
		Label: "Roll back", Method: "POST", Path: apiPath("queues", name, "rollback"), Role: auth.Configure,
		Confirm: "Restores the settings of revision " + to + ". Jobs are not affected.",
		Fields:  []field{{Name: "revision:json", Value: to}},
		Command: []string{"queue", "rollback", name, "--to", to},
	}
}
