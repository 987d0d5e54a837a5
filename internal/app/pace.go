package app

import (
	"fmt"
	"sync"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/pull"
)

// Who is late for most departures wastes slots that others could use.
const (
	paceWindow = 30 * time.Second
	paceEnough = 20 // departures and releases below which nothing can be said
)

// pace watches whether a process can hold the slack of what it is granted. It looks at the
// present window and the one before.
type pace struct {
	now func() time.Time

	mu     sync.Mutex
	began  time.Time
	counts [2]struct{ started, late int } // the window before, and the present one
}

func newPace(now func() time.Time) *pace { return &pace{now: now, began: now()} }

func (p *pace) started() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn()
	p.counts[1].started++
}

func (p *pace) late() {
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
	return fmt.Errorf("late for %d of the last %d departures: the way to the store, or this machine, is too slow for "+
		"the queues' slack; raise slack, or give this process more CPU", late, started+late)
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
	if why == drain.Late {
		p.late()
	}
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
	if why == pull.Late {
		p.late()
	}
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
