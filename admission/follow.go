package admission

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// fresh is how long what was read is gone by without reading it again.
	fresh = time.Second
	// soon is how old it is when it is read anew behind everybody's back, so that nobody who uses it all the time waits.
	soon = fresh / 2
	// maxFollowed bounds how much is remembered, which anybody can name.
	maxFollowed = 10_000
	// readers is how many names are read at a time behind everybody's back.
	readers = 4
)

// followed remembers what the store says under names, and reads it again when it is used.
type followed[T any] struct {
	outages *outages
	gone    error // of a name under which there is nothing
	read    func(ctx context.Context, name string) (T, error)
	within  time.Duration // for a look
	wanted  chan string
	failed  func(name string, err error) // is told of a look that the store did not answer; may be nil

	mu    sync.Mutex
	known map[string]*entry[T]
}

// entry is what is known under a name. It is guarded by the mutex of followed.
type entry[T any] struct {
	value  T
	has    bool      // there was an answer
	looked time.Time // when the last look ended
	look   *look[T]  // the present one
	wanted bool
}

// look is one at the store. It is nobody's: those who wait for it go by what it found, and one who leaves earlier does not end it. Else
// a store that does not answer would keep each as long again as the one before, and never be found out by those who have little time.
type look[T any] struct {
	over  chan struct{} // closed when it has ended
	value T
	err   error // that there is nothing, or why nothing is known
}

func newFollowed[T any](o *outages, gone error, within time.Duration, read func(ctx context.Context, name string) (T, error)) *followed[T] {
	return &followed[T]{outages: o, gone: gone, read: read, within: within, wanted: make(chan string, 1024), known: map[string]*entry[T]{}}
}

// get returns what is under a name, about a second old at most unless the store is away. The error is gone, or why nothing is
// known.
func (f *followed[T]) get(ctx context.Context, name string) (value T, err error) {
	f.mu.Lock()
	e := f.known[name]
	if e == nil {
		if queue.ValidateName(name) != nil {
			f.mu.Unlock()
			return value, f.gone
		}
		e = f.add(name)
	}
	age := time.Since(e.looked)
	if e.has && (age < fresh || e.look != nil && age < 2*fresh || f.outages.on(name)) {
		f.want(name, e, age)
		value = e.value
		f.mu.Unlock()
		return value, nil
	}
	if err := ctx.Err(); err != nil {
		f.mu.Unlock()
		return value, err
	}
	if err := f.outages.silent(name); err != nil && !e.has && e.look == nil {
		delete(f.known, name)
		f.mu.Unlock()
		return value, err
	}
	look := f.begin(ctx, name, e)
	f.mu.Unlock()
	select {
	case <-look.over:
		return look.value, look.err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// want has a value read anew that grows old.
func (f *followed[T]) want(name string, e *entry[T], age time.Duration) {
	if age < soon || e.wanted || e.look != nil {
		return
	}
	select {
	case f.wanted <- name:
		e.wanted = true
	default: // the next use will do
	}
}

// doubt has a name read that somebody gave up on before it was known whether the store is away. One that was just read throws no doubt
// on the store.
func (f *followed[T]) doubt(ctx context.Context, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.known[name]; e != nil && time.Since(e.looked) >= probeEvery {
		f.begin(ctx, name, e)
	}
}

func (f *followed[T]) add(name string) *entry[T] {
	if len(f.known) >= maxFollowed {
		for other := range f.known { // any: it is read again when it is used
			delete(f.known, other)
			break
		}
	}
	e := &entry[T]{}
	f.known[name] = e
	return e
}

// begin returns the look at a name that is under way, or a new one. It is called with mu held.
func (f *followed[T]) begin(ctx context.Context, name string, e *entry[T]) *look[T] {
	if e.look == nil {
		e.look = &look[T]{over: make(chan struct{})}
		go f.lookAt(context.WithoutCancel(ctx), name, e, e.look)
	}
	return e.look
}

// lookAt reads a name.
func (f *followed[T]) lookAt(ctx context.Context, name string, e *entry[T], look *look[T]) {
	short, cancel := context.WithTimeout(ctx, f.within)
	value, err := f.read(short, name)
	cancel()
	f.mu.Lock()
	defer f.mu.Unlock()
	defer close(look.over)
	e.look, e.wanted = nil, false
	switch {
	case err == nil:
		e.value, e.has, e.looked = value, true, time.Now()
		look.value = value
		return
	case errors.Is(err, f.gone):
		e.has = false
	case isAway(err):
		if f.failed != nil {
			f.failed(name, err)
		}
		f.outages.begin(name, err, func(ctx context.Context) error {
			_, err := f.read(ctx, name)
			return err
		})
	}
	if e.has {
		e.looked = time.Now() // what is known stays, however old
		look.value = e.value
		return
	}
	if f.known[name] == e { // or whoever names what is not there would push out what is
		delete(f.known, name)
	}
	look.err = err
}

// run reads what is wanted, until ctx ends.
func (f *followed[T]) run(ctx context.Context) {
	var running sync.WaitGroup
	for range readers {
		running.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case name := <-f.wanted:
					f.refresh(ctx, name)
				}
			}
		})
	}
	running.Wait()
}

func (f *followed[T]) refresh(ctx context.Context, name string) {
	f.mu.Lock()
	e := f.known[name]
	if e == nil {
		f.mu.Unlock()
		return
	}
	look := f.begin(ctx, name, e)
	f.mu.Unlock()
	<-look.over
}
