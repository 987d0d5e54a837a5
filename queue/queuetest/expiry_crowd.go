package queuetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

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
