package boltq

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// readingsPage is how many queues are read while everything else waits.
const readingsPage = 1000

// Readings implements queue.Watch.
func (e *Engine) Readings(ctx context.Context) ([]queue.Reading, error) {
	var all []queue.Reading
	for after := ""; ; {
		page, err := e.readingsAfter(ctx, after)
		all = append(all, page...)
		if err != nil || len(page) < readingsPage {
			return all, err
		}
		after = page[len(page)-1].Name
	}
}

func (e *Engine) readingsAfter(ctx context.Context, after string) ([]queue.Reading, error) {
	e.lock()
	defer e.unlock()
	if err := e.readable(ctx); err != nil {
		return nil, err
	}
	now := e.now()
	from, found := slices.BinarySearch(e.queueNames, after)
	if found {
		from++
	}
	names := e.queueNames[from:min(len(e.queueNames), from+readingsPage)]
	page := make([]queue.Reading, len(names))
	for n, name := range names {
		page[n] = e.queues[name].reading(now)
	}
	return page, nil
}

func (q *queueState) reading(now leaky.Instant) queue.Reading {
	return queue.Reading{
		Name: q.spec.Name, Revision: q.revision, Bytes: q.bytes, Now: now.Time(),
		Size: q.counts[queue.Waiting] + q.counts[queue.Scheduled] + q.counts[queue.Leased] + q.counts[queue.Held],

		Deferred: max(q.counts[queue.Deferred], q.overflow.progress.behind), Counters: counted(q.saved, q.unsaved),
		Outflow: q.outflow.rate(now), Rate: q.pacer.Rate, Condition: q.condition(),
	}
}

// condition is the pause and what the receiver has said, as a text.
func (q *queueState) condition() string {
	if q.pause == (pause{}) && q.receiver == (receiverState{}) {
		return ""
	}
	return fmt.Sprint(q.pause, q.receiver)
}

// GetMany implements queue.Watch.
func (e *Engine) GetMany(ctx context.Context, names []string) ([]queue.Info, error) {
	e.lock()
	defer e.unlock()
	if err := e.readable(ctx); err != nil {
		return nil, err
	}
	now := e.now()
	var some []queue.Info
	for _, name := range names {
		if q, err := e.liveQueue(name); err == nil {
			some = append(some, e.infoWithParent(q, now))
		}
	}
	return some, nil
}
