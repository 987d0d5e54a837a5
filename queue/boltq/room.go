package boltq

import (
	"context"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const (
	tellEach = time.Second // at most, of one queue that nobody readmits to
	roomEar  = 1024        // names that a listener to Room may leave unheard
)

// takes is how many jobs from the overflow the queue would take now: none before the first of them fits, of which
// the last Readmit found that it does not.
func (e *Engine) takes(l *line) int64 {
	if needs := l.aside.headNeeds; needs > 0 && !l.fitsBack(needs, e.byteLimit(l)) {
		return 0
	}
	return l.places()
}

// places is how many places are left for jobs from the overflow.
func (l *line) places() int64 {
	return max(0, min(l.spec.Mark()-l.aside.back, l.spec.Capacity-l.size()))
}

// batch is for how much room it is worth to come.
func (l *line) batch() int64 { return min(queue.MaxReadmit, max(1, (l.spec.Mark()+3)/4)) }

// tellRoom says that a queue with a backlog has room again, after something that
// may have made it.
func (e *Engine) tellRoom(l *line, now leaky.Instant) {
	waits := l.onOverflow()
	if waits == 0 || !l.live || e.takes(l) < min(l.batch(), waits) {
		return
	}
	if l.aside.told != 0 && now.Sub(l.aside.told) < tellEach {
		return
	}
	if e.rooms.tell(l.spec.Name) {
		l.aside.told = now
	}
}

// Room implements queue.Overflow. Closing the engine closes the channel too.
func (e *Engine) Room(ctx context.Context) <-chan string { return listen(ctx, e, e.rooms, roomEar) }

// Backlogged implements queue.Overflow. Which queues are named when there are more
// than limit is left to chance, so that none is left out for ever.
func (e *Engine) Backlogged(ctx context.Context, limit int) ([]string, error) {
	names, err := e.backlogged(ctx, limit)
	slices.Sort(names)
	return names, err
}

func (e *Engine) backlogged(ctx context.Context, limit int) ([]string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.readable(ctx); err != nil {
		return nil, err
	}
	names := make([]string, 0, max(0, min(limit, len(e.backlogs))))
	for l := range e.backlogs {
		if len(names) >= limit {
			break
		}
		names = append(names, l.spec.Name)
	}
	return names, nil
}
