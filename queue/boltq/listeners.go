package boltq

import (
	"context"

	"github.com/penstock/penstock/queue"
)

// listeners are channels, each with a function that releases its context.
type listeners[T any] map[chan T]func() bool

// How many events are buffered for each listener.
const (
	wakeBuffer = 16
	roomBuffer = 1024
)

// Wake implements queue.Outflow.
func (e *Engine) Wake(ctx context.Context) <-chan queue.Wakeup {
	return listen(ctx, e, e.wakes, wakeBuffer)
}

// Room implements queue.Overflow.
func (e *Engine) Room(ctx context.Context) <-chan string { return listen(ctx, e, e.rooms, roomBuffer) }

// listen returns a channel that receives what listeners are notified of, until ctx ends or the engine closes.
func listen[T any](ctx context.Context, e *Engine, all listeners[T], length int) <-chan T {
	ch := make(chan T, length)
	e.lock()
	defer e.unlock()
	if e.closing {
		close(ch)
		return ch
	}
	all[ch] = context.AfterFunc(ctx, func() {
		e.lock()
		defer e.unlock()
		if _, open := all[ch]; open {
			delete(all, ch)
			close(ch)
		}
	})
	return ch
}

// notify sends a list to all listeners. A listener whose channel is full misses it: nobody waits for listeners.
func (all listeners[T]) notify(list []T) {
	if len(list) == 0 {
		return
	}
	for ch := range all {
		for _, v := range list {
			select {
			case ch <- v:
			default:
			}
		}
	}
}

func (all listeners[T]) closeAll() {
	for ch, forget := range all {
		forget()
		close(ch)
	}
	clear(all)
}
