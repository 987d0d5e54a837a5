package metrics

import (
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/status"
)

// longWait is how long the next job of a queue has waited when the queue gets series for that; no alert asks for less.
const longWait = time.Minute

// trouble is why a queue has series wherever its name stands, so that alerts know all queues. Of those alike, the one
// that had them before keeps them, or the one whose next job has waited longest.
type trouble struct {
	is     func(*seen) bool
	oldest bool
}

// troubles are all, the most urgent first. What concerns all queues of a store or a group at once is none of them, but
// paused, which somebody did to this one.
var troubles = []trouble{
	{is: does(status.Stalled)},
	{is: does(status.NoTarget)},
	{is: does(status.CircuitOpen)},
	{is: does(status.Throttled)},
	{is: does(status.NoWorker)},
	{is: does(status.Paused)},
	{is: func(q *seen) bool { return q.Status.Full }},
	{is: func(q *seen) bool { return q.Info.Held > 0 }},
	{is: func(q *seen) bool { return q.now.Sub(q.rare.at) < keepQueue }},
	{oldest: true, is: func(q *seen) bool {
		return q.waits() && waited(q.Info.OldestWaiting, q.now) > longWait.Seconds()
	}},
	{is: func(q *seen) bool { return q.Deferred > 0 }},
}

func does(code status.Code) func(*seen) bool {
	return func(q *seen) bool { return q.Status.Code == code }
}

// notWaitingTurn are the states in which a job waits for something else than its turn. Throttled is none: a receiver
// that asks to be spared again and again must not hide how old the jobs become.
var notWaitingTurn = []status.Code{
	status.Paused, status.ParentPaused, status.NoDrainer, status.CircuitOpen, status.Quota,
}

// rarity is how much of what is rare a queue has counted, and when that was last more than before.
type rarity struct {
	count int64
	at    time.Time
}

func (r rarity) see(c *queue.Counters, first bool, now time.Time) rarity {
	count := c.Refused + c.Retried + c.Died + c.Expired + c.Lost + c.Missing + c.Dropped
	if !first && count > r.count {
		r.at = now
	}
	r.count = count
	return r
}

// seen is a queue as it was last read.
type seen struct {
	*survey.Row
	now     time.Time
	rare    rarity
	urgency int  // its place in troubles
	had     bool // it had series of its own before
}

// waits reports whether the jobs of a queue wait for their turn.
func (q *seen) waits() bool { return !slices.Contains(notWaitingTurn, q.Status.Code) }

// troubled finds the urgency of a queue that is to have series of its own.
func (q *seen) troubled() bool {
	for n := range troubles {
		if troubles[n].is(q) {
			q.urgency = n
			return true
		}
	}
	return false
}

// before orders queues in trouble by who is to have series first.
func (q *seen) before(other *seen) int {
	switch {
	case q.urgency != other.urgency:
		return q.urgency - other.urgency
	case troubles[q.urgency].oldest && !q.Info.OldestWaiting.Equal(other.Info.OldestWaiting):
		return q.Info.OldestWaiting.Compare(other.Info.OldestWaiting)
	case q.had != other.had && q.had:
		return -1
	case q.had != other.had:
		return 1
	}
	return strings.Compare(q.Name, other.Name)
}

// tally is what is told of all queues together.
type tally struct {
	states map[status.Code]float64
	unseen int       // how many are in trouble, and not shown
	others bool      // there are some that are not shown
	oldest time.Time // when the job was appended that has waited longest in those, for its turn
}

// choose names the queues that are to have series of their own: the first ones, and of the others those in trouble, as
// many at most.
func (g *Gauges) choose(rows []*survey.Row, now time.Time) (names []string, t tally) {
	t.states = map[status.Code]float64{}
	rare := make(map[string]rarity, len(rows))
	first := len(g.rare) == 0 // what was counted by now may be old
	var others, inTrouble []*seen
	for n, row := range rows {
		t.states[row.Status.Code]++
		q := &seen{Row: row, now: now, rare: g.rare[row.Name].see(&row.Counters, first, now), had: g.shown[row.Name]}
		rare[row.Name] = q.rare
		switch {
		case n < g.most:
			names = append(names, row.Name)
		case q.troubled():
			inTrouble = append(inTrouble, q)
		default:
			others = append(others, q)
		}
	}
	g.rare = rare
	slices.SortFunc(inTrouble, (*seen).before)
	shown := min(g.most, len(inTrouble))
	for _, q := range inTrouble[:shown] {
		names = append(names, q.Name)
	}
	t.unseen = len(inTrouble) - shown
	others = append(others, inTrouble[shown:]...)
	t.others = len(others) > 0
	for _, q := range others {
		if at := q.Info.OldestWaiting; q.waits() && !at.IsZero() && (t.oldest.IsZero() || at.Before(t.oldest)) {
			t.oldest = at
		}
	}
	return names, t
}

// together shows what is told of all queues together.
func (g *Gauges) together(t *tally, now time.Time) {
	for _, code := range status.Codes() {
		g.states.WithLabelValues(string(code)).Set(t.states[code])
	}
	g.unseen.Set(float64(t.unseen))
	if t.others {
		g.oldest.WithLabelValues(Other).Set(waited(t.oldest, now))
	} else {
		g.oldest.DeleteLabelValues(Other)
	}
}

func waited(since, now time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return max(now.Sub(since).Seconds(), 0)
}
