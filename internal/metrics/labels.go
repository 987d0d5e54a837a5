package metrics

import (
	"sync"
	"sync/atomic"
)

// DefaultMaxQueues is how many queues have series of their own.
const DefaultMaxQueues = 200

// Other is the queue label of all queues beyond those. No queue can have this name.
const Other = "_other"

// slots keeps what belongs to a queue for the first so many of them, and one for
// all others.
type slots[T any] struct {
	most  int64
	build func(label string) T
	used  atomic.Int64
	named sync.Map // string -> T
	other func() T // made when it is first needed
}

func newSlots[T any](most int, build func(label string) T) *slots[T] {
	if most <= 0 {
		most = DefaultMaxQueues
	}
	return &slots[T]{most: int64(most), build: build, other: sync.OnceValue(func() T { return build(Other) })}
}

// of returns what belongs to a queue that is known to exist.
func (s *slots[T]) of(queue string) T {
	if v, ok := s.named.Load(queue); ok {
		return v.(T)
	}
	if s.used.Load() >= s.most {
		return s.other()
	}
	if s.used.Add(1) > s.most {
		s.used.Add(-1)
		return s.other()
	}
	v, loaded := s.named.LoadOrStore(queue, s.build(queue))
	if loaded {
		s.used.Add(-1)
	}
	return v.(T)
}

// forget frees a queue's slot and reports whether it had one.
func (s *slots[T]) forget(queue string) bool {
	_, had := s.named.LoadAndDelete(queue)
	if had {
		s.used.Add(-1)
	}
	return had
}
