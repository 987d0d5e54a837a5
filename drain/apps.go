package drain

// AppOf says which app a queue is of, and which part of the handlers all queues of that app may have together, above 0
// to 1; the name is empty of a queue whose app has no bound. It is asked for each job, under a mutex: it must answer at
// once. What it says may change at any time.
type AppOf func(queue string) (app string, share float64)

// appUse is what the queues of an app have of the pool. It is a pool of its own to them: a queue may take another
// handler while it holds fewer than are free of both.
type appUse struct {
	name   string
	all    int // that they may have
	held   int
	asked  int // that requests are under way for
	queues int // how many there are
}

// share is how many more handlers a queue may have. mu is held.
func (l *pool) share(u *use) int {
	free := l.all - l.used
	if a := u.app; a != nil {
		free = min(free, a.all-a.held-a.asked)
	}
	return max(0, (free-u.held+1)/2)
}

// place counts what a queue has to the app that it is of by now. mu is held.
func (l *pool) place(name string, u *use) {
	if l.appOf == nil {
		return
	}
	app, share := l.appOf(name)
	if u.app != nil && u.app.name != app {
		l.leave(u)
	}
	if app == "" {
		return
	}
	if u.app == nil {
		if u.app = l.apps[app]; u.app == nil {
			u.app = &appUse{name: app}
			l.apps[app] = u.app
		}
		u.app.held += u.held
		u.app.queues++
	}
	u.app.all = max(1, int(share*float64(l.all)))
}

// leave counts what a queue has to no app. mu is held.
func (l *pool) leave(u *use) {
	a := u.app
	if a == nil {
		return
	}
	a.asked -= u.asked
	a.held -= u.held
	u.app, u.asked = nil, 0
	if a.queues--; a.queues == 0 {
		delete(l.apps, a.name)
	}
}

// claim keeps what a request asks for from other requests, and returns it. mu is held.
func (u *use) claim(n int) int {
	if u.app != nil {
		u.asked += n
		u.app.asked += n
	}
	return n
}

// unclaim lets others ask for what a request of a partition did not bring, and has them do so.
func (l *pool) unclaim(p *partition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := 0
	for _, u := range p.uses {
		if u.asked > 0 {
			left += u.asked
			u.app.asked -= u.asked
			u.asked = 0
		}
	}
	if left > 0 {
		l.wake(p.d, p)
	}
}
