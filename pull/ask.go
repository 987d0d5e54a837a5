package pull

import (
	"errors"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/departure"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// client is a client of the engine: all that ask under one worker's name, so that a job's timeline has it.
type client struct {
	queue.Client
	number uint64
}

// reply is what came of asking the engine once.
type reply struct {
	departure.Answer
	spec  *queue.Spec // as it is known now
	asked bool        // for jobs, and not only for the spec
	err   error
}

// useful is how many jobs a request for so many could get at once, at the queue's pace. More would be granted only to
// be given back, and their slots with them.
func (l *loop) useful(most int) int {
	if l.spec == nil || l.spec.Rate.Unlimited() {
		return most
	}
	return int(min(int64(most), l.spec.Burst+int64(l.spec.EffectiveSlack()/2/max(1, l.spec.Fastest().Interval()))))
}

// wants is how many jobs more those who wait could get who are next and have the same worker's name.
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

// clientOf returns the client that asks for a worker.
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

// ask asks the engine, if there is reason to.
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
			l.repeat = false // what it was granted is taken back when the leases have run out
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
		l.replies <- l.d.ask(&l.clock, req, spec)
	}()
}

// ask asks the engine: first of all for the queue's spec, later for jobs.
func (d *Dispatcher) ask(clock *departure.Clock, req queue.ReserveRequest, spec *queue.Spec) reply {
	if spec == nil {
		spec, err := d.specs.AtLeast(d.calls, req.Queue, 0)
		if err == nil && !spec.Pull {
			err = queue.NotPulled(req.Queue)
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
	// else the slack that was known will do
	if changed, err := d.specs.AtLeast(d.calls, req.Queue, revision); err == nil {
		spec = changed
	}
	return reply{Answer: a, spec: spec, asked: true}
}

// call makes a request once, and tells what it brought to light.
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

// answered takes in what the engine answered.
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
		w.seen = w.seen || w.asked && r.Next > 0 // else there is more for those whose turn it was not
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
	slices.SortStableFunc(l.granted, func(a, b *job) int { return a.Earliest.Compare(b.Earliest) })
	if r.Garbage {
		l.d.sweep()
	}
	if l.stopped {
		l.giveBack(len(l.granted), Stopping)
	}
}

// fail decides whether the request is repeated. What it was granted, if it was, must not be lost: so it keeps its
// number, unless nothing was changed by it, and by none that it repeats.
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
		l.d.o.Logger.Warn("asking for jobs of a pull queue failed; trying again", "queue", l.name, "error", r.err)
	}
	l.failed, l.repeat = r.err, l.repeat || r.asked && !errors.Is(r.err, queue.ErrUnavailable)
	l.askAt = time.Now().Add(l.backoff.Next())
}

// hopeless reports whether asking again mends nothing.
func hopeless(err error) bool {
	var field *invalid.Error
	return errors.Is(err, queue.ErrUnknownQueue) || errors.Is(err, queue.ErrClosed) || errors.As(err, &field)
}
