package redisq

import (
	"context"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
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
	i.Counters.Add(r.ints())
	return i, r.err
}

// GetMany implements queue.Watch.
func (e *Engine) GetMany(ctx context.Context, wanted []string) ([]queue.Info, error) {
	byPartition := map[int][]any{}
	for _, name := range wanted {
		if names.Validate(name) == nil {
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
