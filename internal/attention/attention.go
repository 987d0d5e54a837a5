package attention

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/status"
)

// Finding is a problem of a queue. Its Trouble is the form for people.
type Finding struct {
	check int
	queue *Queue
}

// Find returns the problems of a queue, the worst first.
func Find(q *Queue) (found []Finding) {
	for n := range checks {
		if checks[n].is(q) {
			found = append(found, Finding{n, q})
		}
	}
	return found
}

// Sort sorts problems: the worst first, and queues with the same problem by name.
func Sort(found []Finding) {
	slices.SortFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.check, b.check), strings.Compare(a.queue.Name, b.queue.Name))
	})
}

// Worst returns the worst verdict; empty without problems.
func Worst(found []Finding) (worst wire.Verdict) {
	for _, f := range found {
		if v := f.Verdict(); v == wire.Wrong || worst == "" {
			worst = v
		}
	}
	return worst
}

// Checks returns the names of all checks of queues and stores.
func Checks() []string {
	names := slices.Clone(storeChecks)
	for n := range checks {
		names = append(names, checks[n].name)
	}
	return names
}

// Queue returns the name of the queue.
func (f Finding) Queue() string { return f.queue.Name }

// Parent returns the parent if it is the cause of the problem.
func (f Finding) Parent() string { return f.queue.Status.Queue }

// Verdict returns how bad the problem is.
func (f Finding) Verdict() wire.Verdict { return checks[f.check].verdict }

// Trouble returns the problem for people.
func (f Finding) Trouble() wire.Trouble {
	c, q := &checks[f.check], f.queue
	t := wire.Trouble{
		Check: c.name, Verdict: c.verdict, Queue: q.Name, Text: q.Name + " " + c.text(q),
		Fix: wire.Fix{Action: c.action, Label: c.label, Queue: q.Name, Command: command(c.command, q)},
	}
	if c.since != nil {
		t.Since = c.since(q)
	}
	if code, is := statuses[c.name]; is && q.does(code) {
		t.Until, t.Reason, t.By = q.Status.Until, q.Status.Reason, cmp.Or(q.Status.By, q.Status.ClaimedBy)
	}
	if c.jobs != nil {
		t.Jobs = c.jobs(q)
		t.Fix.Label = fmt.Sprintf("%s %d", c.label, t.Jobs)
	}
	if c.action == ResumeParent {
		t.Fix.Queue = q.parent()
	}
	if wider := q.Released.Wider; c.action == WidenSlack && wider > 0 {
		t.Fix.Command = fmt.Sprintf("penstock queue set %s slack=%v", q.Name, wider)
	}
	return t
}

// statuses are the checks of a status. The problem has the reason and the end of the status.
var statuses = map[string]status.Code{
	"stalled": status.Stalled, "no_target": status.NoTarget, "circuit_open": status.CircuitOpen,
	"throttled": status.Throttled, "paused": status.Paused, "parent_paused": status.ParentPaused, "quota": status.Quota,
}

func command(pattern string, q *Queue) string {
	return strings.NewReplacer("NAME", q.Name, "PARENT", q.parent(), "TWICE", scaled(q.Rate, 2)).Replace(pattern)
}
