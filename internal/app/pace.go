package app

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
)

// A process that is late for most departures wastes slots that others could use.
const (
	paceWindow = 30 * time.Second
	paceEnough = queue.EnoughDepartures // minimum number of departures and releases for a judgment
)

// remedies has what to do about each reason for releasing jobs. Reasons without a remedy are not faults: for example, a
// process that stops gives its jobs back.
var remedies = map[string]string{
	drain.Late.String(): "raise the queues' slack, give this process more CPU, or move it closer to the store",
	drain.NoHandler.String(): "raise --concurrency, or the share of handlers of the queue's app; see " +
		"penstock_free_handlers and penstock_app_handlers_in_use",
	drain.NoSpec.String():   "see the log of this process for why a queue's settings cannot be read",
	drain.Handlers.String(): "handlers gave the jobs back before their window was over; check their targets",
	pull.Unclaimed.String(): hungUp,
	pull.Gone.String():      hungUp,
}

const hungUp = "workers hang up before they are answered; raise the timeout of their HTTP client above their wait"

// pace measures whether a process uses its departures within their slack, in the current window and the one before.
type pace struct {
	now func() time.Time

	mu     sync.Mutex
	began  time.Time
	counts [2]departures // of the previous and the current window
}

// departures counts the departures of one window.
type departures struct {
	started  int64
	released map[string]int64 // by reason
}

func newPace(now func() time.Time) *pace { return &pace{now: now, began: now()} }

func (p *pace) started() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rotate()
	p.counts[1].started++
}

func (p *pace) released(why string) {
	if remedies[why] == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rotate()
	d := &p.counts[1]
	if d.released == nil {
		d.released = map[string]int64{}
	}
	d.released[why]++
}

// check returns err if more departures were late than started. It returns lacks if more than 1% of them were released:
// the process does its work, but slots are lost.
func (p *pace) check() (lacks, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rotate()
	by := map[string]int64{}
	total := queue.Releases{}
	for _, d := range p.counts {
		total.Departures += d.started
		for why, n := range d.released {
			by[why] += n
			total.Released += n
		}
	}
	started, late := total.Departures, by[drain.Late.String()]
	total.Departures += total.Released
	switch {
	case started+late >= paceEnough && late > started:
		return nil, fmt.Errorf("late for %d of the last %d departures: the network to the store, or this machine, is too "+
			"slow for the queues' slack; raise slack, or give this process more CPU", late, started+late)
	case !total.Many():
		return nil, nil
	}
	reasons := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b))
	})
	parts := make([]string, len(reasons))
	for n, why := range reasons {
		parts[n] = fmt.Sprintf("%d %s", by[why], why)
	}
	return fmt.Errorf("gave back %d of the last %d departures unused (%s): %s; %s", total.Released, total.Departures,
		total.Percent(), strings.Join(parts, ", "), remedies[reasons[0]]), nil
}

// drainPace is a drain.Observer that also measures the pace.
type drainPace struct {
	drain.Observer
	*pace
}

// Departed implements drain.Observer.
func (p drainPace) Departed(job *drain.Job, late time.Duration) {
	p.Observer.Departed(job, late)
	p.started()
}

// Released implements drain.Observer.
func (p drainPace) Released(queue string, why drain.Reason) {
	p.Observer.Released(queue, why)
	p.released(why.String())
}

// pullPace is a pull.Observer that also measures the pace.
type pullPace struct {
	pull.Observer
	*pace
}

// Handed implements pull.Observer.
func (p pullPace) Handed(queue string, late time.Duration) {
	p.Observer.Handed(queue, late)
	p.started()
}

// Released implements pull.Observer.
func (p pullPace) Released(queue string, why pull.Reason) {
	p.Observer.Released(queue, why)
	p.released(why.String())
}

// rotate begins a new window when the current one is over.
func (p *pace) rotate() {
	age := p.now().Sub(p.began)
	if age < paceWindow {
		return
	}
	p.counts[0] = p.counts[1]
	if age >= 2*paceWindow {
		p.counts[0] = departures{}
	}
	p.counts[1] = departures{}
	p.began = p.now()
}
