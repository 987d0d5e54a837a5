package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/quote"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/status"
)

// recently is how old an answer may be that many share; see mayBeOld.
const recently = time.Second

// mayBeOld is how old whoever asks lets an answer be: as the header Cache-Control says by max-age, up to recently.
func mayBeOld(r *http.Request) (age time.Duration) {
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

// shared is what was lately read of the store, by a key: those who ask at the same time wait for one reading, each as
// long as its own request lasts.
type shared[K comparable, T any] struct {
	mu sync.Mutex
	of map[K]*reading[T]
}

// reading is one that is under way until done is closed.
type reading[T any] struct {
	done  chan struct{}
	begun time.Time
	value T
	err   error
	// gaveUp is whether whoever read did not wait for it.
	gaveUp bool
}

// get returns what was read within an age, or reads it. If whoever reads gives up, one of those who wait does. At an
// age of 0 nothing is shared.
func (s *shared[K, T]) get(
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

// put begins a reading, and forgets those that are too old.
func (s *shared[K, T]) put(key K, r *reading[T], age time.Duration) {
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

func (s *shared[K, T]) read(
	ctx context.Context, key K, r *reading[T], read func(context.Context) (T, error),
) (T, error) {
	r.gaveUp = true // should it panic
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

// forget has everything read anew.
func (s *shared[K, T]) forget() {
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

// looks are what is shared of single queues and rules.
type looks struct {
	infos      shared[seenAs, queue.Info]
	timetables shared[timetableOf, quote.Timetable]
	rules      shared[string, rules.Info]
}

// seenAs is a queue as it was when all were last read. Who was told that this changed is not shown what was before.
type seenAs struct {
	queue    string
	revision int64
	code     status.Code
	full     bool
}

func (h *handler) seenAs(name string) seenAs {
	s := seenAs{queue: name}
	if row := h.o.Survey.Latest().Row(name); row != nil {
		s.revision, s.code, s.full = row.Revision, row.Status.Code, row.Status.Full
	}
	return s
}

type timetableOf struct {
	seenAs
	span time.Duration
}

// forget has everything read anew: something was changed.
func (l *looks) forget() {
	l.infos.forget()
	l.timetables.forget()
	l.rules.forget()
}
