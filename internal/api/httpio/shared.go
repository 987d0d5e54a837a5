package httpio

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// recently is the greatest age of a shared answer when a request for it comes; see MaxAge and Shared.Get.
const recently = time.Second

// MaxAge returns how old an answer the client accepts: max-age of its Cache-Control header, at most recently.
func MaxAge(r *http.Request) (age time.Duration) {
	for _, line := range r.Header["Cache-Control"] {
		for directive := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(directive)), "=")
			switch seconds, err := strconv.ParseUint(value, 10, 31); {
			case name == "no-cache", name == "no-store":
				return 0
			case name == "max-age" && err == nil:
				age = min(time.Duration(seconds)*time.Second, recently)
			}
		}
	}
	return age
}

// Shared caches recent reads of the store, by key. Concurrent callers share one read, and each waits at most as long as
// its own request lasts. The zero Shared is ready for use.
type Shared[K comparable, T any] struct {
	mu sync.Mutex
	of map[K]*reading[T]
}

// reading is a read of the store, under way until done is closed.
type reading[T any] struct {
	done  chan struct{}
	begun time.Time
	value T
	err   error
	// gaveUp is whether the reader's own context ended first.
	gaveUp bool
}

// Get returns a value whose reading began less than age ago, or the value of a reading that is under way, however long
// ago that began: a slow store is not asked twice at a time. Otherwise Get reads. If the caller that reads gives up,
// one of the waiting callers reads instead. At an age of 0 nothing is shared.
func (s *Shared[K, T]) Get(
	ctx context.Context, key K, age time.Duration, read func(context.Context) (T, error),
) (T, error) {
	if age <= 0 {
		return read(ctx)
	}
	for {
		s.mu.Lock()
		r := s.of[key]
		if r == nil || r.over() && time.Since(r.begun) >= age {
			r = &reading[T]{done: make(chan struct{}), begun: time.Now()}
			s.put(key, r, age)
			s.mu.Unlock()
			return s.read(ctx, key, r, read)
		}
		s.mu.Unlock()
		select {
		case <-r.done:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
		if !r.gaveUp {
			return r.value, r.err
		}
	}
}

// put stores a new reading, and drops those that are too old.
func (s *Shared[K, T]) put(key K, r *reading[T], age time.Duration) {
	if s.of == nil {
		s.of = map[K]*reading[T]{}
	}
	for key, old := range s.of {
		if old.over() && time.Since(old.begun) >= age {
			delete(s.of, key)
		}
	}
	s.of[key] = r
}

func (s *Shared[K, T]) read(
	ctx context.Context, key K, r *reading[T], read func(context.Context) (T, error),
) (T, error) {
	r.gaveUp = true // in case read panics
	defer func() {
		if r.gaveUp || r.err != nil {
			s.mu.Lock()
			if s.of[key] == r {
				delete(s.of, key)
			}
			s.mu.Unlock()
		}
		close(r.done)
	}()
	r.value, r.err = read(ctx)
	r.gaveUp = r.err != nil && ctx.Err() != nil
	return r.value, r.err
}

// Forget drops all values.
func (s *Shared[K, T]) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of = nil
}

func (r *reading[T]) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}
