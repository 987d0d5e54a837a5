package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// People see every counter of the table.
func TestInfoShowsEveryCounter(t *testing.T) {
	q := wire.Queue{Flow: &wire.Flow{}}
	values := make([]int64, len(queue.CounterTable))
	for n := range values {
		values[n] = int64(7001 + n)
	}
	q.Stats.Add(values)
	var out bytes.Buffer
	if err := printQueue(&run{Streams: Streams{Out: &out}}, &q, wire.Drainers{}, nil, nil); err != nil {
		t.Fatal(err)
	}
	for n, c := range queue.CounterTable {
		if !strings.Contains(out.String(), fmt.Sprint(values[n])) {
			t.Errorf("%s is not shown:\n%s", c.Name, &out)
		}
	}
}

// What is said of a circuit includes for how long an answer may be out until that counts as a failure.
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
		{watched, true, nil, "closed; opens after 5 failures; probes each 1s to 1m0s"}, // nobody watches who works
		{queue.Circuit{Off: true, Slow: watched.Slow}, false, nil, "off"},
	} {
		q := wire.Queue{Flow: &wire.Flow{CircuitState: c.state}}
		q.Circuit, q.Pull = c.circuit, c.pull
		if got := circuitOf(&q); got != c.want {
			t.Errorf("%+v:\n%s\nwant\n%s", c, got, c.want)
		}
	}
}
