package queuetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/queue"
)

// crowdLoad is a crowd of appenders and drainers on a few queues, with the answers they got for the audit.
type crowdLoad struct {
	*rig
	queues []string

	mu        sync.Mutex
	accepted  map[string]bool // queue/id
	delivered map[string]int
	buried    map[string]int
}

// reserveAll sends one request of a client to every partition and numbers it.
func (h *crowdLoad) reserveAll(client string, number *uint64, most int) []queue.Reservation {
	var all []queue.Reservation
	for p := range h.e.Partitions() {
		*number++
		res, err := h.e.Reserve(h.ctx, queue.ReserveRequest{
			Partition: p, Client: queue.Client{ID: client}, Number: *number, Max: most,
		})
		if err != nil {
			h.Errorf("reserve: %v", err)
			return all
		}
		all = append(all, res.Jobs...)
	}
	return all
}

func (h *crowdLoad) appendSome(worker, count int) {
	rnd := rand.New(rand.NewPCG(uint64(worker), 5))
	for n := 0; n < count && !h.Failed(); {
		var list []queue.Job
		for range 1 + rnd.IntN(20) {
			j := job(h.queues[rnd.IntN(len(h.queues))], fmt.Sprintf("w%d-%04d", worker, n))
			j.Cost = 1 + rnd.Int64N(2)
			list = append(list, j)
			n++
		}
		answers, err := h.e.Append(h.ctx, list)
		if err != nil {
			h.Errorf("append: %v", err)
			return
		}
		h.mu.Lock()
		for i, a := range answers {
			switch a.Outcome {
			case queue.Accepted:
				h.accepted[list[i].Queue+"/"+a.ID] = true
			case queue.Full:
				if a.RetryAfter < time.Millisecond {
					h.Errorf("retry after %v", a.RetryAfter)
				}
			default:
				h.Errorf("append %s: %v, %v", a.ID, a.Outcome, a.Err)
			}
		}
		h.mu.Unlock()
	}
}

// drainSome reserves jobs and ends them in every way, abandoning some.
func (h *crowdLoad) drainSome(worker int, stop *atomic.Bool) {
	rnd := rand.New(rand.NewPCG(uint64(worker), 6))
	client, number := fmt.Sprint("drainer-", worker), uint64(0)
	for !stop.Load() && !h.Failed() {
		var list []queue.Settlement
		for _, v := range h.reserveAll(client, &number, 1+rnd.IntN(40)) {
			if rnd.IntN(20) == 0 {
				continue // until its lease runs out
			}
			verdict := queue.Deliver
			if rnd.IntN(3) == 0 {
				verdict = queue.Verdict(1 + rnd.IntN(4))
			}
			s := settlement(verdict, v)
			if verdict != queue.Deliver { // throttled would stop the queue
				s.After = time.Duration(rnd.IntN(300)) * time.Millisecond
			}
			list = append(list, s)
		}
		h.clock.Advance(time.Duration(rnd.IntN(20)) * time.Millisecond)
		h.end(list)
		if rnd.IntN(4) == 0 {
			h.end(list) // the reply was lost
		}
	}
}

// end settles jobs and notes those that ended. A repeated verdict may get its answer again, so each lease counts once.
func (h *crowdLoad) end(list []queue.Settlement) {
	out, err := h.e.Settle(h.ctx, list)
	if err != nil {
		h.Errorf("settle: %v", err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, s := range out {
		key := list[i].Queue + "/" + list[i].ID + " " + string(list[i].Fence)
		switch s.State {
		case queue.Delivered:
			h.delivered[key] = 1
		case queue.Dead:
			h.buried[key] = 1
		}
		if s.Err != nil {
			h.Errorf("settle %s: %v", key, s.Err)
		}
	}
}

var crowdRules = []rule{
	{"many appenders and drainers with every verdict: each accepted job ends once", func(r *rig) {
		h := &crowdLoad{rig: r, accepted: map[string]bool{}, delivered: map[string]int{}, buried: map[string]int{}}
		for i, rate := range []string{"unlimited", "1000/s", "100/s", "5000/s"} {
			h.queues = append(
				h.queues,
				r.queue(
					fmt.Sprintf("g%d.q%d", i/2, i), rate, leased(2*time.Second, 6), withCapacity(300),
					func(s *queue.Spec) { s.Burst = int64(1 + i) },
				),
			)
		}
		var stop atomic.Bool
		var appenders, drainers, others sync.WaitGroup
		for w := range 6 {
			appenders.Go(func() { h.appendSome(w, 400) })
		}
		for w := range 4 {
			drainers.Go(func() { h.drainSome(w, &stop) })
		}
		others.Go(func() { // specs change meanwhile, and no queue is ever overfull
			rnd := rand.New(rand.NewPCG(1, 7))
			for !stop.Load() && !r.Failed() {
				q := h.queues[rnd.IntN(len(h.queues))]
				switch rnd.IntN(4) {
				case 0:
					s := spec(
						q, []string{"unlimited", "50/s", "2000/s"}[rnd.IntN(3)], leased(2*time.Second, 6),
						withCapacity(300),
					)
					if _, err := r.e.Put(r.ctx, s, queue.AnyRevision); err != nil {
						r.Errorf("put: %v", err)
					}
				case 1:
					if err := r.e.Pause(r.ctx, q, queue.Pause{Reason: "a moment"}); err != nil {
						r.Errorf("pause: %v", err)
					}
					if err := r.e.Resume(r.ctx, q); err != nil {
						r.Errorf("resume: %v", err)
					}
				default:
					if i, err := r.e.Get(r.ctx, q); err != nil || i.Size() > 300 {
						r.Errorf("%s holds %d of 300, %v", q, i.Size(), err)
					}
				}
			}
		})
		appenders.Wait()
		stop.Store(true)
		drainers.Wait()
		others.Wait()
		if r.Failed() {
			return
		}
		h.finish()
		h.judge()
	}},
	{"one lease has one winner", func(r *rig) {
		q := r.queue("q", "unlimited")
		for round := range 20 {
			id := fmt.Sprint("j", round)
			r.accept(q, id)
			v := r.grant(q, 1, id)[0]
			verdicts := []queue.Verdict{queue.Deliver, queue.Bury, queue.Deliver, queue.Bury, queue.Deliver, queue.Bury}
			states := make([]queue.State, len(verdicts))
			r.crowd(len(verdicts), func(w int) int {
				out, err := r.e.Settle(r.ctx, []queue.Settlement{settlement(verdicts[w], v)})
				if err != nil {
					r.Errorf("settle: %v", err)
					return 0
				}
				states[w] = out[0].State
				return 0
			})
			end := r.job(q, id).State
			for w, s := range states {
				won := map[queue.Verdict]queue.State{
					queue.Deliver: queue.Delivered, queue.Bury: queue.Dead,
				}[verdicts[w]] == end
				if won != (s == end) || !won && s != queue.StateNone {
					r.Fatalf("the job is %v; %v was answered %v", end, verdicts[w], s)
				}
			}
		}
	}},
	{"a job is granted to one client only", func(r *rig) {
		q := r.queue("q", "unlimited")
		want := numbered("j", 400)
		r.accept(q, want...)
		var mu sync.Mutex
		seen := map[string]int{}
		r.crowd(8, func(w int) int {
			p, number := r.partition(q), uint64(0)
			for {
				number++
				res, err := r.e.Reserve(r.ctx, queue.ReserveRequest{
					Partition: p, Client: queue.Client{ID: fmt.Sprint("c", w)}, Number: number, Max: 7,
				})
				if err != nil {
					r.Errorf("reserve: %v", err)
				}
				if err != nil || len(res.Jobs) == 0 {
					return 0
				}
				mu.Lock()
				for _, v := range res.Jobs {
					seen[v.ID]++
				}
				mu.Unlock()
			}
		})
		for _, id := range want {
			if seen[id] != 1 {
				r.Errorf("%s was granted %d times", id, seen[id])
			}
		}
	}},
}

// finish drains what remains as one client, and delivers every job.
func (h *crowdLoad) finish() {
	h.Helper()
	number := uint64(0)
	for range 100_000 {
		var list []queue.Settlement
		for _, v := range h.reserveAll("last", &number, queue.MaxReserve) {
			list = append(list, settlement(queue.Deliver, v))
		}
		h.end(list)
		if len(list) > 0 {
			continue
		}
		t, err := h.e.Totals(h.ctx)
		h.check(err)
		if t.Waiting+t.Scheduled+t.Leased == 0 {
			return
		}
		h.clock.Advance(20 * time.Millisecond)
	}
	h.Fatal("the queues are never empty")
}

// judge audits the run: each accepted job has ended once, and the engine's counts match its answers.
func (h *crowdLoad) judge() {
	h.Helper()
	ended := map[string]int{}
	for _, list := range []map[string]int{h.delivered, h.buried} {
		for key := range list {
			var id, fence string
			_, _ = fmt.Sscan(key, &id, &fence)
			ended[id]++
		}
	}
	for id, n := range ended {
		if !h.accepted[id] || n != 1 {
			h.Errorf("%s ended %d times, accepted: %v", id, n, h.accepted[id])
		}
	}
	var sum, died int64
	for _, q := range h.queues {
		i := h.info(q)
		sum += i.Appended
		died += i.Died
	}
	// No answer reported the jobs that died because a lease ran out.
	if int64(len(h.accepted)) != sum || int64(len(ended)) > sum || int64(len(h.delivered)) != sum-died {
		h.Errorf("%d were accepted and %d counted, %d delivered, %d died", len(h.accepted), sum, len(h.delivered), died)
	}
	for key := range h.accepted {
		if ended[key] == 1 {
			continue
		}
		for _, q := range h.queues {
			if len(key) > len(q) && key[:len(q)+1] == q+"/" {
				h.state(queue.Dead, q, key[len(q)+1:])
			}
		}
	}
}
