package queuecmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

type infoCmd struct {
	Name string `arg:"" help:"Name of the queue."`
	command.Output
}

// report is a queue with the drainers of its store, as -o json prints it.
type report struct {
	wire.Queue
	Drainers []wire.Drainer `json:"drainers"`
	InFlight *inFlight      `json:"in_flight,omitempty"`
	// DrainerSeen is when any drainer was last seen; nil if unknown.
	DrainerSeen *time.Time `json:"drainer_seen,omitempty"`
	// Releases are departures given back unused; may be nil.
	Releases *wire.Releases `json:"releases,omitempty"`
}

func (c *infoCmd) Run(r *command.Run, api *client.Client) error {
	q, err := api.Queue(r.Ctx, c.Name)
	if err != nil {
		return err
	}
	drainers, err := api.Drainers(r.Ctx)
	if err != nil {
		return err
	}
	if drainers.Drainers == nil {
		drainers.Drainers = []wire.Drainer{}
	}
	v := report{Queue: q, Drainers: drainers.Drainers, DrainerSeen: drainers.LastSeen}
	if v.InFlight, err = inFlightOf(r.Ctx, api, &q); err != nil {
		return err
	}
	if found, ok := api.Releases(r.Ctx, []wire.Queue{q})[q.Name]; ok {
		v.Releases = &found
	}
	return c.Print(r, v, func() string { return v.text(time.Now()) })
}

// text describes the queue: its facts, drainers and last errors.
func (v *report) text(now time.Time) string {
	text := command.Facts(v.facts(now)...)
	if !v.Pull {
		if len(v.Drainers) == 0 {
			drainers := wire.Drainers{LastSeen: v.DrainerSeen}
			text += fmt.Sprintf("\n%s: nothing leaves this store until one runs\n", drainersText(&drainers, now))
		} else {
			t := command.NewTable("DRAINER", "VERSION", "LAST SEEN", "ID")
			for _, d := range v.Drainers {
				t.Row(d.Name, d.Version, show.Age(now, &d.LastSeen)+" ago", d.ID)
			}
			text += "\n" + t.String()
		}
	}
	if len(v.Stats.Errors) > 0 {
		t := command.NewTable("LAST ERRORS", "JOB", "REASON")
		for _, e := range v.Stats.Errors {
			t.Row(show.Age(now, &e.At)+" ago", e.ID, e.Reason)
		}
		text += "\n" + t.String()
	}
	return text
}

// facts returns pairs of a name and a value; the first two pairs are the queue's name and state.
func (v *report) facts(now time.Time) []string {
	q, s := &v.Queue, &v.Stats
	return []string{
		"name", q.Name,
		"state", State(q),
		"rate", fmt.Sprintf("%s, revision %d", paceText(q), q.Revision),
		"adapt", adaptText(q),
		"outflow", fmt.Sprintf("%.1f/s over the last 10 to 20 s", s.Outflow),
		"size", fmt.Sprintf(
			"%d of %d: %d waiting, %d scheduled, %d leased, %d held", s.Size(), q.Capacity, s.Waiting, s.Scheduled, s.Leased,
			s.HeldJobs,
		),
		"bytes", bytesText(s),
		"in flight", v.InFlight.text(now),
		"calls", callsText(q.Calls, "at this server"),
		"limits", limitsText(q),
		"hours", q.Hours.String(),
		"quota", quotasText(s.Quotas),
		"budget", budgetsText(s.Budgets, now),
		"estimate", estimatesText(s.Estimates),
		"rules", strings.Join(q.Rules, " "),
		"parent", parentText(q.Parent, now),
		"children", childrenText(q),
		"lanes", lanesText(q),
		"overrides", overridesText(q),
		"oldest", show.Age(now, s.OldestWaiting),
		"deferred", deferredText(q),
		"dead", show.Int(s.Dead),
		"total", countersText(&s.Counters, ""),
		"irregular", countersText(&s.Counters, "irregular"),
		"released", releasesText(q, v.Releases),
		"circuit", circuitText(q),
		"overflow", overflowText(q),
		"lease, slack", fmt.Sprintf("%v, %v", q.Lease, q.EffectiveSlack()),
		"retry", fmt.Sprintf(
			"%d attempts, %v to %v, jitter %s", q.Retry.MaxAttempts, q.Retry.MinBackoff, q.Retry.MaxBackoff, q.Retry.Jitter,
		),
		"deliver", deliverText(q),
	}
}

// countersText returns the counters of a group.
func countersText(c *queue.Counters, group string) string {
	var parts []string
	for n, value := range c.Values() {
		if row := queue.CounterTable[n]; row.Group == group {
			parts = append(parts, fmt.Sprintf("%d %s", value, strings.ReplaceAll(row.Name, "_", " ")))
		}
	}
	return strings.Join(parts, ", ")
}

// releasesText explains that many departures were released, and what to do. It is empty if few were.
func releasesText(q *wire.Queue, releases *wire.Releases) string {
	if releases == nil || !releases.Many() {
		return ""
	}
	clients := "drainers"
	if q.Pull {
		clients = "ingresses"
	}
	return fmt.Sprintf("%s were given back unused, usually because they were later than the slack of %v; raise slack, "+
		"give the %s more CPU, or move them closer to the store; their /readyz shows the reasons",
		releases.Text(), q.EffectiveSlack(), clients)
}

// deliverText describes where the jobs go.
func deliverText(q *wire.Queue) string {
	switch {
	case q.Proxied():
		return "proxy: passes calls on to " + string(q.Deliver)
	case q.Pull:
		return "pull: to workers that reserve them"
	}
	return string(q.Deliver)
}

// callsText returns the calls through a server's proxy; empty for a queue without a proxy.
func callsText(c *wire.Calls, where string) string {
	if c == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%d waiting, %d active %s", c.Waiting, c.Active, where))
}

// deferredText describes the deferred jobs; empty if the queue never had any.
func deferredText(q *wire.Queue) string {
	s := &q.Stats
	if q.Overflow != queue.Defer && s.Deferred+s.SetAside == 0 {
		return ""
	}
	text := fmt.Sprintf("%d now; since created %d deferred, %d readmitted", s.Deferred, s.SetAside, s.Returned)
	if s.Missing > 0 {
		text += fmt.Sprintf(", %d missing", s.Missing)
	}
	return text
}

func overflowText(q *wire.Queue) string {
	if q.Overflow != queue.Defer && q.Stats.Deferred+q.Stats.SetAside == 0 {
		return q.Overflow
	}
	d := &q.Deferred
	text := fmt.Sprintf(
		"%s; at most %d deferred for %v, readmitted into %d of %d places", q.Overflow, d.MaxJobs, d.MaxAge, q.Mark(),
		q.Capacity,
	)
	if !d.ReadmitBetween.On() {
		return text
	}
	return text + ", " + d.ReadmitBetween.In(d.Timezone).String()
}
