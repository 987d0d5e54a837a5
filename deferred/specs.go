package deferred

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	maxSpecs   = 10_000
	specFresh  = 30 * time.Second
	specWaiter = 1024 // queues that wait to be read
)

// spec is what the overflow needs to know of a queue.
type spec struct {
	overflow string
	window   queue.Window
	read     time.Time
}

func specOf(info queue.Info) spec {
	w, _ := info.Spec.Deferred.Window() // an engine keeps none that is not valid
	return spec{overflow: info.Spec.Overflow, window: w, read: time.Now()}
}

// specs remembers the queues that were used, so that it is known what may wait while the
// engine cannot be asked. One goroutine reads them, behind everybody's back.
type specs struct {
	ask      func(context.Context, string) (queue.Info, error)
	patience time.Duration // of a question
	wanted   chan string

	mu     sync.RWMutex
	known  map[string]spec
	asking map[string]struct{}
}

func newSpecs(ask func(context.Context, string) (queue.Info, error), patience time.Duration) *specs {
	return &specs{ask: ask, patience: patience, wanted: make(chan string, specWaiter), known: map[string]spec{}, asking: map[string]struct{}{}}
}

// use has a queue read that is not known, or was read long ago.
func (s *specs) use(name string) {
	if known, ok := s.get(name); ok && time.Since(known.read) < specFresh {
		return
	}
	if queue.ValidateName(name) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.asking[name]; ok {
		return
	}
	select {
	case s.wanted <- name:
		s.asking[name] = struct{}{}
	default: // the next use will do
	}
}

func (s *specs) get(name string) (spec, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	known, ok := s.known[name]
	return known, ok
}

// opens is how long it is until a queue takes jobs back, by the clock here; 0 if it does
// now, or is not known.
func (s *specs) opens(name string) time.Duration {
	known, ok := s.get(name)
	if !ok {
		return 0
	}
	now := time.Now()
	return known.window.Opens(now).Sub(now)
}

// run reads what is wanted until ctx ends.
func (s *specs) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case name := <-s.wanted:
			s.read(ctx, name)
		}
	}
}

func (s *specs) read(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	info, err := s.ask(ctx, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asking, name)
	if errors.Is(err, queue.ErrUnknownQueue) {
		delete(s.known, name)
		return
	}
	if err != nil {
		return // what is known stays, however old
	}
	if _, ok := s.known[name]; !ok && len(s.known) >= maxSpecs {
		for other := range s.known { // any: it is read again when it is used
			delete(s.known, other)
			break
		}
	}
	s.known[name] = specOf(info)
}
