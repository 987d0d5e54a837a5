package boltq

import "context"

// audience is who listens to the engine, and how to forget each one's context.
type audience[T any] map[chan T]func() bool

// listen returns a channel of the given length that hears what the audience is
// told, until ctx ends or the engine closes.
func listen[T any](ctx context.Context, e *Engine, a audience[T], length int) <-chan T {
	ear := make(chan T, length)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		close(ear)
		return ear
	}
	a[ear] = context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if _, open := a[ear]; open {
			delete(a, ear)
			close(ear)
		}
	})
	return ear
}

// tell tells all, and reports whether anybody heard it. What finds an ear full is
// dropped, because nobody waits for a listener.
func (a audience[T]) tell(v T) (heard bool) {
	for ear := range a {
		select {
		case ear <- v:
			heard = true
		default:
		}
	}
	return heard
}

// dismiss closes all channels.
func (a audience[T]) dismiss() {
	for ear, forget := range a {
		forget()
		close(ear)
	}
	clear(a)
}
