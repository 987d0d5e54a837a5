package attention_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/attention"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/status"
)

// noon is a Wednesday in winter.
var noon = time.Date(2026, 1, 14, 12, 0, 0, 0, time.UTC)

// change makes a queue without problems into another one.
type change func(q *attention.Queue)

func is(code status.Code) change {
	return func(q *attention.Queue) {
		q.Status = wire.Status{Code: code, Since: &noon, Reason: "a reason", By: "ann"}
	}
}

func with(size int64) change {
	return func(q *attention.Queue) { q.Size, q.Waiting, q.Oldest = size, size, &noon }
}

func full(refused float64) change {
	return func(q *attention.Queue) {
		q.Status.Full, q.Refused = true, refused
	}
}

func held(n int64) change           { return func(q *attention.Queue) { q.Held = n } }
func dead(n int64) change           { return func(q *attention.Queue) { q.Dead = n } }
func aimless(q *attention.Queue)    { q.Aimless = true }
func usedUp(q *attention.Queue)     { q.UsedUp = true }
func child(q *attention.Queue)      { q.Name, q.Status.Queue = "ses.otp", "ses" }
func lost(perSecond float64) change { return func(q *attention.Queue) { q.Lost = perSecond } }
func pull(q *attention.Queue)       { q.Pull = true }

func released(lease time.Duration) change {
	return func(q *attention.Queue) {
		q.Released = attention.ReleasedOf("9 of 90 departures in the last 15m (10.0%)", 5*time.Millisecond, lease)
	}
}

// TestQueues is the truth table: the changes to a queue, and its problems as verdict, text, button and command.
func TestQueues(t *testing.T) {
	for name, c := range map[string]struct {
		changes []change
		want    []string
	}{
		"no problem":          {nil, nil},
		"jobs leave":          {[]change{with(50)}, nil},
		"paused and empty":    {[]change{is(status.Paused)}, nil},
		"stopped by a parent": {[]change{is(status.ParentPaused), child}, nil},
		"stalled": {[]change{is(status.Stalled), with(2)}, []string{
			"wrong: mail has 2 jobs that could leave, but none leaves, since noon (a reason) " +
				"[Show departures] penstock queue timetable mail",
		}},
		"no target": {[]change{aimless, with(1)}, []string{
			"wrong: mail has 1 job and no target; the oldest has waited, since noon " +
				"[Set target] penstock queue set mail deliver.http.url=https://HOST/PATH",
		}},
		"no target, and empty": {[]change{aimless}, []string{
			"warning: mail has neither deliver nor pull: its jobs would have nowhere to go " +
				"[Set target] penstock queue set mail deliver.http.url=https://HOST/PATH",
		}},
		"circuit open": {[]change{is(status.CircuitOpen)}, []string{
			"wrong: mail has an open circuit: its receiver has been down, since noon (a reason) " +
				"[Probe now] penstock queue resume mail",
		}},
		"throttled": {[]change{is(status.Throttled)}, []string{
			"warning: mail sends nothing: its receiver asked to wait (a reason) [Resume] penstock queue resume mail",
		}},
		"no worker": {[]change{is(status.NoWorker), with(3)}, []string{
			"warning: mail has 3 jobs waiting, but no worker has requested any, since noon " +
				"[Show the queue] penstock queue info mail",
		}},
		"paused": {[]change{is(status.Paused), with(3)}, []string{
			"warning: mail is paused with 3 jobs in it, since noon (a reason) [Resume] penstock queue resume mail",
		}},
		"parent paused": {[]change{is(status.ParentPaused), child, with(3)}, []string{
			"warning: ses.otp holds 3 jobs: its parent ses is paused, since noon (a reason) " +
				"[Resume parent] penstock queue resume ses",
		}},
		"full": {[]change{with(100), full(0)}, []string{
			"warning: mail is full: it refuses new jobs, and its oldest job has waited, since noon " +
				"[Raise the rate] penstock queue quote mail --rate 20/s",
		}},
		"full, and refusing jobs": {[]change{with(100), full(4.217)}, []string{
			"wrong: mail is full and refuses 4.22 jobs per second, and its oldest job has waited, since noon " +
				"[Raise the rate] penstock queue quote mail --rate 20/s",
		}},
		"almost nearly full": {[]change{with(89)}, nil},
		"nearly full": {[]change{with(90)}, []string{
			"warning: mail is nearly full: 90 of 100 places are used, and its oldest job has waited, since noon " +
				"[Raise the rate] penstock queue quote mail --rate 20/s",
		}},
		"quota": {[]change{usedUp}, []string{
			"warning: mail has used up a quota [Show departures] penstock queue timetable mail",
		}},
		"paused with a quota used up": {[]change{usedUp, is(status.Paused)}, []string{
			"warning: mail has used up a quota [Show departures] penstock queue timetable mail",
		}},
		"held and dead": {[]change{held(27), dead(357)}, []string{
			"warning: mail waits for a decision about 27 jobs that may have been sent [Decide 27] penstock held ls mail",
			"warning: mail has 357 dead jobs [Replay 357] penstock dead ls mail",
		}},
		"losing": {[]change{lost(11.64)}, []string{
			"warning: mail loses 11.6 departures per second: its drainers ask too late, or have no handler free for it; " +
				"see their logs [Show the queue] penstock queue info mail",
		}},
		// The rate is an upper bound for what the workers ask for.
		"losing, with workers": {[]change{lost(11.64), pull}, nil},
		"releasing": {[]change{released(time.Second)}, []string{
			"warning: mail wastes departures: 9 of 90 departures in the last 15m (10.0%) were given back unused, " +
				"usually because " +
				"they were later than the slack of 5ms; see the reasons at /readyz of its drainers, and give those enough " +
				"CPU and a short way to the store [Widen the slack] penstock queue set mail slack=10ms",
		}},
		"releasing with a short lease": {[]change{released(5 * time.Millisecond)}, []string{
			"warning: mail wastes departures: 9 of 90 departures in the last 15m (10.0%) were given back unused, " +
				"usually because " +
				"they were later than the slack of 5ms; see the reasons at /readyz of its drainers, and give those enough " +
				"CPU and a short way to the store [Widen the slack] penstock queue history mail",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			q := attention.Queue{
				Name: "mail", Capacity: 100, Rate: leaky.PerSecond(10), Status: wire.Status{Code: status.Flowing},
			}
			for _, change := range c.changes {
				change(&q)
			}
			found := attention.Find(&q)
			if len(found) != len(c.want) {
				t.Fatalf("%d problems, want %d", len(found), len(c.want))
			}
			for n, f := range found {
				if got := line(f.Trouble()); got != c.want[n] {
					t.Errorf("got  %s\nwant %s", got, c.want[n])
				}
			}
		})
	}
}

// A few lost departures are no problem.
func TestLostOf(t *testing.T) {
	for _, c := range []struct{ lost, outflow, want float64 }{
		{0, 0, 0}, {0, 10, 0}, {0.05, 0, 0}, {0.2, 0, 0.2}, {0.2, 14, 0}, {1, 19, 1}, {1, 20, 0}, {600, 100, 600},
	} {
		if got := attention.LostOf(c.lost, c.outflow); got != c.want {
			t.Errorf("%v of %v: %v, want %v", c.lost, c.outflow, got, c.want)
		}
	}
}

func line(t wire.Trouble) string {
	text := fmt.Sprintf("%s: %s", t.Verdict, t.Text)
	if t.Since != nil && t.Since.Equal(noon) {
		text += ", since noon"
	}
	if t.Reason != "" {
		text += " (" + t.Reason + ")"
	}
	return text + " [" + t.Fix.Label + "] " + t.Fix.Command
}

func TestSort(t *testing.T) {
	var all []attention.Finding
	for _, q := range []attention.Queue{
		{Name: "b", Capacity: 9, Dead: 1},
		{Name: "a", Capacity: 9, Dead: 1},
		{Name: "c", Capacity: 9, Status: wire.Status{Code: status.CircuitOpen}},
	} {
		all = append(all, attention.Find(&q)...)
	}
	attention.Sort(all)
	names := ""
	for _, f := range all {
		names += f.Queue()
	}
	if names != "cab" || attention.Worst(all) != wire.Wrong || attention.Worst(all[1:]) != wire.Warning ||
		attention.Worst(nil) != "" {
		t.Errorf("in the order %s; the worst: %q, %q", names, attention.Worst(all), attention.Worst(all[1:]))
	}
}

func TestDrainers(t *testing.T) {
	running := func(versions ...string) *wire.Drainers {
		d := &wire.Drainers{LastSeen: &noon}
		for n, version := range versions {
			d.Drainers = append(d.Drainers, wire.Drainer{Name: fmt.Sprint("d", n), Version: version})
		}
		return d
	}
	for name, c := range map[string]struct {
		fleet attention.Fleet
		want  string
	}{
		"all well":        {attention.Fleet{Drainers: running("v1"), Needed: true}, ""},
		"none, none used": {attention.Fleet{Drainers: running()}, ""},
		"none": {
			attention.Fleet{Drainers: running(), Needed: true},
			"warning: no drainer is running, since noon [Start a drainer] drainer",
		},
		"none, and jobs": {
			attention.Fleet{Drainers: running(), Needed: true, Undrained: []string{"a", "b", "c", "d"}},
			"wrong: no drainer is running, but jobs wait in a, b, c and 1 more queue, since noon [Start a drainer] drainer",
		},
		"none for some": {
			attention.Fleet{Drainers: running("v1"), Undrained: []string{"a", "b"}},
			"wrong: no drainer asks for the jobs of a and b [Start a drainer] drainer",
		},
		"unknown to the caller": {
			attention.Fleet{Undrained: []string{"a", "b", "c", "d", "e"}},
			"wrong: no drainer asks for the jobs of a, b, c and 2 more queues [Start a drainer] drainer",
		},
		"another version": {
			attention.Fleet{Drainers: running("v1", "v0", "v0")},
			"warning: 2 drainers with version v0 (d1, d2), but the ingress has v1: upgrade drainers first, then ingress " +
				"[Show versions] penstock version",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.fleet.Peer, c.fleet.Version, c.fleet.Start = "the ingress", "v1", "drainer"
			got := ""
			for _, trouble := range attention.Drainers(&c.fleet) {
				got += line(trouble)
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestStore(t *testing.T) {
	for want, ready := range map[string]wire.Readiness{
		"": {Status: "ready"},
		"wrong: it is full [Show the fullest queues] penstock top":            {Store: "full", Detail: "it is full"},
		"warning: it fills [Show the fullest queues] penstock top":            {Store: "filling", Detail: "it fills"},
		"warning: it jumped [Synchronize the clock] timedatectl set-ntp true": {Store: "clock", Detail: "it jumped"},
		"wrong: it is away [Find the cause] penstock doctor --redis URL --nats URL": {
			Store: "unavailable", Detail: "it is away",
		},
		"wrong: stuck [Find the cause] nats stream view PENSTOCK_DEAD": {
			Store: "ok", Overflow: "stuck", Detail: "stuck",
		},
	} {
		got := ""
		if trouble := attention.Store(&ready); trouble != nil {
			got = line(*trouble)
		}
		if got != want {
			t.Errorf("%+v: got  %s\nwant %s", ready, got, want)
		}
	}
	if trouble := attention.Store(&wire.Readiness{Store: "ok", Drainers: "none"}); trouble != nil {
		t.Errorf("missing drainers are reported twice: %+v", trouble)
	}
}
