package auth

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/penstock/penstock/queue"
)

// HandlerShares tells a drainer which apps share its handlers. It knows of nothing but apps. Before Run is called, and
// until the store was read, no app has a bound.
type HandlerShares struct {
	replica *replica
	index   atomic.Pointer[shareIndex]
	asked   chan struct{} // closed when the store was asked for the first time
	once    sync.Once
	of      *view // the index is of this one, up to a revision
	after   int64
}

// NewHandlerShares returns HandlerShares of a store. Log is told when that cannot be read; nil is nobody.
func NewHandlerShares(store queue.Documents, log *slog.Logger) *HandlerShares {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &HandlerShares{replica: newReplica(store, log), asked: make(chan struct{})}
	s.replica.only = KindApp
	s.index.Store(&shareIndex{})
	return s
}

// Run follows the store until ctx ends. What was known holds while it does not answer. Call it once.
func (s *HandlerShares) Run(ctx context.Context) error {
	s.replica.follow(ctx, s.refresh)
	return nil
}

// Wait waits until the store was asked, whether it answered or not, or until ctx ends.
func (s *HandlerShares) Wait(ctx context.Context) {
	select {
	case <-s.asked:
	case <-ctx.Done():
	}
}

// Of is a drain.AppOf.
func (s *HandlerShares) Of(name string) (app string, share float64) {
	if of := s.index.Load().of(name); of != nil {
		return of.Name, of.Limits.Handlers
	}
	return "", 0
}

// refresh is called when the store was asked.
func (s *HandlerShares) refresh() {
	defer s.once.Do(func() { close(s.asked) })
	s.replica.mu.RLock()
	defer s.replica.mu.RUnlock()
	if r := s.replica; s.of != r.view || s.after != r.after {
		s.of, s.after = r.view, r.after
		s.index.Store(indexShares(r.view.apps))
	}
}

// shareIndex finds the app that has names of a prefix. No two apps have prefixes with a name in common.
type shareIndex struct {
	prefixes map[string]*App
	stems    []int // how long those are that end in a star
}

func indexShares(apps map[string]*App) *shareIndex {
	x := &shareIndex{prefixes: map[string]*App{}}
	for _, app := range apps {
		if app.Limits.Handlers == 0 {
			continue
		}
		for _, p := range app.Prefixes {
			x.prefixes[p] = app
			if stem, star := strings.CutSuffix(p, "*"); star && !slices.Contains(x.stems, len(stem)) {
				x.stems = append(x.stems, len(stem))
			}
		}
	}
	return x
}

func (x *shareIndex) of(name string) *App {
	if len(x.prefixes) == 0 {
		return nil
	}
	if app := x.prefixes[name]; app != nil {
		return app
	}
	if app := x.prefixes[queue.Parent(name)]; app != nil {
		return app
	}
	for _, n := range x.stems {
		if n <= len(name) {
			if app := x.prefixes[name[:n]+"*"]; app != nil {
				return app
			}
		}
	}
	return nil
}
