package drain

import (
	"context"
	"sync"
	"sync/atomic"
)

// maxIdle is how many goroutines that have nothing to do are kept for the next attempts.
const maxIdle = 256

// workers carry attempts through. A goroutine is used again: one made for each attempt would have its stack grown, by
// copying, in each delivery anew.
type workers struct {
	do      func(*attempt)
	next    chan *attempt // to one that is idle
	idle    atomic.Int64
	running sync.WaitGroup
}

func newWorkers(do func(*attempt)) *workers { return &workers{do: do, next: make(chan *attempt)} }

// begin carries an attempt through, in another goroutine. The idle ones end with stop.
func (w *workers) begin(stop context.Context, a *attempt) {
	select {
	case w.next <- a:
	default:
		w.running.Go(func() { w.work(stop, a) })
	}
}

func (w *workers) work(stop context.Context, a *attempt) {
	for a != nil {
		w.do(a)
		a = w.wait(stop)
	}
}

// wait returns the next attempt, or nil when there is none to wait for.
func (w *workers) wait(stop context.Context) *attempt {
	defer w.idle.Add(-1)
	if w.idle.Add(1) > maxIdle {
		return nil
	}
	select {
	case a := <-w.next:
		return a
	case <-stop.Done():
		return nil
	}
}
