package machine

import (
	"fmt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// readingsPage is how many queues are read while everything else waits.
const readingsPage = 1000

// Readings returns a page of readings, of queues behind a name, in order of name, and whether there are more.
func (m *Machine) Readings(now leaky.Instant, after string) (page []queue.Reading, more bool) {
	page = make([]queue.Reading, 0, min(m.queueNames.len(), readingsPage))
	for name := range m.namesBehind(after) {
		if len(page) == readingsPage {
			return page, true
		}
		page = append(page, m.queues[name].reading(now))
	}
	return page, false
}

func (q *queueState) reading(now leaky.Instant) queue.Reading {
	return queue.Reading{
		Name: q.name, Revision: q.revision, Bytes: q.bytes, Now: now.Time(),
		Size: q.counts[queue.Waiting] + q.counts[queue.Scheduled] + q.counts[queue.Leased] + q.counts[queue.Held],

		Deferred: max(q.counts[queue.Deferred], q.overflow.progress.behind), Counters: q.allCounters(),
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
