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
	paceEnough = queue.EnoughDepartures // departures and releases below which nothing can be said
)

// remedies says what to do about each reason for which jobs are released. The reasons without one are no faults: a
// process that stops gives its jobs back.
var remedies = map[string]string{
	drain.Late.String(): "raise the queues' slack, give this process more CPU, or bring it nearer to the store",
	drain.NoHandler.String(): "raise --concurrency, or the share of handlers of the queue's app; see " +
		"penstock_free_handlers and penstock_app_handlers_in_use",
	drain.NoSpec.String():   "the log of this process says why a queue's settings cannot be read",
	drain.Handlers.String(): "handlers gave the jobs back before their window was over; see their targets",
	pull.Unclaimed.String(): hungUp,
	pull.Gone.String():      hungUp,
}

const hungUp = "workers hang up before they are answered; raise the timeout of their HTTP client above their wait"

// pace watches whether a process uses the departures that it is granted, within their slack. It looks at the present
// window and the one before.
type pace struct {
	now func() time.Time

	mu     sync.Mutex
	began  time.Time
	counts [2]tally // the window before, and the present one
}

// tally counts the departures of one window.
type tally struct {
	started  int64
	released map[string]int64 // by reason
}

func newPace(now func() time.Time) *pace { return &pace{now: now, began: now()} }

func (p *pace) started() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn()
	p.counts[1].started++
}

func (p *pace) released(why string) {
	if remedies[why] == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn()
	t := &p.counts[1]
	if t.released == nil {
		t.released = map[string]int64{}
	}
	t.released[why]++
}

// check returns an error if more departures were late than started. It returns lacks if more than 1% of them were
// released: then the process does its work, and others lose slots.
func (p *pace) check() (lacks, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn()
	by := map[string]int64{}
	of := queue.Releases{}
	for _, t := range p.counts {
		of.Departures += t.started
		for why, n := range t.released {
			by[why] += n
			of.Released += n
		}
	}
	started, late := of.Departures, by[drain.Late.String()]
	of.Departures += of.Released
	switch {
	case started+late >= paceEnough && late > started:
		return nil, fmt.Errorf("late for %d of the last %d departures: the way to the store, or this machine, is too slow "+
			"for the queues' slack; raise slack, or give this process more CPU", late, started+late)
	case !of.Many():
		return nil, nil
	}
	reasons := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b))
	})
	parts := make([]string, len(reasons))
	for n, why := range reasons {
		parts[n] = fmt.Sprintf("%d %s", by[why], why)
	}
	return fmt.Errorf("gave back %d of the last %d departures unused (%s): %s; %s", of.Released, of.Departures,
		of.Percent(), strings.Join(parts, ", "), remedies[reasons[0]]), nil
}

// drainPace passes everything on to another observer.
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

// pullPace is the same of the jobs that are pulled.
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

// turn begins a new window when the present one is over.
func (p *pace) turn() {
	age := p.now().Sub(p.began)
	if age < paceWindow {
		return
	}
	p.counts[0] = p.counts[1]
	if age >= 2*paceWindow {
		p.counts[0] = tally{}
	}
	p.counts[1] = tally{}
	p.began = p.now()
}
