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

// How the copy is kept.
const (
	pollEvery   = time.Second
	pollTimeout = 2 * time.Second
	// refreshGap lies between two polls that unknown tokens ask for, however many come.
	refreshGap = 100 * time.Millisecond
	// refreshWait is the longest that a request waits for one.
	refreshWait = 3 * time.Second
	// reloadAfter is how long after it was last whole a copy is read anew, since it may have missed that something was
	// deleted.
	reloadAfter = document.KeepDeleted / 2
	// mostRestarts of the store while it is read end the attempt.
	mostRestarts = 3
)

// replica is a copy of the store's documents that follows it. Polling, it is at most about pollEvery behind; and who
// misses something asks for a poll at once.
type replica struct {
	store document.Documents
	log   *slog.Logger
	only  string // the one kind that is kept; empty is all of them

	mu     sync.RWMutex
	view   *view
	loaded bool
	good   time.Time // when the last poll began that the store answered
	last   time.Time // when the last one began
	next   *poll     // the one that has not begun

	wanted chan struct{} // that somebody waits for the next

	polling sync.Mutex // held by who polls
	after   int64
	run     string
	failing bool
}

// poll is one that is to come, or under way.
type poll struct {
	done chan struct{}
	err  error // once it is done
}

func newReplica(store document.Documents, log *slog.Logger) *replica {
	return &replica{store: store, log: log, view: newView(), next: newPoll(), wanted: make(chan struct{}, 1)}
}

func newPoll() *poll { return &poll{done: make(chan struct{})} }

// follow polls until ctx ends, and calls polled after each.
func (r *replica) follow(ctx context.Context, polled func()) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		_ = r.poll(ctx) // it says itself what is amiss
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

// refresh waits for a poll that begins after it was called.
func (r *replica) refresh(ctx context.Context) error {
	r.mu.RLock()
	next := r.next
	r.mu.RUnlock()
	select {
	case r.wanted <- struct{}{}:
	default: // somebody else has asked
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

// poll reads what was written since the last one. Its error is an engine's.
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
			r.log.Warn("apps and tokens cannot be read; what is known holds for a while", "for", Grace, "error", this.err)
		} else {
			r.log.Info("apps and tokens can be read")
		}
	}
	return this.err
}

// pull reads all that was written behind what is known; to reload, all there is, which then takes the place of what is
// known.
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
		if page.Run != run && (after != 0 || !reload) { // what we have may be what it has lost
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
			for id, held := range into.tokens { // or all of them were used anew
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
			r.log.Error("a document cannot be read; it is as if it were deleted", "error", err)
		}
	}
}

// learn takes in what was just read or written, before a poll tells of it.
func (r *replica) learn(d document.Document) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.apply(r.view, []document.Document{d})
}

// state is nil while what is known can be relied on, and otherwise what is amiss. It is called with mu held.
func (r *replica) state(now time.Time) *Refusal {
	switch {
	case !r.loaded:
		return refuse(Unavailable, "apps and tokens have not been read yet")
	case now.Sub(r.good) > Grace:
		return refuse(Unavailable, "apps and tokens were last read more than "+Grace.String()+" ago")
	}
	return nil
}

// errNotHere is for what may be in the store, and not yet in the copy.
var errNotHere = errors.New("auth: not in the copy")

// usable is nil while something can be looked up. Before all was read it is errNotHere: it may be there in a moment.
// It is called with mu held.
func (r *replica) usable(now time.Time) error {
	if !r.loaded {
		return errNotHere
	}
	if refusal := r.state(now); refusal != nil {
		return refusal
	}
	return nil
}

// age is how long ago the store last answered, since 1970 if it never has.
func (r *replica) age(now time.Time) time.Duration {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.good.IsZero() {
		return now.Sub(time.Unix(0, 0))
	}
	return now.Sub(r.good)
}
