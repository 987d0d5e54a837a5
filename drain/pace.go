package drain

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxPaces is how many queues' paces are kept at least; beyond it those not used for paceAge are forgotten.
	maxPaces = 10_000
	paceAge  = time.Minute

	// jitter is how late a timer may be without being taken for a stall.
	jitter = time.Millisecond
)

// paces has the pace of each queue, from one job to the next.
type paces struct {
	mu      sync.Mutex
	queues  map[string]*pace
	pruneAt int // at so many; twice as many as were left last, so that it costs each use next to nothing
}

// pace keeps the starts of one queue's jobs as far apart as their departures were granted.
type pace struct {
	users  atomic.Int64 // jobs that use it; from none to one only under paces.mu
	unused atomic.Int64 // when the last of them ended, in ns since 1970

	mu       sync.Mutex
	departed time.Time     // the latest earliest start of a job that started
	started  time.Time     // when the last job started
	late     time.Duration // how late it was, and how much of that
	over     time.Duration // was its timer's fault and not a shift
	ready    []*attempt    // those that were told to wait for their distance
}

// use returns the pace of a queue, for one job.
func (q *paces) use(name string) *pace {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.queues[name]
	if p == nil {
		if len(q.queues) >= max(maxPaces, q.pruneAt) {
			q.prune(time.Now())
			q.pruneAt = 2 * len(q.queues)
		}
		p = &pace{}
		q.queues[name] = p
	}
	p.users.Add(1)
	return p
}

// done is called when the job has ended.
func (p *pace) done() {
	p.unused.Store(time.Now().UnixNano()) // first: of a pace that nobody uses it says since when
	p.users.Add(-1)
}

func (q *paces) prune(now time.Time) {
	for name, p := range q.queues {
		if p.users.Load() == 0 && now.Sub(time.Unix(0, p.unused.Load())) > paceAge {
			delete(q.queues, name)
		}
	}
}

// start notes that a job starts now, or returns how long it must wait to keep its
// distance from the one that started before: after a stall of the process jobs
// shift instead of bunching, in the order of their departures.
func (p *pace) start(a *attempt, now time.Time) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait = p.due(a).Sub(now)
	for _, w := range p.ready {
		if w != a && w.Earliest.Before(a.Earliest) {
			// It goes first. Others between the two may have gone already.
			distance := min(a.Earliest.Sub(w.Earliest), a.interval)
			wait = max(wait, max(0, p.due(w).Sub(now))+distance-p.heal(distance, a.slack))
		}
	}
	at := slices.Index(p.ready, a)
	if wait > 0 {
		if at < 0 {
			p.ready = append(p.ready, a)
		}
		a.toldToWait = now.Add(wait)
		return wait
	}
	if at >= 0 {
		p.ready = slices.Delete(p.ready, at, at+1)
	}
	p.started, p.late, p.over = now, now.Sub(a.Earliest), now.Sub(a.Earliest)
	if a.toldToWait.After(a.Earliest) {
		p.over = now.Sub(a.toldToWait)
	}
	if a.Earliest.After(p.departed) {
		p.departed = a.Earliest
	}
	return 0
}

// leave is called when a job that may have been told to wait will not start.
func (p *pace) leave(a *attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := slices.Index(p.ready, a); at >= 0 {
		p.ready = slices.Delete(p.ready, at, at+1)
	}
}

// due is when a job may start for its own departure and the last start. p.mu is held.
func (p *pace) due(a *attempt) time.Time {
	if p.started.IsZero() {
		return a.Earliest
	}
	distance := a.Earliest.Sub(p.departed)
	if distance < 0 {
		// A later job overtook this one, which was still preparing. It fills in
		// at the queue's own pace.
		distance = min(-distance, a.interval)
	}
	due := p.started.Add(distance - p.heal(distance, a.slack))
	if due.Before(a.Earliest) {
		return a.Earliest
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
func (p *pace) heal(distance, slack time.Duration) time.Duration {
	heal := distance / 20
	heal += min(p.over, max(0, jitter-heal))
	if slack > 0 {
		urgent := time.Duration(float64(distance) * float64(p.late) / float64(slack))
		heal = max(heal, min(p.late/5, urgent))
	}
	return min(heal, distance)
}
