package machine

import (
	"fmt"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// readingsPage is how many queues are read while everything else waits.
const readingsPage = 1000

// Readings returns a page of readings, of queues behind a name, in order of name, and whether there are more.
func (m *Machine) Readings(now leaky.Instant, after string) (page []queue.Reading, more bool) {
	from, found := slices.BinarySearch(m.queueNames, after)
	if found {
		from++
	}
	names := m.queueNames[from:min(len(m.queueNames), from+readingsPage)]
	page = make([]queue.Reading, len(names))
	for n, name := range names {
		page[n] = m.queues[name].reading(now)
	}
	return page, len(page) == readingsPage
}

func (q *queueState) reading(now leaky.Instant) queue.Reading {
	return queue.Reading{
		Name: q.spec.Name, Revision: q.revision, Bytes: q.bytes, Now: now.Time(),
		Size: q.counts[queue.Waiting] + q.counts[queue.Scheduled] + q.counts[queue.Leased] + q.counts[queue.Held],

		Deferred: max(q.counts[queue.Deferred], q.overflow.progress.behind), Counters: counted(q.counters, q.unsaved),
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
