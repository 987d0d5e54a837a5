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
	// A partition that granted something within handOverAge is handed over, which
	// takes no longer than handOverTime.
	handOverAge  = 5 * time.Second
	handOverTime = time.Second
)

// partition asks one part of the store for departures, in one goroutine.
type partition struct {
	d       *drainer
	index   int
	settler *settler
	leases  *leases

	number   uint64
	clock    departure.Clock
	failures int
	granted  time.Time     // when it last granted something
	bell     chan struct{} // 1: one of the two below was set
	ask      atomic.Bool   // ask now
	back     atomic.Bool   // ask after the backup time, unless something is due sooner
	sweeping atomic.Bool

	// Of the pool, under its mu: what its queues hold, and which are short by the last answer.
	uses  map[string]*use
	short map[string]struct{}
}

// run asks until the drainer stops.
func (p *partition) run() {
	p.loop()
	p.handOver()
}

// loop asks and asks. Every job that it was granted is an attempt of its own.
func (p *partition) loop() {
	for {
		// Short jobs just begun get the chance to end first: it makes one large
		// request out of two small ones.
		runtime.Gosched()
		if p.clock.Resync(time.Now()) {
			p.seen()
		}
		n := p.d.tokens.take(p.d.stop, queue.MaxReserve, p.seen)
		if n == 0 {
			return
		}
		claimed, pause := p.d.appetite.claim(n, time.Now())
		if claimed == 0 {
			p.d.tokens.put(n)
			if !p.sleep(pause, pause) {
				return
			}
			continue
		}
		most, shares := p.d.pool.shares(p)
		if most = min(most, claimed); n > most {
			p.d.tokens.put(n - most)
			n = most
		}
		res, ok := p.reserve(n, n, shares)
		p.d.appetite.unclaim(claimed)
		if !ok {
			return
		}
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

// handOver makes sure that a partition under load is watched by somebody else
// before this drainer leaves. The engine believes in its watcher until some time after it
// should have asked; that would be a pause in the outflow. But a watcher that was
// granted all it asked for is held to be busy: it gives the watch up, and
// everybody is woken. So it asks for one job, and gives it back at once: the slot is not
// lost by that, because no later one was granted.
func (p *partition) handOver() {
	begin := time.Now()
	for begin.Sub(p.granted) < handOverAge {
		res, _ := p.reserve(1, 0, nil)
		left := handOverTime - time.Since(begin)
		if len(res.Jobs) > 0 || res.Next <= 0 || res.Next > left || p.d.work.Err() != nil {
			return
		}
		p.rest(res.Next)
	}
}

// reserve makes one request for at most limit jobs, of some queues for no more than their shares, as often as it
// takes, and starts what it grants. It is given held tokens and leaves none behind. It reports false when the
// drainer stops.
func (p *partition) reserve(limit, held int, shares map[string]int) (queue.Reserved, bool) {
	p.number++
	req := queue.ReserveRequest{Partition: p.index, Client: p.d.client, Number: p.number, Max: limit, Shares: shares}
	var backoff departure.Backoff
	for tries, repeated := 0, false; ; repeated = true {
		// What rang before the request is answered by it; what rings later is not.
		p.ask.Store(false)
		p.back.Store(false)
		a, err := p.call(req, departure.Timeout)
		if err == nil {
			p.recovered()
			if repeated {
				a.Short = p.d.pool.stillShort(p, a.Short)
			}
			p.begin(&a, held)
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
			p.d.tokens.put(held)
			return queue.Reserved{}, false
		}
		p.failures++
		p.d.complain("reserving failed; repeating the request", err, "partition", p.index)
		// The request is repeated under its number, so that what it was granted, if
		// it was, is not lost. Until then the other partitions have more use for the
		// handlers; should the grant turn out larger, begin takes them back.
		if held > 0 {
			p.d.tokens.put(held)
			held = 0
		}
		p.d.pool.unclaim(p)
		req.Max = 1
		p.rest(backoff.Next())
	}
}

// seen asks for nothing, so that the engine knows that this drainer lives while all of its handlers are busy, or the
// drainer what the engine's clock shows. Nothing is lost if that fails.
func (p *partition) seen() {
	p.number++
	_, _ = p.call(queue.ReserveRequest{Partition: p.index, Client: p.d.client, Number: p.number}, departure.Timeout)
}

// call makes a request once, and tells what it brought to light.
func (p *partition) call(req queue.ReserveRequest, timeout time.Duration) (departure.Answer, error) {
	leave := p.d.turnstile.enter(p.d.work)
	defer leave()
	a, err := departure.Ask(p.d.work, p.d.engine, &p.clock, req, timeout)
	p.d.observer.Reserved(p.index, req.Max, len(a.Jobs), a.Trip, err)
	for _, name := range a.Expired {
		p.d.observer.Expired(name)
		p.d.complain("a lease ran out: its drainer died, or hangs; its job is tried again, held or dead, "+
			"as on_unknown of the queue says", nil, "queue", name)
	}
	for name, slots := range a.Lost {
		p.d.observer.Lost(name, slots)
	}
	return a, err
}

// begin starts jobs with n tokens and puts back what is left over.
func (p *partition) begin(granted *departure.Answer, n int) {
	if extra := len(granted.Jobs) - n; extra > 0 {
		n += p.d.tokens.tryTake(extra)
	}
	if len(granted.Jobs) > 0 {
		p.granted = time.Now()
	}
	stopping := p.d.stop.Err() != nil
	if len(granted.Jobs) > 0 && !stopping {
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
		a := p.newAttempt(&granted.Jobs[i], granted.Windows[i], granted.At.Add(-granted.Trip))
		a.batch = batch
		switch {
		case stopping:
			a.giveBack(Stopping)
			batch.over()
		case used == n:
			a.giveBack(NoHandler)
			batch.over()
		case !p.d.pool.begin(p, a.job.Queue):
			a.giveBack(NoHandler)
			batch.over()
			if !slices.Contains(granted.Short, a.job.Queue) {
				granted.Short = append(granted.Short, a.job.Queue)
			}
		default:
			used++
			a.pace = p.d.paces.use(a.job.Queue)
			p.leases.add(a)
			p.d.jobs.Add(1)
			p.d.workers.begin(p.d.stop, a)
		}
	}
	p.d.tokens.put(n - used)
	p.d.pool.unclaim(p)
}

func (p *partition) newAttempt(job *queue.Reservation, w departure.Window, asked time.Time) *attempt {
	a := &attempt{
		job: Job{Reservation: *job}, part: p, asked: asked, Window: w, extendAt: w.Departs.Add(job.Lease / 3),
	}
	a.ctx, a.cancel = context.WithCancelCause(p.d.work)
	return a
}

func (p *partition) recovered() {
	if p.failures > 0 {
		p.d.log.Info("reserving works again", "partition", p.index, "failures", p.failures)
		p.failures = 0
	}
}

// sleep waits for next, or less if somebody rings, and reports false when the drainer
// stops.
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
			if p.back.Swap(false) && time.Until(due) > backup {
				due = time.Now().Add(backup)
				timer.Reset(backup)
			}
		}
	}
}

// woken is told of a Wakeup of this partition.
func (p *partition) woken(client string) {
	if client == "" || client == p.d.client.ID {
		p.ask.Store(true)
	} else {
		p.back.Store(true)
	}
	select {
	case p.bell <- struct{}{}:
	default:
	}
}

// rest pauses between repeated requests; it lasts when the drainer is stopping, but
// not beyond its grace period.
func (p *partition) rest(pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.d.work.Done():
	}
}

// sweep frees what deleted queues left.
func (p *partition) sweep() {
	defer p.d.loops.Done()
	defer p.sweeping.Store(false)
	if err := departure.Sweep(p.d.stop, p.d.engine, p.index); err != nil {
		p.d.complain("sweeping failed", err, "partition", p.index)
	}
}
