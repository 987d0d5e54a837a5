package app

import (
	"fmt"
	"sync"
	"time"

	"github.com/penstock/penstock/drain"
)

// A drainer that is late for most departures wastes slots that others could use.
const (
	paceWindow = 30 * time.Second
	paceEnough = 20 // departures and releases below which nothing can be said
)

// pace watches whether a drainer can hold the slack of what it is granted: it
// passes everything on to another observer. It looks at the present window and
// the one before.
type pace struct {
	drain.Observer
	now func() time.Time

	mu     sync.Mutex
	began  time.Time
	counts [2]struct{ started, late int } // the window before, and the present one
}

func newPace(o drain.Observer, now func() time.Time) *pace {
	return &pace{Observer: o, now: now, began: now()}
}

// Departed implements drain.Observer.
func (p *pace) Departed(job *drain.Job, late time.Duration) {
	p.Observer.Departed(job, late)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn()
	p.counts[1].started++
}

// Released implements drain.Observer.
func (p *pace) Released(queue string, why drain.Reason) {
	p.Observer.Released(queue, why)
	if why != drain.Late {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn()
	p.counts[1].late++
}

// held says whether more departures could be held than not.
func (p *pace) held() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn()
	started, late := p.counts[0].started+p.counts[1].started, p.counts[0].late+p.counts[1].late
	if started+late < paceEnough || late <= started {
		return nil
	}
	return fmt.Errorf("late for %d of the last %d departures: the way to the store, or this machine, is too slow for the queues' slack; raise slack, or give the drainer more CPU", late, started+late)
}

// turn begins a new window when the present one is over.
func (p *pace) turn() {
	age := p.now().Sub(p.began)
	if age < paceWindow {
		return
	}
	p.counts[0] = p.counts[1]
	if age >= 2*paceWindow {
		p.counts[0].started, p.counts[0].late = 0, 0
	}
	p.counts[1].started, p.counts[1].late = 0, 0
	p.began = p.now()
}
