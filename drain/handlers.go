package drain

import (
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
	// idleFor is how long a queue of an app that holds nothing is named in requests, so that it is granted no more than
	// its app has left.
	idleFor = 5 * time.Second
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
	short int   // queues that are
	appOf AppOf // nil if there are no apps
	apps  map[string]*appUse
}

// use is what a queue has of the pool.
type use struct {
	held     int
	app      *appUse   // nil if it has no bound
	asked    int       // of the app, by a request that is under way
	short    bool      // more of it was due than its share
	since    time.Time // when it became short
	answered time.Time // when a handler of it returned last
	hanging  bool      // and the log says so
	idle     time.Time // since when it holds nothing
}

func newPool(concurrency int, of AppOf) *pool {
	return &pool{all: MaxHandlers(concurrency), appOf: of, apps: make(map[string]*appUse)}
}

// shares returns how many jobs a partition may ask for, and how many of them of each queue that may not have as many.
// What an app has left goes to its queues that are short first, then to those that have handlers, and one each to those
// that are idle: of these nothing more may be due, and a queue of which more is will be short by the answer.
func (l *pool) shares(p *partition) (most int, of map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	claim := func(name string, u *use, most int) {
		if l.place(name, u); u.app != nil && len(of) < queue.MaxShares {
			of = with(of, name, u.claim(min(most, l.share(u))))
		}
	}
	for name := range p.short {
		claim(name, p.uses[name], l.all)
	}
	for name, u := range p.uses {
		if u.held > 0 && !u.short {
			claim(name, u, l.all)
		}
	}
	// Queues that hold little are not named, unless their app has a bound: a request would have to name them all, for
	// their shares are much alike. It asks for no more than the one of them may have that holds most.
	little, top := (l.all-l.used)/4, 0
	now := time.Now()
	for name, u := range p.uses {
		if u.over(now) {
			l.drop(p, name, u)
			continue
		}
		if u.idles() {
			claim(name, u, 1)
		}
		switch _, named := of[name]; {
		case named:
		case u.held > little && len(of) < queue.MaxShares:
			of = with(of, name, l.share(u))
		default:
			top = max(top, u.held)
		}
	}
	return max(1, l.share(&use{held: top})), of
}

func with(of map[string]int, name string, share int) map[string]int {
	if of == nil {
		of = make(map[string]int)
	}
	of[name] = share
	return of
}

// begin takes a handler for a job that was granted, unless the queue may not have it because of what its app has: the
// queue was not named in the request, or others were faster.
func (l *pool) begin(p *partition, name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := p.use(name)
	l.place(name, u)
	switch {
	case u.app == nil:
	case u.asked > 0:
		u.asked--
		u.app.asked--
		u.app.held++
	case l.share(u) > 0:
		u.app.held++
	default:
		return false
	}
	u.held++
	l.used++
	return true
}

// use returns what a queue has, which may be nothing. The pool's mu is held.
func (p *partition) use(name string) *use {
	u := p.uses[name]
	if u == nil {
		u = &use{}
		p.uses[name] = u
	}
	return u
}

// end gives a handler back, and has those partitions ask again whose queues may have more by it.
func (l *pool) end(p *partition, name string, answered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := p.uses[name]
	u.held--
	l.used--
	if u.app != nil {
		u.app.held--
	}
	if u.short && answered {
		u.answered = time.Now()
	}
	l.forget(p, name, u)
	l.wake(p.d, nil)
}

// forget drops what has nothing, but that of an app's queue for a while, unless there are more than a request may name.
// mu is held.
func (l *pool) forget(p *partition, name string, u *use) {
	switch {
	case u.held > 0 || u.short:
	case u.app == nil, len(p.uses) > queue.MaxShares:
		l.drop(p, name, u)
	default:
		u.idle = time.Now()
	}
}

func (l *pool) drop(p *partition, name string, u *use) {
	l.leave(u)
	delete(p.uses, name)
}

// idles reports whether a queue has nothing, and wants nothing that is known.
func (u *use) idles() bool { return u.held == 0 && !u.short }

// over reports whether a queue has idled for long.
func (u *use) over(now time.Time) bool { return u.idles() && now.Sub(u.idle) > idleFor }

// wake has all partitions but one ask again whose queues may have more by now. mu is held.
func (l *pool) wake(d *drainer, but *partition) {
	if l.short == 0 {
		return
	}
	for _, p := range d.parts {
		if p != but && l.more(p) {
			p.woken(d.client.ID)
		}
	}
}

// more reports whether a queue of a partition that is short may have more. mu is held.
func (l *pool) more(p *partition) bool {
	for name := range p.short {
		if l.share(p.uses[name]) > 0 {
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
		u := p.use(name)
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
	l.forget(p, name, u)
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
