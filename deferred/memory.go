package deferred

import (
	"context"
	"sync/atomic"
)

const (
	// readers is how many return paths may hold as much as one reading fetches, about
	// fetchBytes and one message.
	readers = 8
	// smallBytes is how much all others may hold together, who have read less: with many
	// queues most have little, and they can be many at once.
	smallBytes = 4 << 20
)

// memory bounds what return paths hold in memory, however many there are.
type memory struct {
	slots chan struct{}
	small atomic.Int64
}

func newMemory() *memory { return &memory{slots: make(chan struct{}, readers)} }

// hold waits until something may be read. What it returns gives that back; it is called
// once what was read is gone.
func (m *memory) hold(ctx context.Context) (*held, error) {
	select {
	case m.slots <- struct{}{}:
		return &held{m: m}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// held is one's part of a memory.
type held struct {
	m     *memory
	small int64 // of it; 0 of one who has a slot
}

// settle is told how much was read: if that is little, somebody else may read.
func (h *held) settle(n int64) {
	if h.m.small.Add(n) > smallBytes {
		h.m.small.Add(-n)
		return
	}
	h.small = n
	<-h.m.slots
}

func (h *held) release() {
	if h.small == 0 {
		<-h.m.slots
		return
	}
	h.m.small.Add(-h.small)
}
