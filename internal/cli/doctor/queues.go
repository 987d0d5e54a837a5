package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/status"
)

// count is so many of something.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// drained says whether somebody drains the store, and whether all are of one version.
func (v *visit) drained(context.Context) {
	if v.err != nil {
		return
	}
	if len(v.drainers.Drainers) == 0 {
		waits := slices.ContainsFunc(v.queues, func(q wire.Queue) bool { return q.Status.Code == status.NoDrainer })
		if waits {
			v.wrong(v.Start, "no drainer asks for jobs, and there are some")
		} else {
			v.warn(v.Start, "no drainer asks for jobs")
		}
		return
	}
	with := map[string][]string{} // names by version
	for _, d := range v.drainers.Drainers {
		with[d.Version] = append(with[d.Version], d.Name)
	}
	who, version := "the ingress", v.drainers.Version
	if v.Direct {
		who, version = "this penstock", v.Version
	}
	for other, names := range with {
		if other == version {
			continue
		}
		slices.Sort(names)
		v.warn("penstock version", "%s of version %s (%s), and %s is %s: upgrade drainers first, then ingress",
			count(len(names), "drainer"), shown(other), strings.Join(names[:min(3, len(names))], ", "), who, shown(version))
	}
	if v.silent() {
		v.ok("%s, of version %s", count(len(v.drainers.Drainers), "drainer"), shown(version))
	}
}

func shown(version string) string {
	if version == "" {
		return "unknown"
	}
	return version
}

// standings are why a queue stands still, or soon will, and what to do; NAME is the queue, PARENT who holds it, HALF
// and TWICE are of its rate.
var standings = []struct {
	is      func(q *wire.Queue) bool
	verdict Verdict
	what    string // before what the queue says itself
	do      string
}{
	{does(status.Stalled), Wrong, "jobs may leave, and none does", "penstock queue timetable NAME"},
	{does(status.CircuitOpen), Wrong, "its target is down", "penstock queue resume NAME"},
	{does(status.Throttled), Warning, "its receiver asks to be spared", "penstock queue set NAME rate=HALF/s"},
	{does(status.NoWorker), Warning, "jobs wait, and no worker asks for them", "penstock queue info NAME"},
	{
		func(q *wire.Queue) bool { return q.Status.Code == status.Paused && q.Stats.Size()+q.Stats.Deferred > 0 },
		Warning, "it is paused with jobs in it", "penstock queue resume NAME",
	},
	{
		func(q *wire.Queue) bool { return q.Status.Code == status.ParentPaused && q.Stats.Size() > 0 },
		Warning, "its parent is paused", "penstock queue resume PARENT",
	},
	{func(q *wire.Queue) bool { return q.Status.Full }, Warning, "it is full", "penstock queue quote NAME --rate TWICE/s"},
	{
		func(q *wire.Queue) bool { return q.Stats.HeldJobs > 0 },
		Warning, "jobs may have been sent, and wait for a person", "penstock held ls NAME",
	},
}

// slackLimit is the longest slack that a queue may be given.
const slackLimit = time.Minute

func does(code status.Code) func(*wire.Queue) bool {
	return func(q *wire.Queue) bool { return q.Status.Code == code }
}

// standing says which queues stand still, and why.
func (v *visit) standing(ctx context.Context) {
	if v.err != nil {
		return
	}
	for _, row := range standings { // the worst first
		for n := range v.queues {
			q := &v.queues[n]
			if !row.is(q) {
				continue
			}
			parent, _, _ := strings.Cut(q.Name, ".")
			what := fmt.Sprintf("%s: %s (%s)", q.Name, row.what, q.Status.Text)
			if q.Status.Reason != "" {
				what += ": " + q.Status.Reason
			}
			rate := q.Rate.PerSecond()
			if q.Rate.Unlimited() {
				rate = 10
			}
			do := strings.NewReplacer(
				"NAME", q.Name, "PARENT", parent, "HALF", fmt.Sprintf("%.3g", rate/2), "TWICE", fmt.Sprintf("%.3g", 2*rate),
			).Replace(row.do)
			v.tell(row.verdict, do, "%s", what)
		}
	}
	v.releasing(ctx)
	if v.silent() {
		v.ok("%s, none stopped, full or held up", count(len(v.queues), "queue"))
	}
}

// releasing says which queues have more than 1% of their departures released. Only the process that released them knows
// the reasons.
func (v *visit) releasing(ctx context.Context) {
	all := v.API.Releases(ctx, v.queues)
	for n := range v.queues {
		q := &v.queues[n]
		released := all[q.Name]
		if !released.Many() {
			continue
		}
		slack := q.EffectiveSlack()
		do := "penstock queue history " + q.Name
		if wider := min(2*slack, slackLimit, q.Lease.D()); wider > slack {
			do = fmt.Sprintf("penstock queue set %s slack=%v", q.Name, wider)
		}
		who := "its drainers"
		if q.Pull {
			who = "the ingresses"
		}
		v.warn(do, "%s: %s were given back unused, usually because they were later than the slack of %v; see the reasons "+
			"at /readyz of %s, and whether those have CPU enough and a short way to the store",
			q.Name, released.Text(), slack, who)
	}
}
