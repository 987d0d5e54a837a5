package pull

import (
	"errors"
	"slices"
	"time"

	"github.com/penstock/penstock/queue"
)

// useful is how many jobs a request for so many could get at once, at the queue's pace. More would
// be granted only to be given back, and their slots with them.
func (l *line) useful(most int) int {
	if l.spec == nil || l.spec.Rate.Unlimited() {
		return most
	}
	return int(min(int64(most), l.spec.Burst+int64(l.spec.Slack.D()/2/max(1, l.spec.Fastest().Interval()))))
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
		l.d.hold(int64(len(j.text)))
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
