package redisq

import (
	"context"
	"fmt"
	"strconv"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// readingsPage is how many queues one script reads, which takes it 2 to 3 ms: less than the slack of a departure.
const readingsPage = 250

// Readings implements queue.Watch.
func (e *Engine) Readings(ctx context.Context) (all []queue.Reading, err error) {
	for p := range e.keys {
		for after := ""; ; {
			v, err := e.ask(ctx, readingsScript, p, e.instant(), after, readingsPage)
			if err != nil {
				return nil, err
			}
			answer := list(v)
			after = answer.text()
			now := answer.int()
			for rows := answer.list(); rows.more(); {
				row := rows.list()
				r, err := readReading(row, now)
				if err != nil {
					e.log.Error("queue left out of readings: what the store has of it is not what penstock wrote",
						"queue", r.Name, "error", err)
					continue
				}
				all = append(all, r)
			}
			if answer.err != nil {
				return nil, answer.err
			}
			if after == "" {
				break
			}
		}
	}
	return all, nil
}

func readReading(r *reply, now int64) (queue.Reading, error) {
	i := queue.Reading{
		Name: r.text(), Revision: r.int(), Size: r.int(), Bytes: r.int(), Deferred: r.int(), Now: micros(now),
	}
	i.Outflow = outflow(r.int(), r.int(), r.int(), now)
	i.Rate = leaky.RateOf(r.int(), r.int())
	i.Condition = r.text() + " " + r.text()
	counted := make([]int64, 0, len(queue.CounterTable))
	for r.more() {
		counted = append(counted, r.kept())
	}
	i.Counters.Add(counted)
	return i, r.err
}

// kept is a number as the store keeps it, 0 if it keeps none.
func (r *reply) kept() int64 {
	if len(r.v) > 0 && r.v[0] == nil {
		r.v = r.v[1:]
		return 0
	}
	text := r.text()
	if r.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		r.err = fmt.Errorf("%w: %s in place of a number", queue.ErrCorrupt, queue.Shorten(text, 40))
	}
	return n
}

// GetMany implements queue.Watch.
func (e *Engine) GetMany(ctx context.Context, names []string) ([]queue.Info, error) {
	byPartition := map[int][]any{}
	for _, name := range names {
		if queue.ValidateName(name) == nil {
			p := e.Partition(name)
			byPartition[p] = append(byPartition[p], name)
		}
	}
	var all []queue.Info
	for p, some := range byPartition {
		for len(some) > 0 {
			n := min(len(some), listPage)
			infos, _, err := e.infos(ctx, nil, p, append([]any{"some"}, some[:n]...)...)
			if err != nil {
				return nil, err
			}
			all, some = append(all, infos...), some[n:]
		}
	}
	return all, e.addParents(ctx, all)
}
