package attention

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/status"
)

// Queue is what the checks know about a queue.
type Queue struct {
	Name   string
	Status wire.Status
	Pull   bool
	// Aimless reports that the queue has neither a target nor pull, and no children.
	Aimless  bool
	UsedUp   bool // a quota has nothing left
	Size     int64
	Deferred int64
	Capacity int64
	Waiting  int64
	Held     int64
	Dead     int64
	// Refused is the number of jobs refused per second for lack of room; 0 if unknown.
	Refused float64
	// Lost is the number of departures lost per second, if that is more than a few; 0 if unknown.
	Lost float64
	// Oldest is when the job at the head was appended; nil if no job waits.
	Oldest *time.Time
	Rate   leaky.Rate
	// Released describes released departures; empty if there are not many.
	Released Released
}

// Released describes departures that the clients of a queue returned unused.
type Released struct {
	Text string // such as "12 of 800 departures in the last 15m (1.5%)"
	// Slack is the slack of the queue, and Wider a larger one; 0 if it cannot be larger.
	Slack, Wider time.Duration
}

// OfWire returns what an answer of the API says about a queue. Refused, Lost and Released are not part of it.
func OfWire(q *wire.Queue) Queue {
	return Queue{
		Name: q.Name, Status: q.Status, Pull: q.Pull, Aimless: q.NeedsTarget() && q.Stats.Children == 0,
		UsedUp: slices.ContainsFunc(q.Stats.Quotas, func(u wire.Quota) bool { return u.Left == 0 }),
		Size:   q.Stats.Size(), Deferred: q.Stats.Deferred, Capacity: q.Capacity, Waiting: q.Stats.Waiting,
		Held: q.Stats.HeldJobs, Dead: q.Stats.Dead, Oldest: q.Stats.OldestWaiting, Rate: q.Rate,
	}
}

// LostOf returns the lost departures per second, or 0 if they are less than one in 20, or one in 10 s.
func LostOf(lost, outflow float64) float64 {
	if lost < 0.1 || 20*lost < lost+outflow {
		return 0
	}
	return lost
}

// maxSlack is the maximum slack of a queue.
const maxSlack = time.Minute

// ReleasedOf describes the releases of a queue with a slack and a lease.
func ReleasedOf(text string, slack, lease time.Duration) Released {
	r := Released{Text: text, Slack: slack}
	if wider := min(2*slack, maxSlack, lease); wider > slack {
		r.Wider = wider
	}
	return r
}

func (q *Queue) does(code status.Code) bool { return q.Status.Code == code }

func (q *Queue) parent() string { return names.Parent(q.Name) }

// jobs returns a number of jobs as text.
func jobs(n int64) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}
