package machine

import (
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// announceRoomEach is how often at most a queue is announced to which nobody readmits.
const announceRoomEach = time.Second

// readmitBatch is the room for which a readmission is worth a call.
func (q *queueState) readmitBatch() int64 { return min(queue.MaxReadmit, max(1, (q.spec.Mark()+3)/4)) }

// announceRoom tells listeners that a queue with a backlog has room again. It is called after whatever may have
// made room.
func (m *Machine) announceRoom(q *queueState, now leaky.Instant) {
	waits := q.onOverflow()
	if waits == 0 || !q.live || m.overflowRoom(q) < min(q.readmitBatch(), waits) {
		return
	}
	if q.overflow.announcedAt != 0 && now.Sub(q.overflow.announcedAt) < announceRoomEach {
		return
	}
	if m.RoomHeard {
		m.rooms = append(m.rooms, q.name)
		q.ownOverflow().announcedAt = now
	}
}

// Backlogged names queues with a backlog. If there are more than limit, chance decides which are named, so that none is
// left out for ever.
func (m *Machine) Backlogged(limit int) []string {
	names := make([]string, 0, max(0, min(limit, len(m.withBacklog))))
	for q := range m.withBacklog {
		if len(names) >= limit {
			break
		}
		names = append(names, q.name)
	}
	slices.Sort(names)
	return names
}

// trackBacklog keeps the set of queues with a backlog.
func (m *Machine) trackBacklog(q *queueState) {
	if q.live && q.onOverflow() > 0 {
		m.withBacklog[q] = struct{}{}
	} else {
		delete(m.withBacklog, q)
	}
}
