package drain

import (
	"context"
	"sync"
	"sync/atomic"
)

// maxIdle is the maximum number of idle goroutines kept for the next deliveries.
const maxIdle = 256

// workers run deliveries in goroutines that are reused. A new goroutine for each delivery would have to grow its stack,
// by copying, every time.
type workers struct {
	run     func(*delivery)
	next    chan *delivery // to an idle goroutine
	idle    atomic.Int64
	running sync.WaitGroup
}

func newWorkers(run func(*delivery)) *workers { return &workers{run: run, next: make(chan *delivery)} }

// start runs a delivery in another goroutine. Idle goroutines end with stop.
func (w *workers) start(stop context.Context, dl *delivery) {
	select {
	case w.next <- dl:
	default:
		w.running.Go(func() { w.work(stop, dl) })
	}
}

func (w *workers) work(stop context.Context, dl *delivery) {
	for dl != nil {
		w.run(dl)
		dl = w.wait(stop)
	}
}

// wait returns the next delivery, or nil if this goroutine should end.
func (w *workers) wait(stop context.Context) *delivery {
	defer w.idle.Add(-1)
	if w.idle.Add(1) > maxIdle {
		return nil
	}
	select {
	case dl := <-w.next:
		return dl
	case <-stop.Done():
		return nil
	}
}
