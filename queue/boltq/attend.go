package boltq

import (
	"context"

	"github.com/penstock/penstock/queue"
)

// Attend implements queue.Rules. Who attends is not on file: nobody outlives the process.
func (e *Engine) Attend(ctx context.Context, process string) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := queue.ValidateProcess(process); err != nil {
		return 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.usable(); err != nil {
		return 0, err
	}
	now := e.now()
	e.attending[process] = now
	for other, at := range e.attending {
		if now.Sub(at) > queue.AttendFor {
			delete(e.attending, other)
		}
	}
	return len(e.attending), nil
}
