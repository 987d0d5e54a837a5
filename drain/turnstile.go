package drain

import (
	"context"
	"time"
)

const (
	// askingAtOnce is how many partitions ask the engine for jobs at a time. One server carries out the calls of all its
	// partitions one after another. More calls at a time would only wait for one another, and their answers come late.
	askingAtOnce = 3
	// askingFor is how long a call waits for others at most. Where those are not answered, the partitions of other
	// servers go on.
	askingFor = 10 * time.Millisecond
)

// turnstile lets askingAtOnce calls go at a time.
type turnstile chan struct{}

func newTurnstile() turnstile {
	t := make(turnstile, askingAtOnce)
	for range askingAtOnce {
		t <- struct{}{}
	}
	return t
}

// enter waits for a place, askingFor at most, and returns a function to call when the call is over.
func (t turnstile) enter(ctx context.Context) (leave func()) {
	give := func() { t <- struct{}{} }
	select {
	case <-t:
		return give
	default:
	}
	timer := time.NewTimer(askingFor)
	defer timer.Stop()
	select {
	case <-t:
		return give
	case <-timer.C:
	case <-ctx.Done():
	}
	return func() {}
}
