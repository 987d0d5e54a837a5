package httpio

import (
	"context"
	"sync"
)

// NameLocks is a lock for each name. The zero NameLocks is ready for use.
type NameLocks struct {
	mu sync.Mutex
	of map[string]*nameLock
}

type nameLock struct {
	held chan struct{} // has room for one
	uses int           // number of goroutines that hold it or wait for it
}

// Lock acquires the lock of a name, or returns the error of ctx if that ends first.
func (l *NameLocks) Lock(ctx context.Context, name string) (unlock func(), err error) {
	l.mu.Lock()
	a := l.of[name]
	if a == nil {
		if l.of == nil {
			l.of = map[string]*nameLock{}
		}
		a = &nameLock{held: make(chan struct{}, 1)}
		l.of[name] = a
	}
	a.uses++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if a.uses--; a.uses == 0 {
			delete(l.of, name)
		}
	}
	select {
	case a.held <- struct{}{}:
		return func() { <-a.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
