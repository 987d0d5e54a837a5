package machine

import "context"

// listeners are channels, each with a function that releases its context.
type listeners[T any] map[chan T]func() bool

func listen[T any](ctx context.Context, e *Engine, all listeners[T], length int) <-chan T {
	ear := make(chan T, length)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		close(ear)
		return ear
	}
	all[ear] = context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if _, open := all[ear]; open {
			delete(all, ear)
			close(ear)
		}
	})
	return ear
}

func (l listeners[T]) tell(list []T) {
	for ear := range l {
		for _, v := range list {
			select {
			case ear <- v:
			default:
			}
		}
	}
}

func (l listeners[T]) closeAll() {
	for ear, forget := range l {
		forget()
		close(ear)
	}
	clear(l)
}
