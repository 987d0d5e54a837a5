package queuetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
)

// expiryLoad is a crowd on one queue whose jobs expire soon.
type expiryLoad struct {
	*rig
	q        string
	accepted atomic.Int64
	over     atomic.Bool // no more jobs are appended
}

func (h *expiryLoad) appendSome(worker int) {
	rnd := rand.New(rand.NewPCG(uint64(worker), 11))
	for n := 0; n < 300 && !h.Failed(); {
		var list []queue.Job
		for range 1 + rnd.IntN(10) {
			n++
			j := jobOfLane([]string{"", laneX, laneY}[rnd.IntN(3)], h.q, fmt.Sprintf("w%d-%d", worker, n))
			if now := h.clock.Now(); rnd.IntN(4) > 0 {
				j.ExpiresAt = now.Add(time.Duration(10+rnd.IntN(60)) * time.Millisecond).Time()
				if rnd.IntN(4) == 0 {
					j.NotBefore = now.Add(5 * time.Millisecond).Time()
				}
			}
			list = append(list, j)
		}
		answers, err := h.e.Append(h.ctx, list)
		if err != nil {
			h.Errorf("append: %v", err)
			return
		}
		for _, a := range answers {
			switch a.Outcome {
			case queue.Accepted:
				h.accepted.Add(1)
			case queue.Full, queue.LaneFull, queue.Lapsed:
			default:
				h.Errorf("append %s: %v, %v", a.ID, a.Outcome, a.Err)
			}
		}
	}
}

// drainSome reserves jobs and ends most of them.
func (h *expiryLoad) drainSome(worker int) {
	rnd, number := rand.New(rand.NewPCG(uint64(worker), 12)), uint64(0)
	for !h.over.Load() && !h.Failed() {
		number++
		res, err := h.e.Reserve(h.ctx, queue.ReserveRequest{
			Partition: h.partition(h.q), Client: queue.Client{ID: fmt.Sprint("d", worker)}, Number: number,
			Max: 1 + rnd.IntN(20),
		})
		if err != nil {
			h.Errorf("reserve: %v", err)
			return
		}
		var list []queue.Settlement
		for _, v := range res.Jobs {
			s := settlement([]queue.Verdict{queue.Deliver, queue.Fail, queue.Release, queue.Bury}[rnd.IntN(4)], v)
			if s.Verdict == queue.Fail {
				s.After = 30 * time.Millisecond
			}
			if rnd.IntN(5) > 0 {
				list = append(list, s)
			}
		}
		if _, err := h.e.Settle(h.ctx, list); err != nil {
			h.Errorf("settle: %v", err)
		}
		h.clock.Advance(time.Millisecond)
	}
}

// meddle cancels, pauses, and checks that the queue is not overfull.
func (h *expiryLoad) meddle() {
	rnd := rand.New(rand.NewPCG(1, 13))
	for !h.over.Load() && !h.Failed() {
		var err error
		switch rnd.IntN(4) {
		case 0:
			err = h.e.Pause(h.ctx, h.q, queue.Pause{Until: h.clock.Now().Add(20 * time.Millisecond).Time()})
			if kind(err) == "field until" { // the time passed meanwhile
				err = nil
			}
		case 1:
			err = h.e.Resume(h.ctx, h.q)
		case 2:
			_, err = h.e.Purge(h.ctx, queue.PurgeRequest{Queue: h.q, State: queue.Scheduled, Limit: 2})
		default:
			var i queue.Info
			if i, err = h.e.Get(h.ctx, h.q); i.Size() > i.Spec.Capacity {
				h.Errorf("it holds %d of %d", i.Size(), i.Spec.Capacity)
			}
		}
		if err != nil {
			h.Errorf("meddling: %v", err)
		}
	}
}

var expiryCrowdRules = []rule{
	{"each accepted job ends once, whatever happens concurrently", func(r *rig) {
		h := &expiryLoad{
			rig: r,
			q: r.queue(
				"q", "2000/s", withCapacity(120), leased(time.Second, 4), everyLane(holding(70)),
				func(s *queue.Spec) { s.Retention.Max = 100_000 },
			),
		}
		var appenders, others sync.WaitGroup
		for w := range 4 {
			appenders.Go(func() { h.appendSome(w) })
		}
		for w := range 3 {
			others.Go(func() { h.drainSome(w) })
		}
		others.Go(h.meddle)
		appenders.Wait()
		h.over.Store(true)
		others.Wait()
		r.check(r.e.Resume(r.ctx, h.q))
		r.clock.Advance(10 * time.Second)
		r.drain(h.q)
		i := r.info(h.q)
		if i.Appended != h.accepted.Load() || i.Delivered+i.TimedOut+i.Died+i.Cancelled != i.Appended ||
			i.TimedOut == 0 || i.Delivered == 0 {
			r.Errorf("%d accepted, %+v", h.accepted.Load(), i)
		}
		count := map[queue.State]int64{}
		for w := range 4 {
			for n := range 400 {
				if j, err := r.e.Job(r.ctx, h.q, fmt.Sprintf("w%d-%d", w, n)); err == nil {
					count[j.State]++
				}
			}
		}
		if count[queue.Delivered] != i.Delivered || count[queue.Expired] != i.TimedOut || count[queue.Dead] != i.Died ||
			count[queue.Cancelled] != i.Cancelled {
			r.Errorf("%v, want %+v", count, i)
		}
		r.looksIn(h.q, 2*time.Second) // no job remains to wait for
	}},
}

// overflowLoad is one queue and its overflow under concurrent load.
type overflowLoad struct {
	*fakeOverflow
	mu        sync.Mutex // for the overflow and the maps
	delivered map[string]int
	cancelled atomic.Int64
	offering  atomic.Int64 // producers that are still running
	late      time.Time
}

// offerAll offers jobs a few at a time and stores those set aside, some only after offering them again.
func (b *overflowLoad) offerAll(ids []string) {
	defer b.offering.Add(-1)
	for i := 0; i < len(ids); i += 5 {
		list := jobs(b.q, ids[i:i+5]...)
		for again := range 1 + i/5%2 {
			answers, err := b.e.Offer(b.ctx, list)
			if err != nil {
				b.Errorf("offer: %v", err)
				return
			}
			for k, a := range answers {
				switch {
				case a.Outcome == queue.Accepted, a.Outcome == queue.Duplicate && a.Ticket == "":
				case a.Outcome == queue.SetAside && i/5%2 == 1 && k%2 == 0: // the answer was lost
				case a.Outcome == queue.SetAside, a.Outcome == queue.Duplicate && again > 0:
					b.mu.Lock()
					b.store(list[k], a)
					b.mu.Unlock()
				default:
					b.Errorf("offer %s: %v, %v", a.ID, a.Outcome, a.Err)
				}
			}
		}
	}
}

// over reports whether all producers have ended and nothing is left.
func (b *overflowLoad) over() bool {
	if b.Failed() || time.Now().After(b.late) {
		return true
	}
	b.mu.Lock()
	left := len(b.jobs)
	b.mu.Unlock()
	if left > 0 || b.offering.Load() > 0 {
		return false
	}
	i, err := b.e.Get(b.ctx, b.q)
	return err != nil || i.Size() == 0
}

func (b *overflowLoad) bringBack(holder string) {
	for !b.over() {
		b.mu.Lock()
		req := fromHolder(holder, b.request(min(20, len(b.jobs))))
		b.mu.Unlock()
		req.Leave = true
		res, err := b.e.Readmit(b.ctx, req)
		if err != nil {
			b.Errorf("readmit: %v", err)
			return
		}
		for i, o := range res.Outcomes {
			if o != readmit.Returned && o != readmit.Passed && o != readmit.NotYet {
				b.Errorf("readmit %s: %v", req.Jobs[i].ID, o)
			}
		}
		b.mu.Lock()
		for len(b.jobs) > 0 && b.jobs[0].Order <= res.Order {
			b.jobs = b.jobs[1:]
		}
		b.mu.Unlock()
	}
}

func (b *overflowLoad) drainAs(client string) {
	p := b.partition(b.q)
	for number := uint64(1); !b.over(); number++ {
		res, err := b.e.Reserve(b.ctx, queue.ReserveRequest{
			Partition: p, Client: queue.Client{ID: client}, Number: number, Max: 7,
		})
		if err != nil {
			b.Errorf("reserve: %v", err)
			return
		}
		var list []queue.Settlement
		for _, v := range res.Jobs {
			list = append(list, settlement(queue.Deliver, v))
		}
		out, err := b.e.Settle(b.ctx, list)
		if err != nil {
			b.Errorf("settle: %v", err)
			return
		}
		b.mu.Lock()
		for i, s := range out {
			if s.State != queue.Delivered {
				b.Errorf("deliver %s: %+v", list[i].ID, s)
			}
			b.delivered[list[i].ID]++
		}
		b.mu.Unlock()
	}
}

func (b *overflowLoad) cancelSome(ids []string) {
	for i := 0; i < len(ids) && !b.over(); i += 7 {
		if state, err := b.e.Cancel(b.ctx, b.q, ids[i]); err == nil && state == queue.Cancelled {
			b.cancelled.Add(1)
		}
	}
}

var overflowCrowdRules = []rule{
	{"concurrent calls: each job leaves once, or was cancelled", func(r *rig) {
		const producers, each = 4, 150
		b := &overflowLoad{
			fakeOverflow: r.overflowOf("q", "unlimited", withCapacity(12)), delivered: map[string]int{},
			late: time.Now().Add(time.Minute),
		}
		b.offering.Store(producers)
		var all []string
		var work []func()
		for p := range producers {
			ids := numbered(fmt.Sprint("p", p, "-"), each)
			all = append(all, ids...)
			work = append(work, func() { b.offerAll(ids) }, func() { b.cancelSome(ids) })
		}
		for _, who := range []string{"one", "two"} {
			work = append(work, func() { b.drainAs(who) }, func() { b.bringBack(who) })
		}
		r.crowd(len(work), func(worker int) int { work[worker](); return 0 })

		// When two clients readmit at the same time, the one that saw fewer jobs behind may have been heard first.
		if _, err := b.e.Readmit(b.ctx, fromHolder("one", b.request(0))); err != nil {
			r.Errorf("readmit: %v", err)
		}
		cancelled := int64(0)
		for _, id := range all {
			switch j := r.job(b.q, id); j.State {
			case queue.Delivered:
				if b.delivered[id] != 1 {
					r.Errorf("%s was delivered %d times", id, b.delivered[id])
				}
			case queue.Cancelled:
				if cancelled++; b.delivered[id] != 0 {
					r.Errorf("%s was delivered, and is cancelled", id)
				}
			default:
				r.Errorf("%s is %v", id, j.State)
			}
		}
		i := r.info(b.q)
		if i.Delivered+i.Cancelled != int64(len(all)) || i.Cancelled != cancelled || cancelled != b.cancelled.Load() {
			r.Errorf(
				"%d delivered and %d cancelled, of %d; cancelled as answered: %d, as seen: %d", i.Delivered,
				i.Cancelled, len(all), b.cancelled.Load(), cancelled,
			)
		}
		if i.SetAside == 0 || i.Returned == 0 || i.Deferred != 0 {
			r.Errorf("%d set aside, %d returned, %d deferred: too few to say anything", i.SetAside, i.Returned, i.Deferred)
		}
	}},
}
