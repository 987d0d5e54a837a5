package attention

import (
	"fmt"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/status"
)

// Actions that fix problems.
const (
	Resume       = "resume"
	ResumeParent = "resume_parent"
	Probe        = "probe"
	SetTarget    = "set_target"
	Decide       = "decide"
	Replay       = "replay"
	StartDrainer = "start_drainer"
	RaiseRate    = "raise_rate"
	WidenSlack   = "widen_slack"
	Inspect      = "inspect"
)

// check is a problem that a queue can have.
type check struct {
	name    string
	verdict wire.Verdict
	is      func(q *Queue) bool
	// text follows the name of the queue.
	text func(q *Queue) string
	// since returns when the problem began, to complete the text; nil leaves it out.
	since func(q *Queue) *time.Time
	// jobs returns the number of jobs that the fix is about. Label then ends with it.
	jobs   func(q *Queue) int64
	action string
	label  string
	// command fixes or explains the problem. NAME stands for the queue, PARENT for its parent, TWICE for twice its rate.
	command string
}

// checks are all checks of queues, the worst first.
var checks = []check{
	{
		name: "stalled", verdict: wire.Wrong, is: func(q *Queue) bool { return q.does(status.Stalled) },
		text:  func(q *Queue) string { return "has " + jobs(q.Waiting) + " that could leave, but none leaves" },
		since: since, action: Inspect, label: "Show departures", command: "penstock queue timetable NAME",
	},
	{
		name: "no_target", verdict: wire.Wrong,
		is:    func(q *Queue) bool { return q.Aimless && q.Size > 0 || q.does(status.NoTarget) },
		text:  func(q *Queue) string { return "has " + jobs(q.Size) + " and no target; the oldest has waited" },
		since: oldest, action: SetTarget, label: "Set target", command: setTarget,
	},
	{
		name: "circuit_open", verdict: wire.Wrong, is: func(q *Queue) bool { return q.does(status.CircuitOpen) },
		text:  func(q *Queue) string { return "has an open circuit: its receiver has been down" },
		since: since, action: Probe, label: "Probe now", command: "penstock queue resume NAME",
	},
	{
		name: "refusing", verdict: wire.Wrong, is: func(q *Queue) bool { return q.Status.Full && q.Refused > 0 },
		text: func(q *Queue) string {
			return waited(q, fmt.Sprintf("is full and refuses %s jobs per second", digits(q.Refused)))
		},
		since: oldest, action: RaiseRate, label: "Raise the rate", command: "penstock queue quote NAME --rate TWICE",
	},
	{
		name: "throttled", verdict: wire.Warning, is: func(q *Queue) bool { return q.does(status.Throttled) },
		text:   func(q *Queue) string { return "sends nothing: its receiver asked to wait" },
		action: Resume, label: "Resume", command: "penstock queue resume NAME",
	},
	{
		name: "no_worker", verdict: wire.Warning, is: func(q *Queue) bool { return q.does(status.NoWorker) },
		text:  func(q *Queue) string { return "has " + jobs(q.Waiting) + " waiting, but no worker has requested any" },
		since: lastAsked, action: Inspect, label: "Show the queue", command: "penstock queue info NAME",
	},
	{
		name: "paused", verdict: wire.Warning,
		is:    func(q *Queue) bool { return q.does(status.Paused) && q.Size+q.Deferred > 0 },
		text:  func(q *Queue) string { return "is paused with " + jobs(q.Size+q.Deferred) + " in it" },
		since: since, action: Resume, label: "Resume", command: "penstock queue resume NAME",
	},
	{
		name: "parent_paused", verdict: wire.Warning,
		is: func(q *Queue) bool { return q.does(status.ParentPaused) && q.Size > 0 },
		text: func(q *Queue) string {
			return "holds " + jobs(q.Size) + ": its parent " + q.parent() + " is paused"
		},
		since: since, action: ResumeParent, label: "Resume parent", command: "penstock queue resume PARENT",
	},
	{
		name: "full", verdict: wire.Warning, is: func(q *Queue) bool { return q.Status.Full && q.Refused == 0 },
		text:  func(q *Queue) string { return waited(q, "is full: it refuses new jobs") },
		since: oldest, action: RaiseRate, label: "Raise the rate", command: "penstock queue quote NAME --rate TWICE",
	},
	{
		name: "nearly_full", verdict: wire.Warning,
		is: func(q *Queue) bool { return !q.Status.Full && q.Size >= q.Capacity-q.Capacity/10 },
		text: func(q *Queue) string {
			return waited(q, fmt.Sprintf("is nearly full: %d of %d places are used", q.Size, q.Capacity))
		},
		since: oldest, action: RaiseRate, label: "Raise the rate", command: "penstock queue quote NAME --rate TWICE",
	},
	{
		name: "quota", verdict: wire.Warning, is: func(q *Queue) bool { return q.UsedUp },
		text:   func(q *Queue) string { return "has used up a quota" },
		action: Inspect, label: "Show departures", command: "penstock queue timetable NAME",
	},
	{
		name: "held", verdict: wire.Warning, is: func(q *Queue) bool { return q.Held > 0 },
		text: func(q *Queue) string {
			return "waits for a decision about " + jobs(q.Held) + " that may have been sent"
		},
		jobs: func(q *Queue) int64 { return q.Held }, action: Decide, label: "Decide", command: "penstock held ls NAME",
	},
	{
		name: "dead", verdict: wire.Warning, is: func(q *Queue) bool { return q.Dead > 0 },
		text: func(q *Queue) string { return "has " + deadJobs(q.Dead) },
		jobs: func(q *Queue) int64 { return q.Dead }, action: Replay, label: "Replay", command: "penstock dead ls NAME",
	},
	{
		name: "aimless", verdict: wire.Warning, is: func(q *Queue) bool { return q.Aimless && q.Size == 0 },
		text:   func(q *Queue) string { return "has neither deliver nor pull: its jobs would have nowhere to go" },
		action: SetTarget, label: "Set target", command: setTarget,
	},
	{
		name: "losing", verdict: wire.Warning, is: func(q *Queue) bool { return q.Lost > 0 && !q.Pull },
		text: func(q *Queue) string {
			return fmt.Sprintf("loses %s departures per second: its drainers ask too late, or have no handler free for it; "+
				"see their logs", digits(q.Lost))
		},
		action: Inspect, label: "Show the queue", command: "penstock queue info NAME",
	},
	{
		name: "releasing", verdict: wire.Warning, is: func(q *Queue) bool { return q.Released.Text != "" },
		text: func(q *Queue) string {
			clients := "its drainers"
			if q.Pull {
				clients = "the ingresses"
			}
			return fmt.Sprintf("wastes departures: %s were given back unused, usually because they were later than the slack "+
				"of %v; see the reasons at /readyz of %s, and give those enough CPU and a short way to the store",
				q.Released.Text, q.Released.Slack, clients)
		},
		action: WidenSlack, label: "Widen the slack", command: "penstock queue history NAME",
	},
}

const setTarget = "penstock queue set NAME deliver.http.url=https://HOST/PATH"

func since(q *Queue) *time.Time { return q.Status.Since }

func oldest(q *Queue) *time.Time { return q.Oldest }

// lastAsked returns when a worker last requested jobs, or since when the oldest job has waited for the first worker.
func lastAsked(q *Queue) *time.Time {
	if q.Status.Since != nil {
		return q.Status.Since
	}
	return q.Oldest
}

// waited adds to a text that the oldest job has waited, if there is one.
func waited(q *Queue, text string) string {
	if q.Oldest == nil {
		return text
	}
	return text + ", and its oldest job has waited"
}

func deadJobs(n int64) string {
	if n == 1 {
		return "1 dead job"
	}
	return strconv.FormatInt(n, 10) + " dead jobs"
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
