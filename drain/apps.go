package drain

// AppOf returns the app of a queue, and the share of all handlers, above 0 to 1, that the queues of that app may use
// together. The name is empty if the queue has no app with a limit. AppOf is called for each job, under a mutex, so it
// must return at once. Its answers may change at any time.
type AppOf func(queue string) (app string, share float64)

// appUse is what the queues of one app have of the pool. It is a pool within the pool: a queue may take another handler
// while it holds fewer than are free in both.
type appUse struct {
	name   string
	all    int // handlers that the queues may have
	held   int
	asked  int // claimed by requests under way
	queues int // number of queues that use it
}

// share returns how many more handlers a queue may have. mu is held.
func (pl *pool) share(u *use) int {
	free := pl.all - pl.used
	if a := u.app; a != nil {
		free = min(free, a.all-a.held-a.asked)
	}
	return max(0, (free-u.held+1)/2)
}

// place moves a queue's use to its present app. mu is held.
func (pl *pool) place(name string, u *use) {
	if pl.appOf == nil {
		return
	}
	app, share := pl.appOf(name)
	if u.app != nil && u.app.name != app {
		pl.leave(u)
	}
	if app == "" {
		return
	}
	if u.app == nil {
		if u.app = pl.apps[app]; u.app == nil {
			u.app = &appUse{name: app}
			pl.apps[app] = u.app
		}
		u.app.held += u.held
		u.app.queues++
	}
	u.app.all = max(1, int(share*float64(pl.all)))
}

// leave removes a queue's use from its app. mu is held.
func (pl *pool) leave(u *use) {
	a := u.app
	if a == nil {
		return
	}
	a.asked -= u.asked
	a.held -= u.held
	u.app, u.asked = nil, 0
	if a.queues--; a.queues == 0 {
		delete(pl.apps, a.name)
	}
}

// claim sets aside n handlers of the app for a request, and returns n. mu is held.
func (u *use) claim(n int) int {
	if u.app != nil {
		u.asked += n
		u.app.asked += n
	}
	return n
}

// unclaim frees the handlers that a partition's request had claimed and did not use, and makes other partitions whose
// queues are short ask for them.
func (pl *pool) unclaim(p *partition) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	left := 0
	for _, u := range p.uses {
		if u.asked > 0 {
			left += u.asked
			u.app.asked -= u.asked
			u.asked = 0
		}
	}
	if left > 0 {
		pl.wake(p.d, p)
	}
}
