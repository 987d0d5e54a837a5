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
					e.log.Error("queue left out of readings: its stored data is not what penstock wrote",
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
	var all []queue.Info
	err := e.byPartition(wanted, func(p int, some []any) error {
		infos, _, err := e.infos(ctx, nil, p, append([]any{"some"}, some...)...)
		all = append(all, infos...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, e.addParents(ctx, all)
}

// ReadSpecs implements queue.Outflow.
func (e *Engine) ReadSpecs(ctx context.Context, wanted []string) (all []queue.KeptSpec, err error) {
	err = e.byPartition(wanted, func(p int, some []any) error {
		v, err := e.ask(ctx, specsScript, p, append([]any{e.instant()}, some...)...)
		if err != nil {
			return err
		}
		r := list(v)
		for r.more() {
			name, kept := r.text(), queue.KeptSpec{Revision: r.int()}
			if kept.Spec, err = queue.ParseSpec([]byte(r.text())); err != nil {
				e.log.Error("spec cannot be read: it is not what penstock wrote", "queue", name, "error", err)
				continue
			}
			kept.Spec.Name = name
			all = append(all, kept)
		}
		return r.err
	})
	return all, err
}

// byPartition calls do with the valid names, a page of one partition at a time.
func (e *Engine) byPartition(wanted []string, do func(partition int, some []any) error) error {
	parts := map[int][]any{}
	for _, name := range wanted {
		if names.Validate(name) == nil {
			p := e.Partition(name)
			parts[p] = append(parts[p], name)
		}
	}
	for p, some := range parts {
		for len(some) > 0 {
			n := min(len(some), listPage)
			if err := do(p, some[:n]); err != nil {
				return err
			}
			some = some[n:]
		}
	}
	return nil
}
