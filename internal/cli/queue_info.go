package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

type infoCmd struct {
	Name string `arg:"" help:"Name of the queue."`
	output
}

// queueReport is what -o json prints: the queue, and who drains the store.
type queueReport struct {
	wire.Queue
	Drainers []wire.Drainer `json:"drainers"`
	InFlight *inFlight      `json:"in_flight,omitempty"`
	// DrainerSeen is when one was last seen, whichever; nil if that is not known.
	DrainerSeen *time.Time `json:"drainer_seen,omitempty"`
	// Releases are the departures that were given back unused; nil if there are none.
	Releases *client.Releases `json:"releases,omitempty"`
}

func (c *infoCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	q, err := api.Queue(r.ctx, c.Name)
	if err != nil {
		return err
	}
	drainers, err := api.Drainers(r.ctx)
	if err != nil {
		return err
	}
	flying, err := inFlightOf(r, api, &q)
	if err != nil {
		return err
	}
	released := releasesOf(r, api, &q)
	if c.json() {
		if drainers.Drainers == nil {
			drainers.Drainers = []wire.Drainer{}
		}
		return printJSON(r.Out, queueReport{q, drainers.Drainers, flying, drainers.LastSeen, released})
	}
	return printQueue(r, &q, drainers, flying, released)
}

func printQueue(
	r *run, q *wire.Queue, drainers wire.Drainers, flying *inFlight, released *client.Releases,
) error {
	now := time.Now()
	s := &q.Stats
	err := facts(r.Out,
		"name", q.Name,
		"state", stateOf(q),
		"rate", fmt.Sprintf("%s, revision %d", pace(q), q.Revision),
		"adapt", adaptedOf(q),
		"outflow", fmt.Sprintf("%.1f/s over the last 10 to 20 s", s.Outflow),
		"size", fmt.Sprintf(
			"%d of %d: %d waiting, %d scheduled, %d leased, %d held for a person", s.Size(), q.Capacity, s.Waiting, s.Scheduled,
			s.Leased, s.HeldJobs,
		),
		"bytes", bytesOf(s),
		"in flight", flying.text(now),
		"limits", limitsOf(q),
		"quota", quotasOf(s.Quotas),
		"rules", strings.Join(q.Rules, " "),
		"parent", parentOf(q.Parent),
		"children", childrenOf(q),
		"lanes", lanesOf(q),
		"overrides", overridesOf(q),
		"oldest", age(now, s.OldestWaiting),
		"deferred", deferredOf(q),
		"dead", num(s.Dead),
		"since made", counted(&s.Counters, ""),
		"irregular", counted(&s.Counters, "irregular"),
		"released", releasedText(q, released),
		"circuit", circuitOf(q),
		"overflow", overflowOf(q),
		"lease, slack", fmt.Sprintf("%v, %v", q.Lease, q.EffectiveSlack()),
		"retry", fmt.Sprintf(
			"%d attempts, %v to %v, jitter %s", q.Retry.MaxAttempts, q.Retry.MinBackoff, q.Retry.MaxBackoff, q.Retry.Jitter,
		),
		"deliver", deliverOf(q),
	)
	if err != nil {
		return err
	}
	if len(drainers.Drainers) == 0 && !q.Pull {
		_, _ = fmt.Fprintf(r.Out, "\n%s: nothing leaves this store until one runs\n", drainersText(&drainers, now))
	} else if !q.Pull {
		t := table{header: []string{"DRAINER", "VERSION", "LAST SEEN", "ID"}}
		for _, d := range drainers.Drainers {
			t.add(plain(d.Name), plain(d.Version), age(now, &d.LastSeen)+" ago", plain(d.ID))
		}
		_, _ = fmt.Fprintf(r.Out, "\n%s", t.String())
	}
	if len(s.Errors) > 0 {
		t := table{header: []string{"LAST ERRORS", "JOB", "REASON"}}
		for _, e := range s.Errors {
			t.add(age(now, &e.At)+" ago", plain(e.ID), plain(e.Reason))
		}
		_, _ = fmt.Fprintf(r.Out, "\n%s", t.String())
	}
	return nil
}

// counted is what the counters of a group have counted.
func counted(c *queue.Counters, group string) string {
	var parts []string
	for n, value := range c.Values() {
		if row := queue.CounterTable[n]; row.Group == group {
			parts = append(parts, fmt.Sprintf("%d %s", value, strings.ReplaceAll(row.Name, "_", " ")))
		}
	}
	return strings.Join(parts, ", ")
}

// drainersText says how many drainers there are, or since when there is none.
func drainersText(d *wire.Drainers, now time.Time) string {
	switch n := len(d.Drainers); {
	case n == 1:
		return "1 drainer"
	case n > 1:
		return fmt.Sprintf("%d drainers", n)
	case d.LastSeen == nil:
		return "no drainer was ever seen"
	}
	return "no drainer, the last was seen " + age(now, d.LastSeen) + " ago"
}

// pace is the rate and what it comes to.
func pace(q *wire.Queue) string {
	if q.Rate.Unlimited() {
		return rateOf(q)
	}
	rate := q.Rate
	if q.Adapted != nil {
		rate = q.Adapted.Rate
	}
	return fmt.Sprintf("%s (one each %v)", rateOf(q), rate.Interval())
}

// deliverOf says where the jobs go.
func deliverOf(q *wire.Queue) string {
	if q.Pull {
		return "pull: to workers that ask for them"
	}
	return plain(string(q.Deliver))
}

// deferredOf says what is on the overflow and what came of it; nothing of a queue that
// never had anything there.
func deferredOf(q *wire.Queue) string {
	s := &q.Stats
	if q.Overflow != queue.Defer && s.Deferred+s.SetAside == 0 {
		return ""
	}
	text := fmt.Sprintf("%d now; since made %d were, %d came back", s.Deferred, s.SetAside, s.Returned)
	if s.Missing > 0 {
		text += fmt.Sprintf(", %d are missing", s.Missing)
	}
	return text
}

func overflowOf(q *wire.Queue) string {
	if q.Overflow != queue.Defer && q.Stats.Deferred+q.Stats.SetAside == 0 {
		return q.Overflow
	}
	d := &q.Deferred
	text := fmt.Sprintf(
		"%s; at most %d deferred for %v, back into %d of %d places", q.Overflow, d.MaxJobs, d.MaxAge, q.Mark(), q.Capacity,
	)
	if d.ReadmitBetween == "" {
		return text
	}
	zone := d.Timezone
	if zone == "" {
		zone = "UTC"
	}
	return text + fmt.Sprintf(", %s %s", d.ReadmitBetween, zone)
}
