package boltq

import (
	"context"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const (
	announceRoomEach   = time.Second // at most, for a queue to which nobody readmits
	roomListenerBuffer = 1024        // names that a listener may leave unread
)

// readmitBatch is the room for which a readmission is worth a call.
func (q *queueState) readmitBatch() int64 { return min(queue.MaxReadmit, max(1, (q.spec.Mark()+3)/4)) }

// announceRoom tells listeners that a queue with a backlog has room again. It is called after whatever may have
// made room.
func (m *machine) announceRoom(q *queueState, now leaky.Instant) {
	waits := q.onOverflow()
	if waits == 0 || !q.live || m.overflowRoom(q) < min(q.readmitBatch(), waits) {
		return
	}
	if q.overflow.announcedAt != 0 && now.Sub(q.overflow.announcedAt) < announceRoomEach {
		return
	}
	if m.roomListeners.notify(q.spec.Name) {
		q.overflow.announcedAt = now
	}
}

// Room implements queue.Overflow. Closing the engine closes the channel too.
func (e *Engine) Room(ctx context.Context) <-chan string {
	return listen(ctx, e, e.roomListeners, roomListenerBuffer)
}

// Backlogged implements queue.Overflow. If there are more than limit, chance decides which are named, so that none
// is left out for ever.
func (e *Engine) Backlogged(ctx context.Context, limit int) ([]string, error) {
	names, err := e.backlogged(ctx, limit)
	slices.Sort(names)
	return names, err
}

func (e *Engine) backlogged(ctx context.Context, limit int) ([]string, error) {
	e.lock()
	defer e.unlock()
	if err := e.readable(ctx); err != nil {
		return nil, err
	}
	names := make([]string, 0, max(0, min(limit, len(e.withBacklog))))
	for q := range e.withBacklog {
		if len(names) >= limit {
			break
		}
		names = append(names, q.spec.Name)
	}
	return names, nil
}

// trackBacklog keeps the set of queues with a backlog.
func (m *machine) trackBacklog(q *queueState) {
	if q.live && q.onOverflow() > 0 {
		m.withBacklog[q] = struct{}{}
	} else {
		delete(m.withBacklog, q)
	}
}
