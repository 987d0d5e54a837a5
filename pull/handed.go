package pull

import (
	"context"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	settleTimeout = 2 * time.Second
	settleTries   = 3
	settlePause   = 100 * time.Millisecond
)

// Handed is what a request was handed. Its answer is to be written at once, and then End called.
type Handed struct {
	Body []byte // the answer

	d    *Desk
	jobs []*job
	held int64
}

// hand makes the answer of those jobs that are not late.
func (d *Desk) hand(jobs []*job) *Handed {
	h := &Handed{d: d}
	now := time.Now()
	var late []*job
	for _, j := range jobs {
		if now.After(j.latest) {
			late = append(late, j)
			continue
		}
		h.jobs = append(h.jobs, j)
		h.held += int64(len(j.text))
	}
	h.Body = appendAnswer(make([]byte, 0, int(h.held)+len(h.jobs)*100+16), h.jobs, now)
	d.giveBack(late, Late)
	return h
}

// Jobs is how many they are.
func (h *Handed) Jobs() int { return len(h.jobs) }

// End says whether the answer was written. If not, the jobs are given back: who asked for them
// does not know of them. It waits until the engine has done that, or cannot be reached.
func (h *Handed) End(written bool) {
	if !written {
		h.d.giveBack(h.jobs, Gone)
		return
	}
	h.d.hold(-h.held)
	now := time.Now()
	for _, j := range h.jobs {
		h.d.o.Observer.Handed(j.Queue, now.Sub(j.departs))
	}
}

// giveBack releases jobs, and returns when that is done or given up; then their leases run out.
func (d *Desk) giveBack(jobs []*job, why Reason) {
	if len(jobs) == 0 {
		return
	}
	s := make([]queue.Settlement, len(jobs))
	for i, j := range jobs {
		s[i] = queue.Settlement{Lease: j.lease(), Verdict: queue.Release}
		d.hold(-int64(len(j.text)))
		d.o.Observer.Released(j.Queue, why)
	}
	if err := d.settle(s); err != nil {
		d.o.Logger.Warn("jobs could not be given back; they are granted again when their leases have run out", "queue", jobs[0].Queue, "jobs", len(jobs), "error", err)
	}
}

// settle settles, and returns when that is done or given up.
func (d *Desk) settle(s []queue.Settlement) (err error) {
	for try := range settleTries {
		if try > 0 {
			time.Sleep(settlePause)
		}
		ctx, cancel := context.WithTimeout(d.calls, settleTimeout)
		_, err = d.engine.Settle(ctx, s)
		cancel()
		if err == nil {
			return nil
		}
	}
	return err
}
