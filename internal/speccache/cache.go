// Package speccache remembers what a store says of its queues and rules, for those who need it with every job: the
// overflow, the targets, the rules and the drainers.
//
// It promises that of many who want the same name one reads it, that nobody who leaves early ends that read for the
// others, and that what was read stays known, however old, while the store does not answer. A name under which there
// is nothing takes no room, so that nobody can push out what is in use by asking for what is not.
//
// It refuses to watch the store: a change is seen when what is known has become too old, or when a caller names the
// revision that it needs.
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
	// maxReaders is how many names are read at once in the background, and maxPending how many wait for that.
	maxReaders = 4
	maxPending = 1024
	// samples is how many entries are looked at to find an old one to forget.
	samples = 8
)

// ErrClosed is answered by a Cache that was closed and would have to read.
var ErrClosed = errors.New("the cache is closed")

// Options of a Cache. Zero fields mean what is said beside them.
type Options[T any] struct {
	// Read asks the store for a name, and for the revision of what it returns, 0 where that does not matter. It is
	// called from many goroutines.
	Read func(ctx context.Context, name string) (value T, revision int64, err error)
	// ReadMany does so for many names, and returns what there is of them. Expect needs it.
	ReadMany func(ctx context.Context, names []string) (map[string]Value[T], error)
	// Missing is Read's error of a name under which there is nothing: queue.ErrUnknownQueue.
	Missing error
	// Patience bounds one Read.
	Patience time.Duration
	// MaxAge is how old a value may be that Get returns without reading it again.
	MaxAge time.Duration
	// FailureAge is how long Get repeats the failure to read a name of which nothing is known: 0, each reads anew.
	FailureAge time.Duration
	// Max is how many names are remembered: 10,000.
	Max int
}

// Value is what a store says of a name, and the revision of that.
type Value[T any] struct {
	Value    T
	Revision int64
}

// Cache remembers values by name. It is safe for use by many goroutines.
type Cache[T any] struct {
	o       Options[T]
	ctx     context.Context // of reads: they belong to all who wait for them
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.RWMutex
	entries map[string]*entry[T]
	pending []string // to be read in the background
	readers int      // goroutines that do so
	closed  bool
}

// entry is what is known of a name. Cache.mu guards it.
type entry[T any] struct {
	value    T
	revision int64
	known    bool  // value was read once
	err      error // why the last read failed, if nothing is known
	readAt   time.Time
	read     *read[T] // the one under way
	pending  bool
}

// read is one call of Read, for all who wait for it.
type read[T any] struct {
	done  chan struct{} // closed when it has ended
	found entry[T]      // what is known then
	err   error         // Read's
}

// New returns an empty Cache. It needs no Close unless its reads must not outlive something.
func New[T any](o Options[T]) *Cache[T] {
	if o.Missing == nil {
		o.Missing = queue.ErrUnknownQueue
	}
	if o.Max == 0 {
		o.Max = defaultMax
	}
	c := &Cache[T]{o: o, entries: map[string]*entry[T]{}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// Get returns the value of a name, at most MaxAge old, or twice that while somebody is reading it. While the store does
// not answer it returns what was known last. Errors: Missing, ctx's, ErrClosed, or Read's if nothing is known.
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
	case r.found.known:
		return r.found.value, nil
	}
	return none, r.err
}

// fresh reports whether what is known is good enough for Get. mu is held.
func (c *Cache[T]) fresh(name string, now time.Time) (value T, fresh bool, err error) {
	e := c.entries[name]
	if e == nil {
		return value, false, nil
	}
	age := now.Sub(e.readAt)
	if !e.known {
		return value, e.err != nil && age < c.o.FailureAge, e.err
	}
	return e.value, age < c.o.MaxAge || e.read != nil && age < 2*c.o.MaxAge, nil
}

// AtLeast returns the value of a name at a revision or a later one, however old. Revisions of a name only grow, so that
// one read serves all until the next change. Errors: as of Get; a failed read has failed for all who waited for it.
func (c *Cache[T]) AtLeast(ctx context.Context, name string, revision int64) (T, error) {
	for {
		if value, at, ok := c.Known(name); ok && at >= revision {
			return value, nil
		}
		c.mu.Lock()
		if e := c.entries[name]; e != nil && e.known && e.revision >= revision { // read meanwhile
			value := e.value
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
		case mine: // else it may have begun before the change
			return r.found.value, nil
		}
	}
}

// Expect reads, in one background call, the names that are not known at these revisions. AtLeast waits for that call.
func (c *Cache[T]) Expect(revisions map[string]int64) {
	reads, wanted := map[string]*entry[T]{}, []string(nil)
	c.mu.Lock()
	for name, revision := range revisions {
		if e := c.entries[name]; e != nil && (e.read != nil || e.known && e.revision >= revision) {
			continue
		}
		if c.closed || names.Validate(name) != nil {
			continue
		}
		e := c.add(name)
		e.read = &read[T]{done: make(chan struct{})}
		reads[name], wanted = e, append(wanted, name)
	}
	if len(wanted) > 0 {
		c.running.Go(func() { c.runMany(wanted, reads) })
	}
	c.mu.Unlock()
}

// runMany reads names.
func (c *Cache[T]) runMany(wanted []string, entries map[string]*entry[T]) {
	ctx, cancel := context.WithTimeout(c.ctx, c.o.Patience)
	values, err := c.o.ReadMany(ctx, wanted)
	cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, e := range entries {
		v, ok := values[name]
		failed := err
		if err == nil && !ok {
			failed = fmt.Errorf("%s: %w", name, c.o.Missing)
		}
		c.end(name, e, e.read, v, failed)
	}
}

// Known returns what is known of a name, however old, and asks nobody.
func (c *Cache[T]) Known(name string) (value T, revision int64, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if e := c.entries[name]; e != nil {
		return e.value, e.revision, e.known
	}
	return value, 0, false
}

// Refresh has a name read in the background if it was not for so long. It does not block.
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
		return // the next use will do
	}
	c.add(name).pending = true
	c.pending = append(c.pending, name)
	if c.readers < maxReaders {
		c.readers++
		c.running.Go(c.readPending)
	}
}

// due reports whether a name is to be read in the background. mu is held.
func (c *Cache[T]) due(name string, now time.Time, age time.Duration) bool {
	e := c.entries[name]
	return e == nil || !e.pending && e.read == nil && now.Sub(e.readAt) >= age
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
		if e := c.entries[name]; e != nil && e.pending { // else it was read meanwhile
			r, _, _ = c.begin(c.ctx, name)
		}
		c.mu.Unlock()
		if r != nil {
			<-r.done
		}
	}
}

// Forget drops what is known of a name. A read under way answers those who wait for it, and nobody else.
func (c *Cache[T]) Forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, name)
}

// Len is how many names are remembered.
func (c *Cache[T]) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.entries)
}

// Close ends the reads under way, and waits for them. What is known stays known.
func (c *Cache[T]) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.running.Wait()
}

// begin returns the read of a name that is under way, or a new one, which is mine then. mu is held.
func (c *Cache[T]) begin(ctx context.Context, name string) (r *read[T], mine bool, err error) {
	e := c.entries[name]
	switch {
	case ctx.Err() != nil:
		return nil, false, ctx.Err()
	case c.closed:
		return nil, false, ErrClosed
	case e == nil && names.Validate(name) != nil:
		return nil, false, c.o.Missing
	case e == nil:
		e = c.add(name)
	}
	if e.read == nil {
		mine = true
		e.read = &read[T]{done: make(chan struct{})}
		c.running.Go(func() { c.run(name, e, e.read) })
	}
	return e.read, mine, nil
}

// run reads a name.
func (c *Cache[T]) run(name string, e *entry[T], r *read[T]) {
	ctx, cancel := context.WithTimeout(c.ctx, c.o.Patience)
	value, revision, err := c.o.Read(ctx, name)
	cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(name, e, r, Value[T]{value, revision}, err)
}

// end takes in what a read found. mu is held.
func (c *Cache[T]) end(name string, e *entry[T], r *read[T], v Value[T], err error) {
	defer close(r.done)
	missing := errors.Is(err, c.o.Missing)
	switch {
	case err == nil:
		*e = entry[T]{value: v.Value, revision: v.Revision, known: true}
	case missing || !e.known:
		*e = entry[T]{err: err}
		if c.entries[name] == e && (missing || c.o.FailureAge == 0) {
			delete(c.entries, name)
		}
	default: // what is known stays so, however old
		e.read, e.pending = nil, false
	}
	e.readAt = time.Now()
	r.found, r.err = *e, err
}

// wait blocks until a read has ended.
func (r *read[T]) wait(ctx context.Context) error {
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// add returns the entry of a name. Where there are too many, one that was not read for long is forgotten. mu is held.
func (c *Cache[T]) add(name string) *entry[T] {
	e := c.entries[name]
	if e != nil {
		return e
	}
	if len(c.entries) >= c.o.Max {
		oldest, left := "", samples
		for other, o := range c.entries { // in no order
			if oldest == "" || o.readAt.Before(c.entries[oldest].readAt) {
				oldest = other
			}
			if left--; left == 0 {
				break
			}
		}
		delete(c.entries, oldest)
	}
	e = &entry[T]{readAt: time.Now()}
	c.entries[name] = e
	return e
}
