package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
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

// standings are why a queue stands still, or soon will, or what became of its jobs, and what to do; NAME is the queue,
// PARENT who holds it, HALF and TWICE are of its rate.
var standings = []struct {
	is      func(q *wire.Queue) bool
	verdict Verdict
	what    string // before what the queue says itself
	do      string
}{
	{does(status.Stalled), Wrong, "jobs may leave, and none does", "penstock queue timetable NAME"},
	{
		func(q *wire.Queue) bool { return q.NeedsTarget() && q.Stats.Children == 0 && q.Stats.Size() > 0 },
		Wrong, "its jobs have nowhere to go: it has neither deliver nor pull", setTarget,
	},
	{does(status.CircuitOpen), Wrong, "its target is down", "penstock queue resume NAME"},
	{does(status.Throttled), Warning, "its receiver asks to be spared", "penstock queue set NAME rate=HALF"},
	{does(status.NoWorker), Warning, "jobs wait, and no worker asks for them", "penstock queue info NAME"},
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
		Warning, "jobs may have been sent, and wait for a person", "penstock held ls NAME",
	},
	{
		func(q *wire.Queue) bool { return q.Stats.Dead > 0 },
		Warning, "it has dead jobs, which are not tried again unless a person replays them", "penstock dead ls NAME",
	},
	{
		func(q *wire.Queue) bool { return q.NeedsTarget() && q.Stats.Children == 0 && q.Stats.Size() == 0 },
		Warning, "it has neither deliver nor pull: jobs that come will have nowhere to go", setTarget,
	},
}

const setTarget = "penstock queue set NAME deliver.http.url=https://HOST/PATH"

// usedUp reports whether nothing is left of one of a queue's quotas.
func usedUp(q *wire.Queue) bool {
	return slices.ContainsFunc(q.Stats.Quotas, func(u wire.Quota) bool { return u.Left == 0 })
}

// scaled is a rate times a factor, to three digits, in the unit that needs no exponent.
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
			do := strings.NewReplacer(
				"NAME", q.Name, "PARENT", parent, "HALF", scaled(q.Rate, 0.5), "TWICE", scaled(q.Rate, 2),
			).Replace(row.do)
			v.tell(row.verdict, do, "%s", what)
		}
	}
	v.releasing(ctx)
	if v.silent() {
		v.ok("%s, none stopped, full or held up, and no dead jobs", count(len(v.queues), "queue"))
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
