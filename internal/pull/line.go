package pull

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	minPause   = 10 * time.Millisecond
	maxPause   = time.Second
	leastPause = time.Millisecond // between two requests of which the first brought nothing
	stopTries  = 4                // of a request whose outcome is unknown, when the desk stops
	// idleTime is how long a line without requests is kept: those who ask again soon are the
	// same client to the engine.
	idleTime = time.Minute
	heldMax  = 8 << 20 // bytes of jobs that wait for their departure
	// partyMax is how many workers a line remembers; then it begins anew with other clients.
	partyMax = 100
)

// party is a client of the engine: all that ask under one worker's name, so that a job's timeline
// has it.
type party struct {
	queue.Client
	number uint64
}

// line is the requests that wait for jobs of one queue, and the one loop that asks for them. The
// fields below mu are guarded by it, all others are the loop's.
type line struct {
	d    *Desk
	name string

	count int // requests, those included whose answer is under way; guarded by d.mu

	mu      sync.Mutex
	waiting []*request
	fresh   bool // somebody came, or the engine said that there is more
	bell    chan struct{}

	parties  map[string]*party // by worker
	asker    *party            // of the last request
	spec     *queue.Spec
	revision int64

	flying  bool
	replies chan reply
	again   bool // the last request is to be repeated under its number
	askAt   time.Time
	pause   time.Duration
	failed  error
	tries   int // since the desk stops

	held    []*job // by the instant from which they may be handed over
	bytes   int
	handAt  time.Time // when the first can be, if somebody waits for it
	idle    time.Time // since when there is nothing to do
	stopped bool
	over    bool
}

func newLine(d *Desk, name string) *line {
	return &line{
		d: d, name: name, bell: make(chan struct{}, 1), replies: make(chan reply, 1), pause: minPause, idle: time.Now(),
		parties: map[string]*party{},
	}
}

func (l *line) enter(r *request) {
	l.mu.Lock()
	l.waiting = append(l.waiting, r)
	l.fresh = true
	l.mu.Unlock()
	l.ring()
}

// leave takes a request out, unless it has its answer.
func (l *line) leave(r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.waiting, r)
	if at >= 0 {
		l.waiting = slices.Delete(l.waiting, at, at+1)
	}
	return at >= 0
}

// woken is told that there may be more.
func (l *line) woken() {
	l.mu.Lock()
	l.fresh = true
	l.mu.Unlock()
	l.ring()
}

func (l *line) ring() {
	select {
	case l.bell <- struct{}{}:
	default:
	}
}

// run asks and hands over until nobody has asked for a while, the queue cannot be asked for, or
// the desk stops.
func (l *line) run() {
	defer l.d.loops.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	stop := l.d.stop.Done()
	for {
		timer.Reset(l.step(time.Now()))
		if l.over {
			return
		}
		select {
		case <-timer.C:
		case <-l.bell:
		case r := <-l.replies:
			l.land(r)
		case <-stop:
			l.stopped, stop = true, nil
			l.give(len(l.held), nil, Stopping)
		}
	}
}

// step does what is to be done now, and returns for how long there is nothing.
func (l *line) step(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handOver(now)
	l.dismiss(now)
	l.fly(now)
	if len(l.waiting)+len(l.held) > 0 || l.flying || l.again {
		l.idle = now
	} else if l.stopped || now.Sub(l.idle) >= idleTime {
		l.over = l.vanish()
	}
	return max(0, l.due(now).Sub(now))
}

// due is when something is to be done again.
func (l *line) due(now time.Time) time.Time {
	at := l.idle.Add(idleTime)
	sooner := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	if len(l.held) > 0 {
		sooner(l.held[0].latest.Add(time.Microsecond))
		if len(l.waiting) > 0 {
			sooner(l.handAt)
		}
	}
	if l.d.full() {
		sooner(now.Add(maxPause))
	}
	for _, r := range l.waiting {
		if r.until.After(now) { // of one whose wait is over something else is awaited
			sooner(r.until)
		}
	}
	if n, _ := l.wants(); !l.flying && (l.again || n > 0) {
		sooner(l.askAt)
	}
	return at
}

// handOver gives jobs that may start to those who wait, the first come first. A request that takes
// several gets those that may start within half of what is left of the first one's window.
func (l *line) handOver(now time.Time) {
	for len(l.held) > 0 {
		j, r := l.held[0], l.first()
		if now.After(j.latest) {
			why := Late
			if r == nil {
				why = Unclaimed
			}
			l.give(1, nil, why)
			continue
		}
		if r == nil || now.Before(j.earliest) {
			l.handAt = j.earliest
			if r == nil {
				l.handAt = j.latest
			}
			return
		}
		until := now
		if half := j.earliest.Add(j.latest.Sub(j.earliest) / 2); half.After(now) && !l.spec.Rate.Unlimited() {
			until = half
		}
		n := 1
		for n < min(r.Max, len(l.held)) && !l.held[n].earliest.After(until) {
			n++
		}
		if last := l.held[n-1].earliest; last.After(now) {
			l.handAt = last
			return
		}
		l.waiting = slices.DeleteFunc(l.waiting, func(o *request) bool { return o == r })
		l.give(n, r, 0)
	}
}

// first is the first request whose client is still there.
func (l *line) first() *request {
	for _, r := range l.waiting {
		if r.ctx.Err() == nil {
			return r
		}
	}
	return nil
}

// give gives the first n jobs to a request, or back.
func (l *line) give(n int, r *request, why Reason) {
	if n == 0 {
		return
	}
	jobs := slices.Clone(l.held[:n])
	l.held = slices.Delete(l.held, 0, n)
	for _, j := range jobs {
		l.bytes -= len(j.text)
	}
	if r != nil {
		r.answer <- answer{jobs: jobs}
		return
	}
	l.d.loops.Add(1)
	go func() {
		defer l.d.loops.Done()
		l.d.giveBack(jobs, why)
	}()
}

// dismiss answers those whose wait is over with nothing, or with what went wrong. One for which a job
// is held stays for that.
func (l *line) dismiss(now time.Time) {
	jobs := len(l.held)
	l.waiting = slices.DeleteFunc(l.waiting, func(r *request) bool {
		if jobs > 0 && !l.stopped {
			jobs -= l.useful(r.Max)
			return false
		}
		wrong := l.failed != nil && !l.flying
		if !l.stopped && (now.Before(r.until) || !r.seen && !wrong && !l.d.full()) {
			return false
		}
		var a answer
		if wrong && !l.stopped {
			a.err = l.failed
		}
		r.answer <- a
		return true
	})
}

// useful is how many jobs a request for so many could get at once, at the queue's pace. More would
// be granted only to be given back, and their slots with them.
func (l *line) useful(most int) int {
	if l.spec == nil || l.spec.Rate.Unlimited() {
		return most
	}
	return int(min(int64(most), l.spec.Burst+int64(l.spec.Slack.D()/2/max(1, l.spec.Rate.Interval()))))
}

// wants is how many jobs more those who wait could get who are next and have the same worker's
// name.
func (l *line) wants() (n int, worker string) {
	if l.bytes >= heldMax || l.d.full() {
		return 0, ""
	}
	held := len(l.held)
	for _, r := range l.waiting {
		most := l.useful(r.Max)
		if held >= most {
			held -= most
			continue
		}
		if n > 0 && r.Worker != worker {
			break
		}
		n, worker, held = n+most-held, r.Worker, 0
	}
	return min(n, queue.MaxReserve), worker
}

// party returns the client that asks for a worker.
func (l *line) party(worker string) *party {
	p := l.parties[worker]
	if p == nil {
		if len(l.parties) >= partyMax {
			clear(l.parties)
		}
		p = &party{Client: queue.Client{ID: queue.NewID(), Name: worker, Version: l.d.o.Version}}
		if worker == "" {
			p.Name = l.d.o.Name
		}
		l.parties[worker] = p
	}
	return p
}

// fly asks the engine, if there is reason to.
func (l *line) fly(now time.Time) {
	n, worker := l.wants()
	switch {
	case l.flying, l.failed != nil && now.Before(l.askAt):
		return
	case l.again:
		if l.stopped {
			l.tries++
		}
		if l.tries > stopTries {
			l.again = false // what it was granted is taken back when the leases have run out
			return
		}
	case l.stopped, n < 1, !l.fresh && now.Before(l.askAt):
		return
	default:
		l.asker = l.party(worker)
		l.asker.number++
	}
	l.flying, l.fresh = true, false
	for _, r := range l.waiting {
		r.asked = l.spec != nil
	}
	req := queue.ReserveRequest{Client: l.asker.Client, Number: l.asker.number, Max: max(1, n), Queue: l.name}
	spec, revision := l.spec, l.revision
	l.d.loops.Add(1)
	go func() {
		defer l.d.loops.Done()
		l.replies <- l.d.ask(req, spec, revision)
	}()
}

// land takes in what the engine answered.
func (l *line) land(r reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying = false
	if r.err != nil {
		l.fail(r)
		return
	}
	l.failed, l.again, l.pause = nil, false, minPause
	l.spec, l.revision = r.spec, r.revision
	if !r.asked {
		l.fresh = true
		return
	}
	for _, o := range l.waiting {
		o.seen = o.seen || o.asked && r.res.Next > 0 // else there is more for those whose turn it was not
	}
	for _, name := range r.res.Expired {
		l.d.o.Observer.Expired(name)
	}
	for name, slots := range r.res.Lost {
		l.d.o.Observer.Lost(name, slots)
	}
	next := r.res.Next
	if len(r.grants) == 0 {
		next = max(next, leastPause)
	}
	l.askAt = r.at.Add(next)
	for _, j := range newJobs(r.grants, r.spec) {
		l.held = append(l.held, j)
		l.bytes += len(j.text)
		l.d.memory.Add(int64(len(j.text)))
	}
	slices.SortStableFunc(l.held, func(a, b *job) int { return a.earliest.Compare(b.earliest) })
	if r.res.Garbage {
		l.d.sweep()
	}
	if l.stopped {
		l.give(len(l.held), nil, Stopping)
	}
}

// fail decides whether the request is repeated. What it was granted, if it was, must not be lost: so
// it keeps its number, unless nothing was changed.
func (l *line) fail(r reply) {
	if hopeless(r.err) {
		for _, o := range l.waiting {
			o.answer <- answer{err: r.err}
		}
		l.waiting, l.again, l.failed = nil, false, nil
		l.spec, l.fresh, l.idle = nil, false, time.Time{} // the line ends
		l.give(len(l.held), nil, Unclaimed)
		return
	}
	if l.failed == nil {
		l.d.o.Logger.Warn("asking for jobs of a pull queue failed; trying again", "queue", l.name, "error", r.err)
	}
	l.failed, l.again = r.err, r.asked && !errors.Is(r.err, queue.ErrUnavailable)
	l.askAt = time.Now().Add(l.pause)
	l.pause = min(2*l.pause, maxPause)
}

// vanish ends the line, unless somebody has come. mu is held, which those who come take behind
// the desk's.
func (l *line) vanish() bool {
	l.mu.Unlock()
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	l.mu.Lock()
	if len(l.waiting) > 0 {
		return false
	}
	delete(l.d.queues, l.name)
	return true
}
