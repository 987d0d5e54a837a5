package drain

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// maxPages bounds the memory of queues drained; beyond it those not used for
	// pageAge are forgotten, at the price of reading their specs again.
	maxPages = 10_000
	pageAge  = time.Minute

	specTimeout = 2 * time.Second

	// grain is how much nearer than their due distance two starts may be whatever
	// that distance: about what a precise timer errs by.
	grain = 100 * time.Microsecond
)

// book remembers, per queue, what a drainer needs from one job to the next.
type book struct {
	get   func(ctx context.Context, name string) (queue.Info, error)
	mu    sync.Mutex
	pages map[string]*page
}

// page is one queue in a drainer's book: its spec, and when its last job
// started.
type page struct {
	name   string
	refs   int       // jobs that use it; guarded by book.mu
	closed time.Time // when the last of them ended; guarded by book.mu

	mu       sync.Mutex
	spec     *queue.Spec
	revision int64
	fetching chan struct{} // closed when the Get under way has ended

	departed time.Time // the latest departure of a job that started
	started  time.Time // when the last job started
	ready    []*run    // those that were told to wait for their distance
}

// open returns the page of a queue, for one job.
func (b *book) open(name string) *page {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.pages[name]
	if p == nil {
		if len(b.pages) >= maxPages {
			b.prune(time.Now())
		}
		p = &page{name: name}
		b.pages[name] = p
	}
	p.refs++
	return p
}

func (b *book) close(p *page) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.refs--
	if p.refs == 0 {
		p.closed = time.Now()
	}
}

func (b *book) prune(now time.Time) {
	for name, p := range b.pages {
		if p.refs == 0 && now.Sub(p.closed) > pageAge {
			delete(b.pages, name)
		}
	}
}

// specAt returns the queue's spec of the revision or a later one. Revisions of a
// name only grow, so one Get serves all jobs until the next change. Old specs are
// not good enough: the job may be for a target that they do not know.
func (b *book) specAt(ctx context.Context, p *page, revision int64) (*queue.Spec, error) {
	for {
		p.mu.Lock()
		if p.spec != nil && p.revision >= revision {
			defer p.mu.Unlock()
			return p.spec, nil
		}
		if under := p.fetching; under != nil {
			p.mu.Unlock()
			select {
			case <-under:
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		done := make(chan struct{})
		p.fetching = done
		p.mu.Unlock()

		info, err := b.fetch(ctx, p.name)
		p.mu.Lock()
		p.fetching = nil
		if err == nil {
			info.Spec.Normalize()
			p.spec, p.revision = &info.Spec, info.Revision
		}
		p.mu.Unlock()
		close(done)
		if err != nil {
			return nil, err
		}
		return &info.Spec, nil
	}
}

func (b *book) fetch(ctx context.Context, name string) (queue.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, specTimeout)
	defer cancel()
	info, err := b.get(ctx, name)
	if err != nil {
		return info, fmt.Errorf("spec of queue %s: %w", name, err)
	}
	return info, nil
}

// start notes that a job starts now, or returns how long it must wait to keep its
// distance from the one that started before: after a stall of the process jobs
// shift instead of bunching, in the order of their departures.
func (p *page) start(r *run, now time.Time) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait = p.wait(r, now)
	for _, w := range p.ready {
		if w != r && w.earliest.Before(r.earliest) {
			// It goes first. Others between the two may have gone already.
			wait = max(wait, p.wait(w, now)+apart(min(r.earliest.Sub(w.earliest), r.interval)))
		}
	}
	at := slices.Index(p.ready, r)
	if wait > 0 {
		if at < 0 {
			p.ready = append(p.ready, r)
		}
		return wait
	}
	if at >= 0 {
		p.ready = slices.Delete(p.ready, at, at+1)
	}
	p.started = now
	if r.earliest.After(p.departed) {
		p.departed = r.earliest
	}
	return 0
}

// leave is called when a job that may have been told to wait will not start.
func (p *page) leave(r *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := slices.Index(p.ready, r); at >= 0 {
		p.ready = slices.Delete(p.ready, at, at+1)
	}
}

// wait is how long a job must stay behind the last start. p.mu is held.
func (p *page) wait(r *run, now time.Time) time.Duration {
	if p.started.IsZero() {
		return 0
	}
	distance := r.earliest.Sub(p.departed)
	if distance < 0 {
		// A later job overtook this one, which was still preparing. It fills in
		// at the queue's own pace.
		distance = min(-distance, r.interval)
	}
	return max(0, apart(distance)-now.Sub(p.started))
}

// apart is the distance kept between the starts of two jobs that were granted so
// far apart: 0.95 of it, and not all. A shift of the whole distance would never heal:
// once one job was late, all behind it would be as late, every timer's jitter would add
// to it, and before long everything would be later than slack and given back. With
// 0.95 (and at high rates the grain, where a twentieth of the distance is less than a
// timer errs by) lateness wears off.
func apart(distance time.Duration) time.Duration {
	return max(0, distance-max(distance/20, grain))
}
