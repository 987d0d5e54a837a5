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

// Grace is for how long what is known holds while the store is away.
const Grace = 15 * time.Minute

// Options of an Authority. Without any it takes tokens, certificates and users of this machine.
type Options struct {
	// Log is told what is amiss; nil is nobody.
	Log *slog.Logger
	// Issuers are the providers whose JWTs are taken.
	Issuers []Issuer
}

// Authority says who requests come from, by a copy of what the store has, and changes that. It is safe for use by many
// goroutines.
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

// New returns an Authority. It asks nobody before Run. Its error is an *invalid.Error.
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
					Field: fmt.Sprintf("issuers[%d]", n), Value: of.Name, Reason: "has the name or the URL of another one",
				}
			}
		}
		a.issuers[of.URL] = issuer
	}
	return a, nil
}

// How often Run does what can wait.
const (
	watchEvery = time.Second
	wrongEvery = time.Minute
	tidyEvery  = time.Hour
	// lastWrites is how long it may take to write what is left when Run ends.
	lastWrites = 2 * time.Second
)

// Run keeps the copy, until ctx ends. Before it is called, and after, nobody is let in. Call it once.
func (a *Authority) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	for _, of := range a.issuers {
		group.Go(func() { of.follow(ctx) })
	}
	group.Go(func() { every(ctx, watchEvery, a.checkWatched) })
	group.Go(func() { every(ctx, wrongEvery, func() { a.wrong.tell(a.log) }) })
	group.Go(func() { every(ctx, tidyEvery, func() { a.tidy(ctx) }) })
	a.replica.follow(ctx, a.checkWatched)
	a.wrong.tell(a.log)
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

// Ready is nil once all of the store was read, and while what was read holds. Its error is a *Refusal of Unavailable.
func (a *Authority) Ready() error {
	a.replica.mu.RLock()
	defer a.replica.mu.RUnlock()
	if r := a.replica.state(time.Now()); r != nil {
		return r
	}
	return nil
}
