package attention

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/wire"
)

// storeChecks are the names of the checks of a store.
var storeChecks = []string{"store", "drainers"}

// Store returns the problem of a degraded server, or nil. Drainers reports missing drainers.
func Store(r *wire.Readiness) *wire.Trouble {
	t := wire.Trouble{Check: "store", Verdict: wire.Warning, Text: r.Detail, Fix: wire.Fix{Action: Inspect}}
	switch {
	case r.Store == "full":
		t.Verdict, t.Fix.Command, t.Fix.Label = wire.Wrong, "penstock top", "Show the fullest queues"
	case r.Store == "filling":
		t.Fix.Command, t.Fix.Label = "penstock top", "Show the fullest queues"
	case r.Store == "clock":
		t.Fix.Command, t.Fix.Label = "timedatectl set-ntp true", "Synchronize the clock"
	case r.Store == "unavailable", r.Overflow == "unavailable":
		t.Verdict, t.Fix.Command, t.Fix.Label = wire.Wrong, "penstock doctor --redis URL --nats URL", "Find the cause"
	case r.Overflow == "stuck":
		t.Verdict, t.Fix.Command, t.Fix.Label = wire.Wrong, "nats stream view PENSTOCK_DEAD", "Find the cause"
	case r.Pull == "late", r.Drainers == "late":
		t.Fix.Command, t.Fix.Label = "penstock queue set NAME slack=20ms", "Widen the slack"
	case r.Pull == "releasing", r.Drainers == "releasing":
		t.Fix.Command, t.Fix.Label = "penstock queue history NAME", "Find the queue"
	case r.Drainers == "hanging":
		t.Fix.Command, t.Fix.Label = "penstock queue set NAME deliver.http.timeout=5s", "Shorten the timeout"
	default:
		return nil
	}
	return &t
}

// Fleet is what the checks know about the drainers of a store.
type Fleet struct {
	// Drainers are the live drainers; nil if the caller may not see them.
	Drainers *wire.Drainers
	// Peer is the process whose Version the drainers should have.
	Peer, Version string
	// Undrained are the queues with jobs that no drainer asks for, sorted.
	Undrained []string
	// Needed reports whether any queue needs a drainer.
	Needed bool
	// Start is the command that starts a drainer.
	Start string
}

// Drainers returns the problems of the drainers, the worst first.
func Drainers(f *Fleet) (found []wire.Trouble) {
	start := wire.Trouble{
		Check: "drainers", Verdict: wire.Wrong,
		Fix: wire.Fix{Action: StartDrainer, Label: "Start a drainer", Command: f.Start},
	}
	none := f.Drainers != nil && len(f.Drainers.Drainers) == 0
	if none {
		start.Since = f.Drainers.LastSeen
	}
	switch n := len(f.Undrained); {
	case none && n > 0:
		start.Text = "no drainer is running, but jobs wait in " + named(f.Undrained)
	case none && f.Needed:
		start.Verdict, start.Text = wire.Warning, "no drainer is running"
	case n > 0:
		start.Text = "no drainer asks for the jobs of " + named(f.Undrained)
	}
	if start.Text != "" {
		found = append(found, start)
	}
	if f.Drainers != nil {
		found = append(found, versions(f)...)
	}
	return found
}

// versions returns a problem for each version of drainers that differs from the peer's.
func versions(f *Fleet) (found []wire.Trouble) {
	with := map[string][]string{} // names by version
	for _, d := range f.Drainers.Drainers {
		if d.Version != f.Version {
			with[d.Version] = append(with[d.Version], d.Name)
		}
	}
	for other, names := range with {
		slices.Sort(names)
		count := fmt.Sprintf("%d drainers", len(names))
		if len(names) == 1 {
			count = "1 drainer"
		}
		found = append(found, wire.Trouble{
			Check: "drainers", Verdict: wire.Warning,
			Text: fmt.Sprintf("%s with version %s (%s), but %s has %s: upgrade drainers first, then ingress", count,
				shownVersion(other), strings.Join(names[:min(3, len(names))], ", "), f.Peer, shownVersion(f.Version)),
			Fix: wire.Fix{Action: Inspect, Label: "Show versions", Command: "penstock version"},
		})
	}
	slices.SortFunc(found, func(a, b wire.Trouble) int { return strings.Compare(a.Text, b.Text) })
	return found
}

func shownVersion(version string) string {
	if version == "" {
		return "unknown"
	}
	return version
}

// maxNamed is the number of queues that a text names.
const maxNamed = 3

// named lists queues: "a, b and 7 more queues".
func named(queues []string) string {
	n := len(queues)
	if n == 1 {
		return queues[0]
	}
	if n <= maxNamed {
		return strings.Join(queues[:n-1], ", ") + " and " + queues[n-1]
	}
	text := fmt.Sprintf("%s and %d more queues", strings.Join(queues[:maxNamed], ", "), n-maxNamed)
	if n == maxNamed+1 {
		text = strings.TrimSuffix(text, "s")
	}
	return text
}
