package pull

import (
	"errors"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/departure"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// client is a client of the engine. It stands for all requests under one worker's name, so that the name appears in a
// job's timeline.
type client struct {
	queue.Client
	number uint64
}

// reply is the result of one request to the engine.
type reply struct {
	departure.Answer
	spec  *queue.Spec // the latest known
	asked bool        // for jobs, and not only for the spec
	err   error
}

// useful returns how many of most jobs a request could get at once, at the queue's pace or its parent's. More would be
// granted only to be given back.
func (l *loop) useful(most int) int {
	if l.spec == nil || l.spec.Rate.Unlimited() {
		return most
	}
	return int(min(int64(most), l.spec.Burst+int64(l.spec.EffectiveSlack()/2/max(1, l.spec.Fastest().Interval()))))
}

// wants returns how many more jobs the first waiting requests with the same worker could get, and the worker.
func (l *loop) wants() (n int, worker string) {
	if l.bytes >= maxGranted || l.d.full() {
		return 0, ""
	}
	granted := len(l.granted)
	for _, w := range l.waiting {
		most := l.useful(w.Max)
		if granted >= most {
			granted -= most
			continue
		}
		if n > 0 && w.Worker != worker {
			break
		}
		n, worker, granted = n+most-granted, w.Worker, 0
	}
	return min(n, queue.MaxReserve), worker
}

// clientOf returns the client that reserves for a worker.
func (l *loop) clientOf(worker string) *client {
	c := l.clients[worker]
	if c == nil {
		if len(l.clients) >= maxClients {
			clear(l.clients)
		}
		c = &client{Client: queue.Client{ID: queue.NewID(), Name: worker, Version: l.d.o.Version}}
		if worker == "" {
			c.Name = l.d.o.Name
		}
		l.clients[worker] = c
	}
	return c
}

// ask sends a request to the engine if one is due.
func (l *loop) ask(now time.Time) {
	n, worker := l.wants()
	most := max(1, n)
	switch {
	case l.asking, l.failed != nil && now.Before(l.askAt):
		return
	case l.repeat:
		if l.stopped {
			l.tries++
		}
		if l.tries > departure.StopTries {
			l.repeat = false // if jobs were granted, they return to the queue when their leases run out
			return
		}
	case l.stopped, n < 1, !l.fresh && now.Before(l.askAt):
		return
	default:
		l.client = l.clientOf(worker)
		l.client.number++
		if l.spec != nil && l.clock.Resync(now) {
			most = 0
		}
	}
	l.asking, l.fresh = true, false
	for _, w := range l.waiting {
		w.asked = l.spec != nil
	}
	req := queue.ReserveRequest{
		Client: l.client.Client, Number: l.client.number, Max: most, Queue: l.name, Clock: l.d.clock,
	}
	spec := l.spec
	l.d.loops.Add(1)
	go func() {
		defer l.d.loops.Done()
		l.replies <- l.d.reserve(&l.clock, req, spec)
	}()
}

// reserve reads the queue's spec if it is not known yet, and otherwise requests jobs.
func (d *Dispatcher) reserve(clock *departure.Clock, req queue.ReserveRequest, spec *queue.Spec) reply {
	if spec == nil {
		spec, err := d.specs.AtLeast(d.calls, req.Queue, 0)
		if err == nil && !spec.Pull {
			err = queue.NotPulled(req.Queue)
		}
		if parent := names.Parent(req.Queue); err == nil && parent != "" {
			_, _ = d.specs.AtLeast(d.calls, parent, 0) // for inGroup; there need not be a parent
			spec = d.inGroup(spec)
		}
		return reply{spec: spec, err: err}
	}
	a, err := d.call(clock, req)
	if err != nil {
		return reply{spec: spec, asked: true, err: err}
	}
	var revision int64
	for i := range a.Jobs {
		revision = max(revision, a.Jobs[i].Revision)
	}
	// On an error the known slack will do.
	if changed, err := d.specs.AtLeast(d.calls, req.Queue, revision); err == nil {
		spec = d.inGroup(changed)
	}
	return reply{Answer: a, spec: spec, asked: true}
}

// parentAge is how old the known spec of a parent may be. It decides how many jobs are useful, not when they may start.
const parentAge = 10 * time.Second

// inGroup returns a spec with the parent's rate and burst, if the parent is slower than the queue.
func (d *Dispatcher) inGroup(spec *queue.Spec) *queue.Spec {
	name := names.Parent(spec.Name)
	if name == "" {
		return spec
	}
	d.specs.Refresh(name, parentAge)
	parent, _, known := d.specs.Known(name)
	if !known || parent.Fastest().Interval() <= spec.Fastest().Interval() {
		return spec
	}
	slower := *spec
	slower.Rate, slower.Burst, slower.Adapt = parent.Rate, parent.Burst, parent.Adapt
	return &slower
}

// call makes a request once, and reports its side results to the observer.
func (d *Dispatcher) call(clock *departure.Clock, req queue.ReserveRequest) (departure.Answer, error) {
	a, err := departure.Ask(d.calls, d.engine, clock, req, departure.Timeout)
	for _, name := range a.Expired {
		d.o.Observer.Expired(name)
	}
	for name, slots := range a.Lost {
		d.o.Observer.Lost(name, slots)
	}
	return a, err
}

// answered applies a reply of the engine.
func (l *loop) answered(r reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking = false
	if r.err != nil {
		l.fail(r)
		return
	}
	l.failed, l.repeat, l.backoff, l.spec = nil, false, departure.Backoff{}, r.spec
	if !r.asked {
		l.fresh = true
		return
	}
	for _, w := range l.waiting {
		w.seen = w.seen || w.asked && r.Next > 0 // if Next is 0, more jobs are due now, and w may still get one
	}
	next := r.Next
	if len(r.Jobs) == 0 {
		next = max(next, departure.LeastPause)
	}
	l.askAt = r.At.Add(next)
	for i := range r.Jobs {
		j := newJob(&r.Jobs[i], r.Windows[i], r.spec)
		l.granted = append(l.granted, j)
		l.bytes += len(j.text)
		l.d.hold(int64(len(j.text)))
	}
	slices.SortStableFunc(l.granted, func(a, b *job) int { return a.DepartsBy.Compare(b.DepartsBy) })
	if r.Garbage {
		l.d.sweep()
	}
	if l.stopped {
		l.giveBack(len(l.granted), Stopping)
	}
}

// fail decides whether a failed request is repeated under its number, so that jobs it may have been granted are not
// lost. It gets a new number only if no try of it can have changed anything.
func (l *loop) fail(r reply) {
	if hopeless(r.err) {
		for _, w := range l.waiting {
			w.answer <- answer{err: r.err}
		}
		l.waiting, l.repeat, l.failed = nil, false, nil
		l.spec, l.fresh, l.idle = nil, false, time.Time{} // the loop ends
		l.d.specs.Forget(l.name)
		l.giveBack(len(l.granted), Unclaimed)
		return
	}
	if l.failed == nil {
		l.d.o.Logger.Warn("reserving jobs of a pull queue failed; trying again", "queue", l.name, "error", r.err)
	}
	l.failed, l.repeat = r.err, l.repeat || r.asked && !errors.Is(r.err, queue.ErrUnavailable)
	l.askAt = time.Now().Add(l.backoff.Next())
}

// hopeless reports whether repeating the request is pointless.
func hopeless(err error) bool {
	var field *invalid.Error
	return errors.Is(err, queue.ErrUnknownQueue) || errors.Is(err, queue.ErrClosed) || errors.As(err, &field)
}
