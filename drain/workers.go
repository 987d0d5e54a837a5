package drain

import (
	"context"
	"sync"
	"sync/atomic"
)

// maxIdle is how many goroutines that have nothing to do are kept for the next runs.
const maxIdle = 256

// workers carry runs through. A goroutine is used again: one made for each run would have its stack grown, by
// copying, in each delivery anew.
type workers struct {
	do      func(*run)
	next    chan *run // to one that is idle
	idle    atomic.Int64
	running sync.WaitGroup
}

func newWorkers(do func(*run)) *workers { return &workers{do: do, next: make(chan *run)} }

// begin carries a run through, in another goroutine. The idle end with stop.
func (w *workers) begin(stop context.Context, r *run) {
	select {
	case w.next <- r:
	default:
		w.running.Go(func() { w.work(stop, r) })
	}
}

func (w *workers) work(stop context.Context, r *run) {
	for r != nil {
		w.do(r)
		r = w.wait(stop)
	}
}

// wait returns the next run, or nil when there is none to wait for.
func (w *workers) wait(stop context.Context) *run {
	defer w.idle.Add(-1)
	if w.idle.Add(1) > maxIdle {
		return nil
	}
	select {
	case r := <-w.next:
		return r
	case <-stop.Done():
		return nil
	}
}
