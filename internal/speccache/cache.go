// Package speccache caches the specs of queues and the rules for code that needs them with every job: the overflow,
// the targets, the rules and the drainers.
//
// It promises that concurrent callers share one read of a name, and that a caller who leaves early does not end that
// read for the others. Values stay known, however old, while the store does not answer. Unknown names take no room, so
// that asking for them cannot push out names in use.
//
// It does not watch the store: it notices a change when its value is too old, or when a caller names the revision it
// needs.
package speccache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

const (
	defaultMax = 10_000
	// maxReaders is how many names are read at once in the background, and maxPending how many wait for it.
	maxReaders = 4
	maxPending = 1024
	// samples is how many values are compared to find an old one to forget.
	samples = 8
)

// ErrClosed is the error of a closed Cache that would have to read.
var ErrClosed = errors.New("the cache is closed")

// Options of a Cache. Zero fields mean the documented defaults.
type Options[T any] struct {
	// Read reads a name from the store, and its revision, or 0 if revisions do not matter. It is called concurrently.
	Read func(ctx context.Context, name string) (value T, revision int64, err error)
	// ReadMany does so for many names and returns those that exist. Expect needs it.
	ReadMany func(ctx context.Context, names []string) (map[string]Value[T], error)
	// Missing is Read's error for a name that does not exist. The default is queue.ErrUnknownQueue.
	Missing error
	// Patience limits each Read.
	Patience time.Duration
	// MaxAge is the maximum age of a value that Get returns without reading it again.
	MaxAge time.Duration
	// FailureAge is how long Get repeats the error of a failed read if no value is known. The default is 0: always
	// read.
	FailureAge time.Duration
	// Max is the maximum number of names. The default is 10,000.
	Max int
}

// Value is a value and its revision.
type Value[T any] struct {
	Value    T
	Revision int64
}

// Cache caches values by name. It is safe for concurrent use.
type Cache[T any] struct {
	o       Options[T]
	ctx     context.Context // of reads, which belong to all their waiters
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.RWMutex
	names   map[string]*known[T]
	pending []string // to be read in the background
	readers int      // goroutines that read them
	closed  bool
}

// known is what the cache knows of a name. Cache.mu guards it.
type known[T any] struct {
	value    T
	revision int64
	valid    bool  // value was read once
	err      error // of the last read, if no value is known
	readAt   time.Time
	read     *read[T] // in progress
	pending  bool
}

// read is one call of Read for all its waiters.
type read[T any] struct {
	ended chan struct{} // closed when it has ended
	found known[T]      // the result
	err   error         // Read's
}

// New returns an empty Cache. Close is only needed if its reads must not outlive something.
func New[T any](o Options[T]) *Cache[T] {
	if o.Missing == nil {
		o.Missing = queue.ErrUnknownQueue
	}
	if o.Max == 0 {
		o.Max = defaultMax
	}
	c := &Cache[T]{o: o, names: map[string]*known[T]{}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// Get returns the value of a name, at most MaxAge old, or twice that while it is being read. While the store does not
// answer it returns the last known value. Errors: Missing, ctx's, ErrClosed, or Read's if no value is known.
func (c *Cache[T]) Get(ctx context.Context, name string) (T, error) {
	now := time.Now()
	c.mu.RLock()
	value, fresh, err := c.fresh(name, now)
	c.mu.RUnlock()
	if fresh {
		return value, err
	}
	c.mu.Lock()
	if value, fresh, err = c.fresh(name, now); fresh { // read meanwhile
		c.mu.Unlock()
		return value, err
	}
	r, _, err := c.begin(ctx, name)
	c.mu.Unlock()
	if err == nil {
		err = r.wait(ctx)
	}
	var none T
	switch {
	case err != nil:
		return none, err
	case r.found.valid:
		return r.found.value, nil
	}
	return none, r.err
}

// fresh reports whether the known value is good enough for Get. mu is held.
func (c *Cache[T]) fresh(name string, now time.Time) (value T, fresh bool, err error) {
	k := c.names[name]
	if k == nil {
		return value, false, nil
	}
	age := now.Sub(k.readAt)
	if !k.valid {
		return value, k.err != nil && age < c.o.FailureAge, k.err
	}
	return k.value, age < c.o.MaxAge || k.read != nil && age < 2*c.o.MaxAge, nil
}

// AtLeast returns the value of a name at a revision or a later one, however old. Revisions of a name only grow, so one
// read serves everyone until the next change. Errors: as Get; a failed read fails for all its waiters.
func (c *Cache[T]) AtLeast(ctx context.Context, name string, revision int64) (T, error) {
	for {
		if value, at, ok := c.Known(name); ok && at >= revision {
			return value, nil
		}
		c.mu.Lock()
		if k := c.names[name]; k != nil && k.valid && k.revision >= revision { // read meanwhile
			value := k.value
			c.mu.Unlock()
			return value, nil
		}
		r, mine, err := c.begin(ctx, name)
		c.mu.Unlock()
		if err == nil {
			err = r.wait(ctx)
		}
		if err == nil {
			err = r.err
		}
		switch {
		case err != nil:
			var none T
			return none, err
		case mine: // otherwise it may have started before the change
			return r.found.value, nil
		}
	}
}

// Expect starts one background call for the names not known at these revisions. AtLeast waits for that call.
func (c *Cache[T]) Expect(revisions map[string]int64) {
	reads, wanted := map[string]*known[T]{}, []string(nil)
	c.mu.Lock()
	for name, revision := range revisions {
		if k := c.names[name]; k != nil && (k.read != nil || k.valid && k.revision >= revision) {
			continue
		}
		if c.closed || names.Validate(name) != nil {
			continue
		}
		k := c.add(name)
		k.read = &read[T]{ended: make(chan struct{})}
		reads[name], wanted = k, append(wanted, name)
	}
	if len(wanted) > 0 {
		c.running.Go(func() { c.runMany(wanted, reads) })
	}
	c.mu.Unlock()
}

// runMany reads names.
func (c *Cache[T]) runMany(wanted []string, reads map[string]*known[T]) {
	ctx, cancel := context.WithTimeout(c.ctx, c.o.Patience)
	values, err := c.o.ReadMany(ctx, wanted)
	cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, k := range reads {
		v, ok := values[name]
		failed := err
		if err == nil && !ok {
			failed = fmt.Errorf("%s: %w", name, c.o.Missing)
		}
		c.end(name, k, k.read, v, failed)
	}
}

// Known returns the known value of a name, however old, without reading.
func (c *Cache[T]) Known(name string) (value T, revision int64, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if k := c.names[name]; k != nil {
		return k.value, k.revision, k.valid
	}
	return value, 0, false
}

// Refresh reads a name in the background unless that was done within age. It does not block.
func (c *Cache[T]) Refresh(name string, age time.Duration) {
	now := time.Now()
	c.mu.RLock()
	due := c.due(name, now, age)
	c.mu.RUnlock()
	if !due || names.Validate(name) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.pending) >= maxPending || !c.due(name, now, age) {
		return // left to the next use
	}
	c.add(name).pending = true
	c.pending = append(c.pending, name)
	if c.readers < maxReaders {
		c.readers++
		c.running.Go(c.readPending)
	}
}

// due reports whether to read a name in the background. mu is held.
func (c *Cache[T]) due(name string, now time.Time, age time.Duration) bool {
	k := c.names[name]
	return k == nil || !k.pending && k.read == nil && now.Sub(k.readAt) >= age
}

func (c *Cache[T]) readPending() {
	for {
		c.mu.Lock()
		if len(c.pending) == 0 || c.closed {
			c.readers--
			c.mu.Unlock()
			return
		}
		name := c.pending[0]
		c.pending = c.pending[1:]
		var r *read[T]
		if k := c.names[name]; k != nil && k.pending { // otherwise it was read meanwhile
			r, _, _ = c.begin(c.ctx, name)
		}
		c.mu.Unlock()
		if r != nil {
			<-r.ended
		}
	}
}

// Forget drops the value of a name. A read in progress answers only its present waiters.
func (c *Cache[T]) Forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.names, name)
}

// Len returns how many names are cached.
func (c *Cache[T]) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.names)
}

// Close cancels the reads in progress and waits for them. Known values stay.
func (c *Cache[T]) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.running.Wait()
}

// begin returns the read of a name in progress, or starts one; mine says which. mu is held.
func (c *Cache[T]) begin(ctx context.Context, name string) (r *read[T], mine bool, err error) {
	k := c.names[name]
	switch {
	case ctx.Err() != nil:
		return nil, false, ctx.Err()
	case c.closed:
		return nil, false, ErrClosed
	case k == nil && names.Validate(name) != nil:
		return nil, false, c.o.Missing
	case k == nil:
		k = c.add(name)
	}
	if k.read == nil {
		mine = true
		k.read = &read[T]{ended: make(chan struct{})}
		c.running.Go(func() { c.run(name, k, k.read) })
	}
	return k.read, mine, nil
}

// run reads a name.
func (c *Cache[T]) run(name string, k *known[T], r *read[T]) {
	ctx, cancel := context.WithTimeout(c.ctx, c.o.Patience)
	value, revision, err := c.o.Read(ctx, name)
	cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(name, k, r, Value[T]{value, revision}, err)
}

// end records the result of a read. mu is held.
func (c *Cache[T]) end(name string, k *known[T], r *read[T], v Value[T], err error) {
	defer close(r.ended)
	missing := errors.Is(err, c.o.Missing)
	switch {
	case err == nil:
		*k = known[T]{value: v.Value, revision: v.Revision, valid: true}
	case missing || !k.valid:
		*k = known[T]{err: err}
		if c.names[name] == k && (missing || c.o.FailureAge == 0) {
			delete(c.names, name)
		}
	default: // keep the known value, however old
		k.read, k.pending = nil, false
	}
	k.readAt = time.Now()
	r.found, r.err = *k, err
}

// wait blocks until a read has ended.
func (r *read[T]) wait(ctx context.Context) error {
	select {
	case <-r.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// add returns what is known of a name. If there are too many names it forgets an old one. mu is held.
func (c *Cache[T]) add(name string) *known[T] {
	k := c.names[name]
	if k != nil {
		return k
	}
	if len(c.names) >= c.o.Max {
		oldest, left := "", samples
		for other, o := range c.names { // in no order
			if oldest == "" || o.readAt.Before(c.names[oldest].readAt) {
				oldest = other
			}
			if left--; left == 0 {
				break
			}
		}
		delete(c.names, oldest)
	}
	k = &known[T]{readAt: time.Now()}
	c.names[name] = k
	return k
}
