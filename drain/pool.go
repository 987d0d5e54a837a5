package drain

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// spare is how many handlers there are for each that one queue may have.
	spare = 2
	// hangAfter is how long a queue that has all the handlers it may have, and wants more, goes without an answer
	// before it is said to hang.
	hangAfter = 10 * time.Second
)

// MaxHandlers is how many handlers a drainer of that Concurrency has at work at most, of all queues together.
func MaxHandlers(concurrency int) int { return spare * concurrency }

// pool shares the handlers among queues: a queue may take another while it holds fewer than are free. So one alone may
// have half of all, which is Options.Concurrency; n that want all they can get have an n+1st each; and however long a
// receiver hangs, as many are free for the others as its queue holds. Nobody need know who will want some later, and
// none must be taken back. The rule is that of A. K. Choudhury and E. L. Hahne, "Dynamic queue length thresholds for
// shared-memory packet switches", 1998.
type pool struct {
	mu    sync.Mutex
	all   int
	used  int
	short int // queues that are
}

// use is what a queue has of the pool.
type use struct {
	held     int
	short    bool      // more of it was due than its share
	since    time.Time // when it became short
	answered time.Time // when a handler of it returned last
	hanging  bool      // and the log says so
}

func newPool(concurrency int) *pool { return &pool{all: MaxHandlers(concurrency)} }

// share is how many more a queue may have that holds so many. mu is held.
func (l *pool) share(held int) int { return max(0, (l.all-l.used-held+1)/2) }

// shares returns how many jobs a partition may ask for, and how many of them of each queue that may not have as many.
func (l *pool) shares(p *partition) (most int, of map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Queues that hold little are not named: a request would have to name them all, for their shares are much alike. It
	// asks for no more than the one of them may have that holds most.
	little, top := (l.all-l.used)/4, 0
	for name, u := range p.uses {
		switch {
		case u.held > little && len(of) < queue.MaxShares:
			if of == nil {
				of = make(map[string]int)
			}
			of[name] = l.share(u.held)
		default:
			top = max(top, u.held)
		}
	}
	return max(1, l.share(top)), of
}

func (l *pool) begin(p *partition, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := p.uses[name]
	if u == nil {
		u = &use{}
		p.uses[name] = u
	}
	u.held++
	l.used++
}

// end gives a handler back, and has those partitions ask again whose queues may have more by it.
func (l *pool) end(p *partition, name string, answered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := p.uses[name]
	u.held--
	l.used--
	if u.short && answered {
		u.answered = time.Now()
	}
	if u.held == 0 && !u.short {
		delete(p.uses, name)
	}
	if l.short == 0 {
		return
	}
	for _, p := range p.d.parts {
		if l.more(p) {
			p.woken(p.d.client.ID)
		}
	}
}

// more reports whether a queue of a partition that is short may have more. mu is held.
func (l *pool) more(p *partition) bool {
	for name := range p.short {
		if l.share(p.uses[name].held) > 0 {
			return true
		}
	}
	return false
}

// stillShort returns the queues of a partition that are short by the answer to a repeated request: those that it names
// and those that were before, for it does not tell of all.
func (l *pool) stillShort(p *partition, named []string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Clone(named)
	for name := range p.short {
		if !slices.Contains(named, name) {
			all = append(all, name)
		}
	}
	return all
}

// note keeps which queues of a partition an answer says are short, and reports whether more of them may be asked for
// by now.
func (l *pool) note(p *partition, short []string) (more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(short) == 0 && len(p.short) == 0 {
		return false
	}
	for name := range p.short {
		if !slices.Contains(short, name) {
			l.satisfied(p, name)
		}
	}
	for _, name := range short {
		u := p.uses[name]
		if u == nil {
			u = &use{}
			p.uses[name] = u
		}
		if !u.short {
			u.short, u.since = true, time.Now()
			p.short[name] = struct{}{}
			l.short++
		}
	}
	return l.more(p)
}

// satisfied is for a queue that is short no more. mu is held.
func (l *pool) satisfied(p *partition, name string) {
	u := p.uses[name]
	delete(p.short, name)
	l.short--
	if u.hanging {
		p.d.log.Info("a queue that hung goes on", "queue", name, "handlers", u.held)
	}
	u.short, u.hanging = false, false
	if u.held == 0 {
		delete(p.uses, name)
	}
}

// hangs reports whether a queue has all that it may have, wants more, and got no answer for long.
func (u *use) hangs(now time.Time) bool {
	quiet := u.since
	if u.answered.After(quiet) {
		quiet = u.answered
	}
	return u.short && u.held > 0 && now.Sub(quiet) >= hangAfter
}

// judge says in the log which queues begin to hang, and which do no more.
func (l *pool) judge(p *partition, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range p.short {
		switch u := p.uses[name]; {
		case u.hangs(now) == u.hanging:
		case u.hanging:
			u.hanging = false
			p.d.log.Info("a queue that hung goes on", "queue", name, "handlers", u.held)
		default:
			u.hanging = true
			p.d.log.Warn("a queue hangs: it has all the handlers it may have, and none had an answer; others go on",
				"queue", name, "handlers", u.held, "for", hangAfter, "of", l.all)
		}
	}
}

// QueueUse is what a queue holds of a drainer's handlers.
type QueueUse struct {
	Queue    string
	Handlers int
	// Longest is how long the one has been at work that began first: behind its gate. 0 if none is.
	Longest time.Duration
	// Short: more jobs of it are due than it may have handlers for.
	Short bool
	// Hanging: it is short, and has had no answer for 10 s.
	Hanging bool
}

// Usage tells who holds the handlers of the drainer that was given it in its Options; of none while it does not run.
type Usage struct {
	mu sync.Mutex
	d  *drainer
}

// Queues returns the queues that hold handlers, those with the most first.
func (u *Usage) Queues() []QueueUse {
	u.mu.Lock()
	d := u.d
	u.mu.Unlock()
	if d == nil {
		return nil
	}
	now := time.Now()
	begun := make(map[string]time.Time)
	for _, p := range d.parts {
		for _, a := range p.leases.all() {
			a.mu.Lock()
			if first, ok := begun[a.job.Queue]; !a.passed.IsZero() && (!ok || a.passed.Before(first)) {
				begun[a.job.Queue] = a.passed
			}
			a.mu.Unlock()
		}
	}
	var list []QueueUse
	d.pool.mu.Lock()
	for _, p := range d.parts {
		for name, held := range p.uses {
			q := QueueUse{Queue: name, Handlers: held.held, Short: held.short, Hanging: held.hangs(now)}
			if at, ok := begun[name]; ok {
				q.Longest = now.Sub(at)
			}
			list = append(list, q)
		}
	}
	d.pool.mu.Unlock()
	slices.SortFunc(list, func(a, b QueueUse) int {
		return cmp.Or(cmp.Compare(b.Handlers, a.Handlers), cmp.Compare(a.Queue, b.Queue))
	})
	return list
}

func (u *Usage) of(d *drainer) {
	if u == nil {
		return
	}
	u.mu.Lock()
	u.d = d
	u.mu.Unlock()
}
