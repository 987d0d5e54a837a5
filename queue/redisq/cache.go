package redisq

import (
	"sync"
	"sync/atomic"
)

// maxCached is how many names something is remembered of. Others may make and delete as many rules and queues as they
// like, and nobody tells this process which are gone; what is forgotten is read again when it is asked, which costs a
// round trip.
const maxCached = 10_000

// cache remembers what the store says under names, for a bounded number of them. The zero one is empty.
type cache[T any] struct {
	values sync.Map // name -> *T
	count  atomic.Int64
}

// get returns nil of what is not remembered.
func (k *cache[T]) get(name string) *T {
	v, ok := k.values.Load(name)
	if !ok {
		return nil
	}
	return v.(*T)
}

func (k *cache[T]) put(name string, v *T) {
	if _, had := k.values.Swap(name, v); !had && k.count.Add(1) > maxCached {
		k.values.Range(func(other, old any) bool { // any but this one
			return other == name || !k.drop(other.(string), old.(*T))
		})
	}
}

// drop forgets what is known under a name, if it still is that, and reports whether it did.
func (k *cache[T]) drop(name string, v *T) bool {
	gone := k.values.CompareAndDelete(name, v)
	if gone {
		k.count.Add(-1)
	}
	return gone
}

// forget forgets whatever is known under a name.
func (k *cache[T]) forget(name string) {
	if _, had := k.values.LoadAndDelete(name); had {
		k.count.Add(-1)
	}
}
