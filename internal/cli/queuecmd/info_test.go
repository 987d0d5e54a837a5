package queuecmd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// The output has every counter of the table.
func TestInfoShowsEveryCounter(t *testing.T) {
	q := wire.Queue{Flow: &wire.Flow{}}
	values := make([]int64, len(queue.CounterTable))
	for n := range values {
		values[n] = int64(7001 + n)
	}
	q.Stats.Add(values)
	v := report{Queue: q}
	text := v.text(time.Now())
	for n, c := range queue.CounterTable {
		if !strings.Contains(text, fmt.Sprint(values[n])) {
			t.Errorf("%s is not shown:\n%s", c.Name, text)
		}
	}
}

// The text of a circuit has the time after which a missing answer is a failure.
func TestInfoShowsTheCircuit(t *testing.T) {
	watched := queue.Circuit{
		Failures: 5, MinProbe: unit.Duration(time.Second), MaxProbe: unit.Duration(time.Minute),
		Slow: unit.Duration(10 * time.Second),
	}
	for _, c := range []struct {
		circuit queue.Circuit
		pull    bool
		state   *wire.Circuit
		want    string
	}{
		{watched, false, nil, "closed; opens after 5 failures, 10s unanswered is a failure; probes each 1s to 1m0s"},
		{
			watched, false, &wire.Circuit{State: "closed", Failures: 2},
			"closed, 2 failures in a row; opens after 5 failures, 10s unanswered is a failure; probes each 1s to 1m0s",
		},
		{watched, true, nil, "closed; opens after 5 failures; probes each 1s to 1m0s"}, // workers are not timed
		{queue.Circuit{Off: true, Slow: watched.Slow}, false, nil, "off"},
	} {
		q := wire.Queue{Flow: &wire.Flow{CircuitState: c.state}}
		q.Circuit, q.Pull = c.circuit, c.pull
		if got := circuitText(&q); got != c.want {
			t.Errorf("%+v:\n%s\nwant\n%s", c, got, c.want)
		}
	}
}

// A proxied queue shows its calls, in top in a column of its own.
func TestCallsAreShown(t *testing.T) {
	q := wire.Queue{Flow: &wire.Flow{Calls: &wire.Calls{Waiting: 12, Active: 3}}}
	q.Name, q.Pull, q.Deliver = "openai", true, []byte(`{"http":{"url":"https://api.openai.com"}}`)
	v := report{Queue: q}
	for _, want := range []string{"12 waiting, 3 active at this server", "proxy: passes calls on to {"} {
		if text := v.text(time.Now()); !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	var p picture
	p.see([]wire.Queue{q, queueOf("mail", wire.Stats{})}, nil, time.Now())
	if text := columns(p.Queues, p.At, 0); !strings.Contains(text, headCalls) ||
		!strings.Contains(text, "12 waiting, 3 active") {
		t.Errorf("no calls in\n%s", text)
	}
	if text := columns(p.Queues[:1], p.At, 0); strings.Contains(text, headCalls) {
		t.Errorf("calls without a proxied queue in\n%s", text)
	}
}

// Quotas have their unit, and rates in other units say what is in use.
func TestInfoShowsUnits(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	rate, err := leaky.ParseRate("200000/m")
	if err != nil {
		t.Fatal(err)
	}
	budget := wire.Budget{Unit: "tokens", Rate: rate, Burst: 20_000, Used: 1800, Free: now.Add(540 * time.Millisecond)}
	idle := budget
	idle.Used, idle.Free = 0, now
	q := wire.Queue{Flow: &wire.Flow{Parent: &wire.Parent{Name: "llm", Rate: rate, Budgets: []wire.Budget{idle}}}}
	q.Stats.Budgets = []wire.Budget{budget}
	q.Stats.Quotas = []wire.Quota{{
		Unit: "tokens", Quota: queue.Quota{Max: 1000, Per: "d"}, Used: 400, Left: 600, Ends: now.Add(time.Hour),
	}}
	q.Stats.Estimates = []wire.Estimate{
		{Unit: "images", Cost: 2, Learn: "p50", Known: 12}, {Unit: "tokens", Cost: 1432, Learn: "p95", Known: 300},
	}
	v := report{Queue: q}
	text := v.text(now)
	for _, want := range []string{
		"images: 2, the default; p50 after 32 costs, 12 are known, tokens: 1432, p95 of the latest costs\n",
		"tokens: 1800 of 20000 used at 200000/m, all free in 540ms",
		"tokens: 0 of 20000 used at 200000/m\n",
		"600 of 1000/d tokens left until ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
