package drain

import (
	"context"
	"time"
)

const (
	// askingAtOnce is how many partitions ask the engine for jobs at a time. One server carries out the calls of all its
	// partitions one after another. More calls at a time would only wait for one another, and their answers come late.
	askingAtOnce = 3
	// askingFor is how long an unanswered call keeps another one waiting. The partitions of other servers go on.
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

// enter waits for a place, and returns a function to call when the call is over. A call that takes long gives its place
// up before that.
func (t turnstile) enter(ctx context.Context) (leave func()) {
	select {
	case <-t:
	case <-ctx.Done():
		return func() {}
	}
	leaving := time.AfterFunc(askingFor, func() { t <- struct{}{} })
	return func() {
		if leaving.Stop() {
			t <- struct{}{}
		}
	}
}
