package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue"
)

// Timing of the copy.
const (
	pollEvery   = time.Second
	pollTimeout = 2 * time.Second
	// refreshGap is the least time between two polls because of unknown tokens.
	refreshGap = 100 * time.Millisecond
	// refreshWait is how long a request waits for such a poll.
	refreshWait = 3 * time.Second
	// reloadAfter is the age at which the copy is read again from the start, since it may have missed deletions.
	reloadAfter = document.KeepDeleted / 2
	// mostRestarts is how many restarts of the store end a read.
	mostRestarts = 3
)

// replica is a copy of the store's documents that follows the store. It polls, so it lags by about pollEvery. A lookup
// that misses something asks for a poll at once.
type replica struct {
	store document.Documents
	log   *slog.Logger
	only  string // the only kind to keep; empty means all

	mu     sync.RWMutex
	view   *view
	loaded bool
	good   time.Time // start of the last successful poll
	last   time.Time // start of the last poll
	next   *poll     // the next poll, not begun

	wanted chan struct{} // signals that a caller waits for the next poll

	polling sync.Mutex // held during a poll
	after   int64
	run     string
	failing bool
}

// poll is a future or current poll.
type poll struct {
	done chan struct{}
	err  error // set before done is closed
}

func newReplica(store document.Documents, log *slog.Logger) *replica {
	return &replica{store: store, log: log, view: newView(), next: newPoll(), wanted: make(chan struct{}, 1)}
}

func newPoll() *poll { return &poll{done: make(chan struct{})} }

// follow polls until ctx ends, and calls polled after each poll.
func (r *replica) follow(ctx context.Context, polled func()) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		_ = r.poll(ctx) // poll logs its own errors
		polled()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.wanted:
			r.mu.RLock()
			wait := time.Until(r.last.Add(refreshGap))
			r.mu.RUnlock()
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		}
	}
}

// refresh waits for a poll that begins after the call.
func (r *replica) refresh(ctx context.Context) error {
	r.mu.RLock()
	next := r.next
	r.mu.RUnlock()
	select {
	case r.wanted <- struct{}{}:
	default: // already requested
	}
	ctx, cancel := context.WithTimeout(ctx, refreshWait)
	defer cancel()
	select {
	case <-next.done:
		return next.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// poll reads the changes since the last poll. Its error is an engine's.
func (r *replica) poll(ctx context.Context) error {
	r.polling.Lock()
	defer r.polling.Unlock()
	began := time.Now()
	r.mu.Lock()
	this := r.next
	r.next, r.last = newPoll(), began
	reload := !r.loaded || began.Sub(r.good) > reloadAfter
	r.mu.Unlock()

	this.err = r.pull(ctx, reload)
	if this.err == nil {
		r.mu.Lock()
		r.good = began
		r.mu.Unlock()
	}
	close(this.done)
	if failing := this.err != nil; failing != r.failing && ctx.Err() == nil {
		r.failing = failing
		if failing {
			r.log.Warn("apps and tokens cannot be read; the known ones stay valid for a while", "for", Grace, "error", this.err)
		} else {
			r.log.Info("apps and tokens can be read again")
		}
	}
	return this.err
}

// pull reads all changes since the last poll. To reload, it reads all documents, which then replace the copy.
func (r *replica) pull(ctx context.Context, reload bool) error {
	into, after, run := r.view, r.after, r.run
	if reload {
		into, after = newView(), 0
	}
	for restarts := 0; restarts < mostRestarts; {
		page, err := r.page(ctx, after)
		if err != nil {
			return err
		}
		if page.Run != run && (after != 0 || !reload) { // the copy may have what the store lost
			into, after, reload = newView(), 0, true
			restarts++
			continue
		}
		run = page.Run
		if reload {
			r.apply(into, page.Documents)
		} else {
			r.mu.Lock()
			r.apply(into, page.Documents)
			r.mu.Unlock()
		}
		if n := len(page.Documents); n > 0 {
			after = page.Documents[n-1].Revision
		}
		if page.More && len(page.Documents) > 0 {
			continue
		}
		r.mu.Lock()
		if reload {
			for id, held := range into.tokens { // or all would count as used again
				if old := r.view.tokens[id]; old != nil {
					held.used.Store(old.used.Load())
				}
			}
		}
		r.view, r.loaded, r.after, r.run = into, true, after, run
		r.mu.Unlock()
		return nil
	}
	return fmt.Errorf("%w: it was restarted %d times while it was read", queue.ErrUnavailable, mostRestarts)
}

func (r *replica) page(ctx context.Context, after int64) (document.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	return r.store.DocumentsSince(ctx, after, document.MaxPage)
}

func (r *replica) apply(into *view, documents []document.Document) {
	now := time.Now()
	for i := range documents {
		if r.only != "" && documents[i].Kind != r.only {
			continue
		}
		if err := into.apply(&documents[i], now); err != nil {
			r.log.Error("a document cannot be read; it is treated as deleted", "error", err)
		}
	}
}

// learn applies a document that was just read or written, before a poll returns it.
func (r *replica) learn(d document.Document) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.apply(r.view, []document.Document{d})
}

// state returns nil while the copy is reliable, otherwise a refusal. r.mu is held.
func (r *replica) state(now time.Time) *Refusal {
	switch {
	case !r.loaded:
		return refuse(Unavailable, "apps and tokens have not been read yet")
	case now.Sub(r.good) > Grace:
		return refuse(Unavailable, "apps and tokens were last read more than "+Grace.String()+" ago")
	}
	return nil
}

// errNotHere means that something may be in the store, but is not yet in the copy.
var errNotHere = errors.New("auth: not in the copy")

// usable returns nil while the copy can be used. Before the first complete poll it returns errNotHere. r.mu is held.
func (r *replica) usable(now time.Time) error {
	if !r.loaded {
		return errNotHere
	}
	if refusal := r.state(now); refusal != nil {
		return refusal
	}
	return nil
}

// age returns the time since the store last answered, or since 1970 if it never has.
func (r *replica) age(now time.Time) time.Duration {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.good.IsZero() {
		return now.Sub(time.Unix(0, 0))
	}
	return now.Sub(r.good)
}
