package drain

import (
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// handlersPerQueue is the ratio of all handlers to the handlers of one queue.
	handlersPerQueue = 2
	// hangAfter is how long a queue that uses all its handlers, and wants more, may go without an answer before it is
	// reported as hanging.
	hangAfter = 10 * time.Second
	// idleFor is how long an idle queue of an app is still named in requests, so that it is granted no more than its app
	// has left.
	idleFor = 5 * time.Second
)

// MaxHandlers returns the maximum number of handlers of a drainer with that Concurrency, for all queues together.
func MaxHandlers(concurrency int) int { return handlersPerQueue * concurrency }

// pool shares the handlers among queues: a queue may take another handler while it holds fewer than are free.
// So one queue alone may have half of the handlers, which is Options.Concurrency. Each of n queues that want
// everything gets 1/(n+1). However long a receiver hangs, as many handlers are free for the others as its queue holds.
// The pool needs no forecast and never takes a handler back. The rule is that of A. K. Choudhury and E. L. Hahne,
// "Dynamic queue length thresholds for shared-memory packet switches", 1998.
type pool struct {
	mu    sync.Mutex
	all   int
	used  int
	short int   // number of queues that are short
	appOf AppOf // nil if there are no apps
	apps  map[string]*appUse
}

// use is what one queue has of the pool.
type use struct {
	held     int
	app      *appUse   // nil if the queue has no app with a limit
	asked    int       // handlers of the app claimed by a request under way
	short    bool      // more of the queue was due than its share
	since    time.Time // when it became short
	answered time.Time // when one of its handlers last returned
	hanging  bool      // already logged as hanging
	idle     time.Time // when it last held a handler
}

func newPool(concurrency int, of AppOf) *pool {
	return &pool{all: MaxHandlers(concurrency), appOf: of, apps: make(map[string]*appUse)}
}

// shares returns how many jobs a partition may ask for, and the limits of the queues that may have fewer.
// What an app has left goes first to its queues that are short, then to queues that hold handlers. Its idle queues get
// one each: if more is due, the answer reports them as short.
func (pl *pool) shares(p *partition) (most int, shares map[string]int) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	claim := func(name string, u *use, most int) {
		if pl.place(name, u); u.app != nil && len(shares) < queue.MaxShares {
			shares = with(shares, name, u.claim(min(most, pl.share(u))))
		}
	}
	for name := range p.short {
		claim(name, p.uses[name], pl.all)
	}
	for name, u := range p.uses {
		if u.held > 0 && !u.short {
			claim(name, u, pl.all)
		}
	}
	// A request cannot name all queues. Queues that hold few handlers and have no app limit have similar shares, so they
	// stay unnamed; the request asks for no more than the share of the largest of them.
	few, top := (pl.all-pl.used)/4, 0
	now := time.Now()
	for name, u := range p.uses {
		if u.over(now) {
			pl.drop(p, name, u)
			continue
		}
		if u.idles() {
			claim(name, u, 1)
		}
		switch _, named := shares[name]; {
		case named:
		case u.held > few && len(shares) < queue.MaxShares:
			shares = with(shares, name, pl.share(u))
		default:
			top = max(top, u.held)
		}
	}
	return max(1, pl.share(&use{held: top})), shares
}

func with(shares map[string]int, name string, share int) map[string]int {
	if shares == nil {
		shares = make(map[string]int)
	}
	shares[name] = share
	return shares
}

// assign takes a handler for a granted job. It returns false if the queue's app has no handlers left: the request did
// not name the queue, or other queues were faster.
func (pl *pool) assign(p *partition, name string) bool {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	u := p.use(name)
	pl.place(name, u)
	switch {
	case u.app == nil:
	case u.asked > 0:
		u.asked--
		u.app.asked--
		u.app.held++
	case pl.share(u) > 0:
		u.app.held++
	default:
		return false
	}
	u.held++
	pl.used++
	if l := pl.lossesOf(p, name); l != nil {
		l.granted++
	}
	return true
}

// use returns the queue's use of the pool, a new one if it has none. The pool's mu is held.
func (p *partition) use(name string) *use {
	u := p.uses[name]
	if u == nil {
		u = &use{}
		p.uses[name] = u
	}
	return u
}

// unassign returns a handler to the pool, and makes partitions ask again if their queues may have more now.
func (pl *pool) unassign(p *partition, name string, answered bool) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	u := p.uses[name]
	u.held--
	pl.used--
	if u.app != nil {
		u.app.held--
	}
	if u.short && answered {
		u.answered = time.Now()
	}
	pl.forget(p, name, u)
	pl.wake(p.d, nil)
}

// forget drops an idle queue. It keeps a queue of an app for a while, unless there are more queues than a request may
// name. mu is held.
func (pl *pool) forget(p *partition, name string, u *use) {
	switch {
	case u.held > 0 || u.short:
	case u.app == nil, len(p.uses) > queue.MaxShares:
		pl.drop(p, name, u)
	default:
		u.idle = time.Now()
	}
}

func (pl *pool) drop(p *partition, name string, u *use) {
	pl.leave(u)
	delete(p.uses, name)
}

// idles reports whether a queue holds nothing, and is not known to want anything.
func (u *use) idles() bool { return u.held == 0 && !u.short }

// over reports whether a queue has been idle for so long that it can be dropped.
func (u *use) over(now time.Time) bool { return u.idles() && now.Sub(u.idle) > idleFor }

// wake makes all partitions but one ask again if their queues may have more now. mu is held.
func (pl *pool) wake(d *drainer, but *partition) {
	if pl.short == 0 {
		return
	}
	for _, p := range d.parts {
		if p != but && pl.more(p) {
			p.woken(d.client.ID)
		}
	}
}

// more reports whether a short queue of a partition may have more. mu is held.
func (pl *pool) more(p *partition) bool {
	for name := range p.short {
		if pl.share(p.uses[name]) > 0 {
			return true
		}
	}
	return false
}

// stillShort returns the queues of a partition that are short after a repeated request: the queues named in the answer,
// and the queues that were short before, because the answer to a repeated request does not name all of them.
func (pl *pool) stillShort(p *partition, named []string) []string {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	all := slices.Clone(named)
	for name := range p.short {
		if !slices.Contains(named, name) {
			all = append(all, name)
		}
	}
	return all
}

// note records which queues of a partition are short, and reports whether any of them may have more now.
func (pl *pool) note(p *partition, short []string) (more bool) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if len(short) == 0 && len(p.short) == 0 {
		return false
	}
	for name := range p.short {
		if !slices.Contains(short, name) {
			pl.satisfied(p, name)
		}
	}
	for _, name := range short {
		if l := pl.lossesOf(p, name); l != nil {
			l.short = true
		}
		u := p.use(name)
		if !u.short {
			u.short, u.since = true, time.Now()
			p.short[name] = struct{}{}
			pl.short++
		}
	}
	return pl.more(p)
}

// satisfied marks a queue as no longer short. mu is held.
func (pl *pool) satisfied(p *partition, name string) {
	u := p.uses[name]
	delete(p.short, name)
	pl.short--
	if u.hanging {
		p.logRecovered(name, u)
	}
	u.short, u.hanging = false, false
	pl.forget(p, name, u)
}

// hangs reports whether a queue is short, and has had no answer for hangAfter.
func (u *use) hangs(now time.Time) bool {
	quiet := u.since
	if u.answered.After(quiet) {
		quiet = u.answered
	}
	return u.short && u.held > 0 && now.Sub(quiet) >= hangAfter
}

// judge logs which queues of a partition have begun to hang or to lose departures, and which have recovered.
func (pl *pool) judge(p *partition, now time.Time) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.logLosses(p, now)
	for name := range p.short {
		switch u := p.uses[name]; {
		case u.hangs(now) == u.hanging:
		case u.hanging:
			u.hanging = false
			p.logRecovered(name, u)
		default:
			u.hanging = true
			p.d.log.Warn("queue hangs: it uses all the handlers it may have, and none gets an answer; other queues go on",
				"queue", name, "handlers", u.held, "for", hangAfter, "of", pl.all)
		}
	}
}

func (p *partition) logRecovered(name string, u *use) {
	p.d.log.Info("queue no longer hangs", "queue", name, "handlers", u.held)
}
