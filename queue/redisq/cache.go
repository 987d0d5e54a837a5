package redisq

import (
	"sync"
	"sync/atomic"
)

// maxCached is the maximum number of names in a cache. Other processes may make and delete any number of rules and
// queues without notice. A forgotten name is read again when it is needed, which costs a round trip.
const maxCached = 10_000

// cache remembers values that the store has under names, for a bounded number of names. The zero cache is empty.
type cache[T any] struct {
	values sync.Map // name -> *T
	count  atomic.Int64
}

// get returns the value of a name, nil if it is not cached.
func (k *cache[T]) get(name string) *T {
	v, ok := k.values.Load(name)
	if !ok {
		return nil
	}
	return v.(*T)
}

func (k *cache[T]) put(name string, v *T) {
	if _, had := k.values.Swap(name, v); !had && k.count.Add(1) > maxCached {
		k.values.Range(func(other, old any) bool { // any other name
			return other == name || !k.drop(other.(string), old.(*T))
		})
	}
}

// drop forgets a name if it still has that value, and reports whether it did.
func (k *cache[T]) drop(name string, v *T) bool {
	gone := k.values.CompareAndDelete(name, v)
	if gone {
		k.count.Add(-1)
	}
	return gone
}

// forget forgets a name.
func (k *cache[T]) forget(name string) {
	if _, had := k.values.LoadAndDelete(name); had {
		k.count.Add(-1)
	}
}
