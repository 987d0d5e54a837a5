package drain

import (
	"context"
	"time"
)

const (
	// askingAtOnce is how many partitions may call the engine at a time. One server runs the calls of all its partitions
	// one after another, so more calls would only wait for one another, and be answered late.
	askingAtOnce = 3
	// askingFor is the longest that a call waits for a place. If calls to one server get no answer, the partitions of
	// other servers go on after that.
	askingFor = 10 * time.Millisecond
)

// turnstile limits concurrent calls to askingAtOnce.
type turnstile chan struct{}

func newTurnstile() turnstile {
	t := make(turnstile, askingAtOnce)
	for range askingAtOnce {
		t <- struct{}{}
	}
	return t
}

// enter waits for a place, at most askingFor; after that the caller goes on without one. The caller calls leave when
// its call is over.
func (t turnstile) enter(ctx context.Context) (leave func()) {
	free := func() { t <- struct{}{} }
	select {
	case <-t:
		return free
	default:
	}
	timer := time.NewTimer(askingFor)
	defer timer.Stop()
	select {
	case <-t:
		return free
	case <-timer.C:
	case <-ctx.Done():
	}
	return func() {}
}
