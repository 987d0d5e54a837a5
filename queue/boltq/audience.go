package boltq

import "context"

// listeners is who listens to the engine, and how to forget each one's context.
type listeners[T any] map[chan T]func() bool

// listen returns a channel of the given length that hears what the audience is
// told, until ctx ends or the engine closes.
func listen[T any](ctx context.Context, e *Engine, a listeners[T], length int) <-chan T {
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

// notify tells all, and reports whether anybody heard it. What finds an ear full is
// dropped, because nobody waits for a listener.
func (a listeners[T]) notify(v T) (heard bool) {
	for ear := range a {
		select {
		case ear <- v:
			heard = true
		default:
		}
	}
	return heard
}

// closeAll closes all channels.
func (a listeners[T]) closeAll() {
	for ear, forget := range a {
		forget()
		close(ear)
	}
	clear(a)
}
