package auth

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue/invalid"
)

// Grace is how long known tokens, apps and subjects stay valid while the store is unreachable.
const Grace = 15 * time.Minute

// Options are the settings of an Authority. Zero Options accept tokens, certificates and users of this machine.
type Options struct {
	// Log gets warnings and errors. Nil discards them.
	Log *slog.Logger
	// Issuers are the accepted providers of JWTs.
	Issuers []Issuer
}

// Authority authenticates requests and manages apps, tokens and subjects. It works from a copy of the store's
// documents. It is safe for use by many goroutines.
type Authority struct {
	store    document.Documents
	log      *slog.Logger
	replica  *replica
	issuers  map[string]*issuer // by URL
	uses     uses
	counts   []atomic.Int64 // see Code.count
	wrong    wrongTable
	watchers watchers
}

// New returns an Authority. It does not read the store before Run. Its error is an *invalid.Error.
func New(store document.Documents, o Options) (*Authority, error) {
	log := cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	a := &Authority{
		store: store, log: log, replica: newReplica(store, log), issuers: map[string]*issuer{},
		counts: make([]atomic.Int64, len(codes)+1),
	}
	for n, of := range o.Issuers {
		issuer, err := newIssuer(of, log)
		if err != nil {
			return nil, err
		}
		for url, other := range a.issuers {
			if url == of.URL || other.Name == of.Name {
				return nil, &invalid.Error{
					Field: fmt.Sprintf("issuers[%d]", n), Value: of.Name, Reason: "has the same name or URL as another issuer",
				}
			}
		}
		a.issuers[of.URL] = issuer
	}
	return a, nil
}

// Intervals of the background work of Run.
const (
	watchEvery = time.Second
	wrongEvery = time.Minute
	tidyEvery  = time.Hour
	// lastWrites bounds the final writes when Run ends.
	lastWrites = 2 * time.Second
)

// Run keeps the copy up to date until ctx ends. Before and after that, nobody is authenticated. Call it once.
func (a *Authority) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	for _, of := range a.issuers {
		group.Go(func() { of.follow(ctx) })
	}
	group.Go(func() { every(ctx, watchEvery, a.checkWatched) })
	group.Go(func() { every(ctx, wrongEvery, func() { a.wrong.log(a.log) }) })
	group.Go(func() { every(ctx, tidyEvery, func() { a.tidy(ctx) }) })
	a.replica.follow(ctx, a.checkWatched)
	a.wrong.log(a.log)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrites)
	defer cancel()
	a.writeUses(last)
	return nil
}

func every(ctx context.Context, d time.Duration, do func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// Ready returns nil if the copy is complete and recent enough. Its error is a *Refusal with the code Unavailable.
func (a *Authority) Ready() error {
	a.replica.mu.RLock()
	defer a.replica.mu.RUnlock()
	if r := a.replica.state(time.Now()); r != nil {
		return r
	}
	return nil
}
