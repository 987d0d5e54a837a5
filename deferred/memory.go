package deferred

import (
	"context"
	"sync/atomic"
)

const (
	// readers is how many return paths may hold as much as one read returns: about fetchBytes and one message.
	readers = 8
	// smallBytes is how much all other return paths may hold in total after they have read less. With many queues most
	// have little, so many can proceed at once.
	smallBytes = 4 << 20
)

// memory bounds the memory of all return paths together.
type memory struct {
	slots chan struct{}
	small atomic.Int64
}

func newMemory() *memory { return &memory{slots: make(chan struct{}, readers)} }

// acquire waits for permission to read. Release the permit once the data is no longer used.
func (m *memory) acquire(ctx context.Context) (*permit, error) {
	select {
	case m.slots <- struct{}{}:
		return &permit{m: m}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// permit is a part of a memory.
type permit struct {
	m     *memory
	small int64 // bytes of smallBytes; 0 for a permit with a slot
}

// shrink reduces the permit to the bytes read: if they are few, another return path may read.
func (p *permit) shrink(n int64) {
	if p.m.small.Add(n) > smallBytes {
		p.m.small.Add(-n)
		return
	}
	p.small = n
	<-p.m.slots
}

func (p *permit) release() {
	if p.small == 0 {
		<-p.m.slots
		return
	}
	p.m.small.Add(-p.small)
}
