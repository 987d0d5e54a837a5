package drain

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxPaces is how many paces are kept; beyond that, paces unused for paceAge are dropped.
	maxPaces = 10_000
	paceAge  = time.Minute

	// jitter is how late a timer may be without being taken for a stall.
	jitter = time.Millisecond
)

// paces keeps the pace of each queue between its jobs.
type paces struct {
	mu      sync.Mutex
	queues  map[string]*pace
	pruneAt int // number of paces at which to prune: twice what the last pruning left, so the cost per job is small
}

// pace keeps the starts of one queue's jobs as far apart as their departures.
type pace struct {
	users  atomic.Int64 // jobs that use it; raised from 0 only under paces.mu
	unused atomic.Int64 // when the last job released it, in ns since 1970

	mu       sync.Mutex
	departed time.Time     // the latest DepartsBy of the jobs that have started
	started  time.Time     // when the last job started
	late     time.Duration // how late that job was
	over     time.Duration // the part of late caused by its timer, and not by a shift
	ready    []*delivery   // jobs that wait only to keep their distance
}

// acquire returns the pace of a queue, for one job.
func (ps *paces) acquire(name string) *pace {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.queues[name]
	if p == nil {
		if len(ps.queues) >= max(maxPaces, ps.pruneAt) {
			ps.prune(time.Now())
			ps.pruneAt = 2 * len(ps.queues)
		}
		p = &pace{}
		ps.queues[name] = p
	}
	p.users.Add(1)
	return p
}

// release ends a job's use of its pace.
func (p *pace) release() {
	p.unused.Store(time.Now().UnixNano()) // first: prune reads it once users is 0
	p.users.Add(-1)
}

func (ps *paces) prune(now time.Time) {
	for name, p := range ps.queues {
		if p.users.Load() == 0 && now.Sub(time.Unix(0, p.unused.Load())) > paceAge {
			delete(ps.queues, name)
		}
	}
}

// start records that a job starts now, or returns how long the job must wait to keep its distance from the job that
// started before. After a stall of the process jobs shift instead of bunching, in the order of their departures.
func (p *pace) start(dl *delivery, now time.Time) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait = p.due(dl).Sub(now)
	for _, w := range p.ready {
		if w != dl && w.DepartsBy.Before(dl.DepartsBy) {
			// w goes first. Jobs between the two may have started already.
			distance := min(dl.DepartsBy.Sub(w.DepartsBy), dl.interval)
			wait = max(wait, max(0, p.due(w).Sub(now))+distance-p.heal(distance, dl.slack))
		}
	}
	at := slices.Index(p.ready, dl)
	if wait > 0 {
		if at < 0 {
			p.ready = append(p.ready, dl)
		}
		dl.toldToWait = now.Add(wait)
		return wait
	}
	if at >= 0 {
		p.ready = slices.Delete(p.ready, at, at+1)
	}
	p.started, p.late, p.over = now, now.Sub(dl.DepartsBy), now.Sub(dl.DepartsBy)
	if dl.toldToWait.After(dl.DepartsBy) {
		p.over = now.Sub(dl.toldToWait)
	}
	if dl.DepartsBy.After(p.departed) {
		p.departed = dl.DepartsBy
	}
	return 0
}

// leave removes a job that will not start.
func (p *pace) leave(dl *delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := slices.Index(p.ready, dl); at >= 0 {
		p.ready = slices.Delete(p.ready, at, at+1)
	}
}

// due returns when a job may start, given its own departure and the last start. mu is held.
func (p *pace) due(dl *delivery) time.Time {
	if p.started.IsZero() {
		return dl.DepartsBy
	}
	distance := dl.DepartsBy.Sub(p.departed)
	if distance < 0 {
		// A later job overtook this one while it was preparing. It follows at the queue's own pace.
		distance = min(-distance, dl.interval)
	}
	due := p.started.Add(distance - p.heal(distance, dl.slack))
	if due.Before(dl.DepartsBy) {
		return dl.DepartsBy
	}
	return due
}

// heal returns by how much the distance to the last start may be shortened. mu is held.
//
// It is a twentieth of the distance: 95% is kept, and not all. If starts kept the whole distance, lateness would never
// heal. Once one job was late, all jobs behind it would be as late, and the jitter of every timer would add to it. Soon
// every job would miss its slack and be given back, although the receiver could have taken it.
//
// Above 50 departures a second a twentieth is less than the jitter of a timer. The last timer's error is then healed as
// well, or jitter would still add up. As lateness approaches the slack it heals faster, by up to a fifth of itself:
// bunching a little within the window law is better than losing departures.
func (p *pace) heal(distance, slack time.Duration) time.Duration {
	heal := distance / 20
	heal += min(p.over, max(0, jitter-heal))
	if slack > 0 {
		urgent := time.Duration(float64(distance) * float64(p.late) / float64(slack))
		heal = max(heal, min(p.late/5, urgent))
	}
	return min(heal, distance)
}
