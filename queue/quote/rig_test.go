package quote

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

var quoteNow = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// quoted is an idle queue of 10/s with 100 places, 20 deferred at most, at quoteNow.
func quoted(change func(*queue.Info)) *queue.Info {
	i := &queue.Info{
		Spec: queue.Spec{
			Name: "q", Rate: leaky.PerSecond(10), Capacity: 100, Deferred: queue.Deferral{MaxJobs: 20},
		},
		Now: quoteNow, Asked: quoteNow,
	}
	i.Spec.Normalize()
	change(i)
	if i.Rate.Unlimited() {
		i.Rate = i.Spec.Rate
	}
	return i
}

// lineupOf returns the Lineup of a queue and one of its lanes. The other jobs of the queue wait in one further lane,
// and the members of its group have an equal number of jobs each.
func lineupOf(i *queue.Info, key string, named queue.LaneInfo) *queue.Lineup {
	l := &queue.Lineup{Info: *i}
	add := func(key string, in queue.LaneInfo) {
		if in.Waiting > 0 {
			l.Lanes = append(l.Lanes, queue.LaneState{
				LaneInfo: in, Digest: queue.DigestLane(key), Cost: in.Waiting * (i.Ahead / i.Waiting),
			})
		}
	}
	if i.Waiting > 0 {
		add(key, named)
		rest := ""
		if key == "" {
			rest = "rest"
		}
		add(rest, queue.LaneInfo{Waiting: i.Waiting - named.Waiting})
	}
	head := i
	if i.Parent != nil {
		head = i.Parent
	}
	others := head.Group.Members
	if i.Waiting > 0 {
		others--
	}
	for left := others; left > 0; left-- {
		n := (head.Group.Waiting - i.Waiting + left - 1) / others // together all of them
		l.Siblings = append(l.Siblings, queue.Sibling{Waiting: n, Cost: n * max(1, head.Group.MaxCost)})
	}
	return l
}

// waits puts jobs of that cost into the lane without a key.
func waits(n, cost int64) func(*queue.Info) {
	return func(i *queue.Info) { i.Waiting, i.Ahead, i.Lanes = n, n*cost, 1 }
}

func deferring(i *queue.Info) { i.Spec.Overflow = queue.Defer }

func all(changes ...func(*queue.Info)) func(*queue.Info) {
	return func(i *queue.Info) {
		for _, c := range changes {
			c(i)
		}
	}
}

// shortly is a quote in a line: what becomes of the jobs, then when the first and the
// last leave, and when those of now have.
func shortly(q Quote) string {
	after := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return t.Sub(quoteNow).String()
	}
	dates := func(d Dates) string {
		text := after(d.First) + " " + after(d.Last) + " " + after(d.Drained)
		if d.Never != "" {
			text += " never: " + string(d.Never)
		}
		if d.Exact {
			text += " exact"
		}
		return text
	}
	text := fmt.Sprintf("%d %d %d", q.Fit, q.Deferred, q.Refused)
	if q.RefusedAs != queue.Failed {
		text += " " + q.RefusedAs.String()
	}
	text += ": " + dates(q.Now)
	if q.Then != nil {
		text += "; at " + q.Then.Rate.String() + ": " + dates(*q.Then)
	}
	if q.Paused {
		text += "; paused"
	}
	return text
}

// limits sets limits, quotas in minutes and further paces in seconds.
func limits(texts ...string) func(*queue.Info) {
	return func(i *queue.Info) {
		for _, text := range texts {
			var l queue.Limit
			if rate, err := leaky.ParseRate(text); err == nil && strings.HasSuffix(text, "/s") {
				l.Rate = rate
			} else if err := l.Quota.UnmarshalText([]byte(text)); err != nil {
				panic(err)
			}
			i.Spec.Limits = append(i.Spec.Limits, l)
		}
		i.Limits = make([]queue.LimitState, len(texts))
	}
}

// uses is how much of the first limit, a quota, has left in the minute of quoteNow.
func uses(n int64) func(*queue.Info) {
	ends := leaky.Instant(quoteNow.Truncate(time.Minute).Add(time.Minute).UnixMicro())
	return func(i *queue.Info) { i.Limits[0].Window = leaky.Window{Ends: ends, Used: n} }
}

// child makes a child of a parent of 1/s.
func child(group queue.GroupInfo) func(*queue.Info) {
	return func(i *queue.Info) {
		group.Children = 5
		i.Parent = quoted(func(p *queue.Info) { p.Spec.Rate, p.Group = leaky.PerSecond(1), group })
	}
}

func parent(change func(*queue.Info)) func(*queue.Info) {
	return func(i *queue.Info) { change(i.Parent) }
}

// bucketAt is one whose next departure is so far ahead, after a job of that cost.
func bucketAt(ahead time.Duration, cost int64) leaky.Bucket {
	now := leaky.Instant(quoteNow.UnixMicro())
	return leaky.Bucket{TAT: now.Add(ahead), Last: now, LastCost: cost}
}
