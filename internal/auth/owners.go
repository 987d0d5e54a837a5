package auth

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/rules"
)

// Owners returns which app owns a queue, and the app's share of the handlers. Drainers use it. It reads only apps.
// Until the store was read, no app has a share, and owners are unknown.
type Owners struct {
	replica *replica
	index   atomic.Pointer[ownerIndex]
	asked   chan struct{} // closed after the first poll
	once    sync.Once
	of      *view // the view and revision of the index
	after   int64
}

// NewOwners returns the Owners of a store. Read errors go to log; nil discards them.
func NewOwners(store document.Documents, log *slog.Logger) *Owners {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Owners{replica: newReplica(store, log), asked: make(chan struct{})}
	s.replica.only = KindApp
	return s
}

// Run follows the store until ctx ends. While the store does not answer, the last known state stays valid. Call it
// once.
func (s *Owners) Run(ctx context.Context) error {
	s.replica.follow(ctx, s.refresh)
	return nil
}

// Wait waits for the first poll of the store, whether it succeeds or not, or until ctx ends.
func (s *Owners) Wait(ctx context.Context) {
	select {
	case <-s.asked:
	case <-ctx.Done():
	}
}

// Share is a drain.AppOf.
func (s *Owners) Share(name string) (app string, share float64) {
	if of := s.index.Load().of(name); of != nil && of.Limits.Handlers > 0 {
		return of.Name, of.Limits.Handlers
	}
	return "", 0
}

// ErrOwnersUnread is the error of Owners until the store was read, for a moment after the process started.
var ErrOwnersUnread = errors.New("the apps of the store have not been read yet")

// App returns the app that owns a queue, or rules.OperatorApp. It returns an error until the store was read.
func (s *Owners) App(name string) (string, error) {
	x := s.index.Load()
	if x == nil {
		return "", ErrOwnersUnread
	}
	if of := x.of(name); of != nil {
		return of.Name, nil
	}
	return rules.OperatorApp, nil
}

// Permitted returns the app that owns a queue, whose PermitTarget checks the queue's targets. For the operator's queues
// it returns nil, which permits everything. It returns an error until the store was read.
func (s *Owners) Permitted(name string) (*App, error) {
	x := s.index.Load()
	if x == nil {
		return nil, ErrOwnersUnread
	}
	return x.of(name), nil
}

// refresh is called after each poll.
func (s *Owners) refresh() {
	defer s.once.Do(func() { close(s.asked) })
	s.replica.mu.RLock()
	defer s.replica.mu.RUnlock()
	if r := s.replica; r.loaded && (s.of != r.view || s.after != r.after) {
		s.of, s.after = r.view, r.after
		s.index.Store(indexOwners(r.view.apps))
	}
}

// ownerIndex finds the app that owns a name. No two apps own the same name.
type ownerIndex struct {
	exact, stems map[string]*App // stems are the prefixes that end in a star, without the star
	lengths      []int           // lengths of the stems
}

func indexOwners(apps map[string]*App) *ownerIndex {
	x := &ownerIndex{exact: map[string]*App{}, stems: map[string]*App{}}
	for _, app := range apps {
		for _, p := range app.Prefixes {
			stem, star := strings.CutSuffix(p, "*")
			if !star {
				x.exact[p] = app
				continue
			}
			x.stems[stem] = app
			if !slices.Contains(x.lengths, len(stem)) {
				x.lengths = append(x.lengths, len(stem))
			}
		}
	}
	return x
}

// of returns the app that owns a name. It is called for each departing job. A nil index knows no app.
func (x *ownerIndex) of(name string) *App {
	if x == nil || len(x.exact)+len(x.stems) == 0 {
		return nil
	}
	if app := x.exact[name]; app != nil {
		return app
	}
	if app := x.exact[names.Parent(name)]; app != nil {
		return app
	}
	for _, n := range x.lengths {
		if n <= len(name) {
			if app := x.stems[name[:n]]; app != nil {
				return app
			}
		}
	}
	return nil
}
