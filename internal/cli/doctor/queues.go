package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/status"
)

// drained checks that drainers run, and that all have the same version.
func (v *visit) drained(context.Context) {
	if v.err != nil {
		return
	}
	if len(v.drainers.Drainers) == 0 {
		waits := slices.ContainsFunc(v.queues, func(q wire.Queue) bool { return q.Status.Code == status.NoDrainer })
		if waits {
			v.wrong(v.Start, "no drainer is running, but jobs wait")
		} else {
			v.warn(v.Start, "no drainer is running")
		}
		return
	}
	with := map[string][]string{} // names by version
	for _, d := range v.drainers.Drainers {
		with[d.Version] = append(with[d.Version], d.Name)
	}
	peer, version := "the ingress", v.drainers.Version
	if v.Direct {
		peer, version = "this penstock", v.Version
	}
	for other, names := range with {
		if other == version {
			continue
		}
		slices.Sort(names)
		v.warn("penstock version", "%s with version %s (%s), but %s has %s: upgrade drainers first, then ingress",
			show.Count(int64(len(names)), "drainer"), shown(other), strings.Join(names[:min(3, len(names))], ", "), peer,
			shown(version))
	}
	if v.silent() {
		v.ok("%s with version %s", show.Count(int64(len(v.drainers.Drainers)), "drainer"), shown(version))
	}
}

func shown(version string) string {
	if version == "" {
		return "unknown"
	}
	return version
}

// standings are the problems of a queue and what to do about them. NAME stands for the queue, PARENT for its parent,
// and HALF and TWICE for multiples of its rate.
var standings = []struct {
	is      func(q *wire.Queue) bool
	verdict Verdict
	what    string // before the status of the queue
	do      string
}{
	{does(status.Stalled), Wrong, "jobs could leave, but none does", "penstock queue timetable NAME"},
	{
		func(q *wire.Queue) bool { return q.NeedsTarget() && q.Stats.Children == 0 && q.Stats.Size() > 0 },
		Wrong, "its jobs have nowhere to go: it has neither deliver nor pull", setTarget,
	},
	{does(status.CircuitOpen), Wrong, "its target is down", "penstock queue resume NAME"},
	{does(status.Throttled), Warning, "its receiver throttles it", "penstock queue set NAME rate=HALF"},
	{does(status.NoWorker), Warning, "jobs wait, but no worker reserves them", "penstock queue info NAME"},
	{
		func(q *wire.Queue) bool { return q.Status.Code == status.Paused && q.Stats.Size()+q.Stats.Deferred > 0 },
		Warning, "it is paused with jobs in it", "penstock queue resume NAME",
	},
	{
		func(q *wire.Queue) bool { return q.Status.Code == status.ParentPaused && q.Stats.Size() > 0 },
		Warning, "its parent is paused", "penstock queue resume PARENT",
	},
	{func(q *wire.Queue) bool { return q.Status.Full }, Warning, "it is full", "penstock queue quote NAME --rate TWICE"},
	{
		func(q *wire.Queue) bool { return !q.Status.Full && q.Stats.Size() >= q.Capacity-q.Capacity/10 },
		Warning, "it is nearly full", "penstock queue quote NAME --rate TWICE",
	},
	{usedUp, Warning, "a quota is used up", "penstock queue timetable NAME"},
	{
		func(q *wire.Queue) bool { return q.Stats.HeldJobs > 0 },
		Warning, "jobs may have been sent, and need a decision", "penstock held ls NAME",
	},
	{
		func(q *wire.Queue) bool { return q.Stats.Dead > 0 },
		Warning, "it has dead jobs, which stay until a person replays or deletes them", "penstock dead ls NAME",
	},
	{
		func(q *wire.Queue) bool { return q.NeedsTarget() && q.Stats.Children == 0 && q.Stats.Size() == 0 },
		Warning, "it has neither deliver nor pull: its jobs will have nowhere to go", setTarget,
	},
}

const setTarget = "penstock queue set NAME deliver.http.url=https://HOST/PATH"

// usedUp reports whether a quota of a queue is used up.
func usedUp(q *wire.Queue) bool {
	return slices.ContainsFunc(q.Stats.Quotas, func(u wire.Quota) bool { return u.Left == 0 })
}

// scaled returns a rate times a factor, to three digits, in a unit that needs no exponent.
func scaled(r leaky.Rate, factor float64) string {
	perSecond := 10.0
	if !r.Unlimited() {
		perSecond = r.PerSecond()
	}
	n := perSecond * factor
	for _, unit := range []struct {
		name string
		of   float64
	}{{"/s", 1}, {"/m", 60}, {"/h", 3600}} {
		if n*unit.of >= 1 {
			return digits(n*unit.of) + unit.name
		}
	}
	return digits(n*86400) + "/d"
}

func digits(n float64) string {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(n, 'g', 3, 64), 64)
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// slackLimit is the maximum slack of a queue.
const slackLimit = time.Minute

func does(code status.Code) func(*wire.Queue) bool {
	return func(q *wire.Queue) bool { return q.Status.Code == code }
}

// standing checks the queues.
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
			do := strings.NewReplacer(
				"NAME", q.Name, "PARENT", parent, "HALF", scaled(q.Rate, 0.5), "TWICE", scaled(q.Rate, 2),
			).Replace(row.do)
			v.add(row.verdict, do, "%s", what)
		}
	}
	v.releasing(ctx)
	if v.silent() {
		v.ok("%s, none stopped, full or waiting for a person, and no dead jobs", show.Count(int64(len(v.queues)), "queue"))
	}
}

// releasing finds queues with more than 1% of their departures released. Only the processes that released them know the
// reasons.
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
		clients := "its drainers"
		if q.Pull {
			clients = "the ingresses"
		}
		v.warn(do, "%s: %s were given back unused, usually because they were later than the slack of %v; see the reasons "+
			"at /readyz of %s, and check that those have enough CPU and a short way to the store",
			q.Name, released.Text(), slack, clients)
	}
}
