package drain

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/internal/departure"
	"github.com/penstock/penstock/queue"
)

const (
	// A partition that granted something within handOverAge is handed over, which takes at most handOverTime.
	handOverAge  = 5 * time.Second
	handOverTime = time.Second
	// leastAsked is the least number of jobs that a partition asks for while handlers are free.
	leastAsked = 32
)

// partition asks one part of the store for departures, in one goroutine.
type partition struct {
	d       *drainer
	index   int
	settler *settler
	leases  *leases

	number   uint64
	wants    int // maximum number of jobs of the next request
	clock    departure.Clock
	failures int
	granted  time.Time     // when it last granted something
	bell     chan struct{} // 1: ask or backup was set
	ask      atomic.Bool   // ask now
	backup   atomic.Bool   // ask after the backup time, unless something is due sooner
	sweeping atomic.Bool

	// The pool's view of the partition, under the pool's mu.
	uses   map[string]*use
	short  map[string]struct{}
	losses map[string]*losses // by group
}

// run requests jobs until the drainer stops.
func (p *partition) run() {
	p.loop()
	p.handOver()
}

func (p *partition) loop() {
	for {
		// Let short jobs that have just started end first: one large request is better than two small ones.
		runtime.Gosched()
		for range 2 { // the first call on a new connection says little
			if p.clock.Resync(time.Now()) {
				p.ping()
			}
		}
		n := p.d.tokens.acquire(p.d.stop, p.wants, p.ping)
		if n == 0 {
			return
		}
		claimed, pause := p.d.appetite.claim(n, time.Now())
		if claimed == 0 {
			p.d.tokens.release(n)
			if !p.sleep(pause, pause) {
				return
			}
			continue
		}
		most, shares := p.d.pool.shares(p)
		if most = min(most, claimed); n > most {
			p.d.tokens.release(n - most)
			n = most
		}
		res, ok := p.reserve(n, n, shares)
		p.d.appetite.unclaim(claimed)
		if !ok {
			return
		}
		// A partition with little to do holds few handlers while its request is under way, which can take long.
		p.wants = min(queue.MaxReserve, max(leastAsked, 2*len(res.Jobs)))
		if res.Garbage && p.sweeping.CompareAndSwap(false, true) {
			p.d.loops.Add(1)
			go p.sweep()
		}
		next := res.Next
		if p.d.pool.note(p, res.Short) {
			next = 0
		}
		if len(res.Jobs) == 0 {
			next = max(next, departure.LeastPause)
		}
		if next > 0 && !p.sleep(next, res.Backup) {
			return
		}
	}
}

// handOver makes sure that another client watches a partition under load before this drainer leaves. The engine trusts
// its watcher until some time after the next request was due, which would be a pause in the outflow. But a watcher that
// is granted all it asked for is taken to be busy: it loses the watch, and all clients are woken. So handOver asks for
// one last job.
func (p *partition) handOver() {
	began := time.Now()
	for began.Sub(p.granted) < handOverAge {
		res, _ := p.reserve(1, 0, nil)
		left := handOverTime - time.Since(began)
		if len(res.Jobs) > 0 || res.Next <= 0 || res.Next > left || p.d.work.Err() != nil {
			return
		}
		p.rest(res.Next)
	}
}

// reserve requests at most limit jobs, and of the queues in shares no more than their shares. It repeats the request
// until it is answered, and starts the granted jobs. It owns held tokens, and uses or returns all of them. It returns
// false when the drainer stops.
func (p *partition) reserve(limit, held int, shares map[string]int) (queue.Reserved, bool) {
	p.number++
	req := queue.ReserveRequest{Partition: p.index, Client: p.d.client, Number: p.number, Max: limit, Shares: shares}
	var backoff departure.Backoff
	for tries, repeated := 0, false; ; repeated = true {
		// The request answers earlier wakeups, but not later ones.
		p.ask.Store(false)
		p.backup.Store(false)
		a, err := p.call(req, departure.Timeout)
		if err == nil {
			p.recovered()
			if repeated {
				a.Short = p.d.pool.stillShort(p, a.Short)
			}
			p.start(&a, held)
			return a.Reserved, p.d.stop.Err() == nil
		}

		if errors.Is(err, queue.ErrClosed) {
			p.d.fail(err)
		}
		stopping := p.d.stop.Err() != nil
		if stopping {
			tries++
		}
		if stopping && (tries >= departure.StopTries || p.d.work.Err() != nil || errors.Is(err, queue.ErrClosed) ||
			errors.Is(err, queue.ErrUnavailable)) {
			p.d.tokens.release(held)
			return queue.Reserved{}, false
		}
		p.failures++
		p.d.complain("reserving failed; repeating the request", err, "partition", p.index)
		// The request is repeated under its number, so that jobs it may have been granted are not lost. Until then other
		// partitions can use the handlers; if the grant turns out larger, start acquires more.
		if held > 0 {
			p.d.tokens.release(held)
			held = 0
		}
		p.d.pool.unclaim(p)
		req.Max = 1
		p.rest(backoff.Next())
	}
}

// ping makes a request for no jobs. It shows the engine that this drainer is alive while all handlers are busy, and
// reads the engine's clock. Nothing is lost if it fails.
func (p *partition) ping() {
	p.number++
	_, _ = p.call(queue.ReserveRequest{Partition: p.index, Client: p.d.client, Number: p.number}, departure.Timeout)
}

// call makes a request once, and reports its side results to the observer.
func (p *partition) call(req queue.ReserveRequest, timeout time.Duration) (departure.Answer, error) {
	leave := p.d.turnstile.enter(p.d.work)
	defer leave()
	a, err := departure.Ask(p.d.work, p.d.engine, &p.clock, req, timeout)
	p.d.observer.Reserved(p.index, req.Max, len(a.Jobs), a.Trip, err)
	for _, name := range a.Expired {
		p.d.observer.Expired(name)
		p.d.complain("a lease ran out because its drainer died or hangs; its job is retried, held or dead by the "+
			"queue's on_unknown", nil, "queue", name)
	}
	for name, slots := range a.Lost {
		p.d.observer.Lost(name, slots)
		if p.failures == 0 { // not because of an outage
			p.d.pool.lose(p, name, slots)
		}
	}
	return a, err
}

// start starts the granted jobs. It owns n tokens, acquires more if it can, and returns those left over.
func (p *partition) start(granted *departure.Answer, n int) {
	if extra := len(granted.Jobs) - n; extra > 0 {
		n += p.d.tokens.tryAcquire(extra)
	}
	if len(granted.Jobs) > 0 {
		p.granted = time.Now()
	}
	ending := p.d.starts.Err() != nil
	if len(granted.Jobs) > 0 && !ending {
		revisions := make(map[string]int64)
		for i := range granted.Jobs {
			if i > 0 && granted.Jobs[i].Queue == granted.Jobs[i-1].Queue {
				continue
			}
			revisions[granted.Jobs[i].Queue] = granted.Jobs[i].Revision
		}
		p.d.specs.Expect(revisions)
	}
	used, batch := 0, p.d.appetite.batch(len(granted.Jobs), granted.At)
	for i := range granted.Jobs {
		dl := p.newDelivery(&granted.Jobs[i], granted.Windows[i], granted.At.Add(-granted.Trip))
		dl.batch = batch
		switch {
		case ending:
			dl.giveBack(Stopping)
			batch.over()
		case used == n:
			dl.giveBack(NoHandler)
			batch.over()
		case !p.d.pool.assign(p, dl.job.Queue):
			dl.giveBack(NoHandler)
			batch.over()
			if !slices.Contains(granted.Short, dl.job.Queue) {
				granted.Short = append(granted.Short, dl.job.Queue)
			}
		default:
			used++
			dl.pace = p.d.paces.acquire(dl.job.Queue)
			p.leases.add(dl)
			p.d.jobs.Add(1)
			p.d.workers.start(p.d.stop, dl)
		}
	}
	p.d.tokens.release(n - used)
	p.d.pool.unclaim(p)
}

func (p *partition) newDelivery(job *queue.Reservation, w departure.Window, asked time.Time) *delivery {
	dl := &delivery{
		job: Job{Reservation: *job}, part: p, asked: asked, Window: w, extendAt: w.DepartsFrom.Add(job.Lease / 3),
		latest: w.Latest(queue.MostSlack),
	}
	dl.ctx, dl.cancel = context.WithCancelCause(p.d.work)
	return dl
}

func (p *partition) recovered() {
	if p.failures > 0 {
		p.d.log.Info("reserving works again", "partition", p.index, "failures", p.failures)
		p.failures = 0
	}
}

// sleep waits for next, or less after a wakeup. It returns false when the drainer stops.
func (p *partition) sleep(next, backup time.Duration) bool {
	due := time.Now().Add(next)
	timer := time.NewTimer(next)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-p.d.stop.Done():
			return false
		case <-p.bell:
			if p.ask.Load() {
				return true
			}
			if p.backup.Swap(false) && time.Until(due) > backup {
				due = time.Now().Add(backup)
				timer.Reset(backup)
			}
		}
	}
}

// woken handles a Wakeup of this partition for one client, or for all if client is empty.
func (p *partition) woken(client string) {
	if client == "" || client == p.d.client.ID {
		p.ask.Store(true)
	} else {
		p.backup.Store(true)
	}
	select {
	case p.bell <- struct{}{}:
	default:
	}
}

// rest pauses between repeated requests, also while the drainer stops, but not beyond its grace period.
func (p *partition) rest(pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.d.work.Done():
	}
}

// sweep frees what deleted queues left behind.
func (p *partition) sweep() {
	defer p.d.loops.Done()
	defer p.sweeping.Store(false)
	if err := departure.Sweep(p.d.stop, p.d.engine, p.index); err != nil {
		p.d.complain("sweeping deleted queues failed", err, "partition", p.index)
	}
}
