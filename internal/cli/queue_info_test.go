package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
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
	if err := printQueue(&run{Streams: Streams{Out: &out}}, &q, wire.Drainers{}, nil); err != nil {
		t.Fatal(err)
	}
	for n, c := range queue.CounterTable {
		if !strings.Contains(out.String(), fmt.Sprint(values[n])) {
			t.Errorf("%s is not shown:\n%s", c.Name, &out)
		}
	}
}
