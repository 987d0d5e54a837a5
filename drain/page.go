package drain

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// maxPages bounds the memory of queues drained; beyond it those not used for
	// pageAge are forgotten, at the price of reading their specs again.
	maxPages = 10_000
	pageAge  = time.Minute

	specTimeout = 2 * time.Second

	// jitter is how late a timer may be without being taken for a stall.
	jitter = time.Millisecond
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
	refs   atomic.Int64 // jobs that use it; from none to one only under book.mu
	closed atomic.Int64 // when the last of them ended, in ns since 1970

	edition atomic.Pointer[edition] // every job looks at it: a mutex would be handed from one to the next

	mu      sync.Mutex
	reading *reading // the Get under way

	departed time.Time     // the latest earliest start of a job that started
	started  time.Time     // when the last job started
	late     time.Duration // how late it was, and how much of that
	over     time.Duration // was its timer's fault and not a shift
	ready    []*run        // those that were told to wait for their distance
}

// edition is a spec and its revision, or a later one's.
type edition struct {
	spec     *queue.Spec
	revision int64
}

// reading is one Get, for all jobs that wait for a queue's spec.
type reading struct {
	done chan struct{} // closed when it has ended
	err  error         // why there is no spec
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
	p.refs.Add(1)
	return p
}

func (b *book) close(p *page) {
	p.closed.Store(time.Now().UnixNano()) // first: a page that nobody uses was closed when it says
	p.refs.Add(-1)
}

func (b *book) prune(now time.Time) {
	for name, p := range b.pages {
		if p.refs.Load() == 0 && now.Sub(time.Unix(0, p.closed.Load())) > pageAge {
			delete(b.pages, name)
		}
	}
}

// specAt returns the queue's spec of the revision or a later one. Revisions of a
// name only grow, so one Get serves all jobs until the next change. Old specs are
// not good enough: the job may be for a target that they do not know. When a Get
// fails, it has failed for all who waited for it: were each to try anew, one after the other,
// the last would wait for as many timeouts as there are jobs.
func (b *book) specAt(ctx context.Context, p *page, revision int64) (*queue.Spec, error) {
	for {
		if e := p.edition.Load(); e != nil && e.revision >= revision {
			return e.spec, nil
		}
		p.mu.Lock()
		if e := p.edition.Load(); e != nil && e.revision >= revision { // read meanwhile
			p.mu.Unlock()
			return e.spec, nil
		}
		under := p.reading
		if under == nil {
			under = &reading{done: make(chan struct{})}
			p.reading = under
			p.mu.Unlock()
			return b.read(ctx, p, under)
		}
		p.mu.Unlock()
		select {
		case <-under.done:
			if under.err != nil {
				return nil, under.err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// read gets the spec for all who wait for it.
func (b *book) read(ctx context.Context, p *page, under *reading) (*queue.Spec, error) {
	limited, cancel := context.WithTimeout(ctx, specTimeout)
	defer cancel()
	info, err := b.get(limited, p.name)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(under.done)
	p.reading = nil
	if err != nil {
		err = fmt.Errorf("spec of queue %s: %w", p.name, err)
		// That a job was cancelled says nothing to the others: one of them reads instead.
		if ctx.Err() == nil {
			under.err = err
		}
		return nil, err
	}
	info.Spec.Normalize()
	p.edition.Store(&edition{&info.Spec, info.Revision})
	return &info.Spec, nil
}

// start notes that a job starts now, or returns how long it must wait to keep its
// distance from the one that started before: after a stall of the process jobs
// shift instead of bunching, in the order of their departures.
func (p *page) start(r *run, now time.Time) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait = p.due(r).Sub(now)
	for _, w := range p.ready {
		if w != r && w.earliest.Before(r.earliest) {
			// It goes first. Others between the two may have gone already.
			distance := min(r.earliest.Sub(w.earliest), r.interval)
			wait = max(wait, max(0, p.due(w).Sub(now))+distance-p.heal(distance, r.slack))
		}
	}
	at := slices.Index(p.ready, r)
	if wait > 0 {
		if at < 0 {
			p.ready = append(p.ready, r)
		}
		r.told = now.Add(wait)
		return wait
	}
	if at >= 0 {
		p.ready = slices.Delete(p.ready, at, at+1)
	}
	p.started, p.late, p.over = now, now.Sub(r.earliest), now.Sub(r.earliest)
	if r.told.After(r.earliest) {
		p.over = now.Sub(r.told)
	}
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

// due is when a job may start for its own departure and the last start. p.mu is held.
func (p *page) due(r *run) time.Time {
	if p.started.IsZero() {
		return r.earliest
	}
	distance := r.earliest.Sub(p.departed)
	if distance < 0 {
		// A later job overtook this one, which was still preparing. It fills in
		// at the queue's own pace.
		distance = min(-distance, r.interval)
	}
	due := p.started.Add(distance - p.heal(distance, r.slack))
	if due.Before(r.earliest) {
		return r.earliest
	}
	return due
}

// heal is by how much less than a distance the next start may be behind the last. p.mu
// is held.
//
// It is a twentieth of the distance: 0.95 is kept, and not all. A shift of the whole
// distance would never heal. Once one job was late, all behind it would be as late, every
// timer's jitter would add to it, and before long everything would be later than slack
// and given back, of a queue whose receiver could have had it all.
//
// Where a twentieth is less than timers err by, above 50 departures a second, what
// the last one erred by is healed as well, or jitter would add up all the same. And as the
// lateness nears the slack it heals faster, by up to a fifth of itself: bunching a little
// within the window law is better than losing departures.
func (p *page) heal(distance, slack time.Duration) time.Duration {
	heal := distance / 20
	heal += min(p.over, max(0, jitter-heal))
	if slack > 0 {
		urgent := time.Duration(float64(distance) * float64(p.late) / float64(slack))
		heal = max(heal, min(p.late/5, urgent))
	}
	return min(heal, distance)
}
