package metrics

import (
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/status"
)

// longWait is the age of a queue's next job at which the queue gets series. No alert uses a shorter time.
const longWait = time.Minute

// trouble is a reason to give a queue series whatever its name, so that alerts cover all queues.
type trouble struct {
	is     func(*seen) bool
	oldest bool // prefer the queue whose next job has waited longest, not the one that already has series
}

// troubles are all reasons, the most urgent first. States that affect all queues of a store or group at once are not
// among them.
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
	{is: (*seen).behind},
	{is: func(q *seen) bool { return q.Deferred > 0 }},
}

func does(code status.Code) func(*seen) bool {
	return func(q *seen) bool { return q.Status.Code == code }
}

// notWaitingTurn are the states in which jobs wait for something other than their turn. Throttled is not among them: a
// receiver that asks for a delay again and again must not hide the age of the jobs.
var notWaitingTurn = []status.Code{
	status.Paused, status.ParentPaused, status.NoDrainer, status.CircuitOpen, status.Quota, status.Hours,
}

// rarity is the number of rare events of a queue, and the time of the last increase.
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
	urgency int  // index in troubles
	had     bool // it already has series
}

// waits reports whether the queue's jobs wait for their turn.
func (q *seen) waits() bool { return !slices.Contains(notWaitingTurn, q.Status.Code) }

// behind reports whether some of the queue's jobs never leave, or a job added behind its waiting jobs would wait long.
func (q *seen) behind() bool {
	if q.Outlook == nil || !q.waits() || q.Info.Waiting+q.Info.Scheduled+q.Info.Deferred == 0 {
		return false
	}
	delay, _ := q.Outlook.Delay()
	return q.Outlook.Never() || q.Info.Waiting > 0 && delay > longWait
}

// troubled reports whether the queue is in trouble, and sets its urgency.
func (q *seen) troubled() bool {
	for n := range troubles {
		if troubles[n].is(q) {
			q.urgency = n
			return true
		}
	}
	return false
}

// before compares queues in trouble by precedence for series.
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

// sums are the figures of all queues together.
type sums struct {
	states map[status.Code]float64
	unseen int       // queues in trouble without series
	others bool      // some queues have no series
	oldest time.Time // append time of the longest-waiting job in queues without series whose jobs wait for their turn
}

// choose returns the queues that get series: the first g.most, and at most g.most others in trouble.
func (g *Gauges) choose(rows []*survey.Row, now time.Time) (names []string, s sums) {
	s.states = map[status.Code]float64{}
	rare := make(map[string]rarity, len(rows))
	first := len(g.rare) == 0 // the counts so far may be old
	var others, inTrouble []*seen
	for n, row := range rows {
		s.states[row.Status.Code]++
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
	s.unseen = len(inTrouble) - shown
	others = append(others, inTrouble[shown:]...)
	s.others = len(others) > 0
	for _, q := range others {
		if at := q.Info.OldestWaiting; q.waits() && !at.IsZero() && (s.oldest.IsZero() || at.Before(s.oldest)) {
			s.oldest = at
		}
	}
	return names, s
}

// together sets the gauges of all queues together.
func (g *Gauges) together(s *sums, now time.Time) {
	for _, code := range status.Codes() {
		g.states.WithLabelValues(string(code)).Set(s.states[code])
	}
	g.unseen.Set(float64(s.unseen))
	if s.others {
		g.oldest.WithLabelValues(Other).Set(waited(s.oldest, now))
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
