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

// Batch is the jobs handed to one request. The caller writes Body at once, and then calls End.
type Batch struct {
	Body []byte // the answer, as JSON

	d    *Dispatcher
	jobs []*job
	size int64 // of the jobs, in bytes
}

// hand returns a Batch of the jobs that are not late, and gives back the others.
func (d *Dispatcher) hand(jobs []*job) *Batch {
	b := &Batch{d: d}
	now := time.Now()
	var late []*job
	for _, j := range jobs {
		if now.After(j.latest) {
			late = append(late, j)
			continue
		}
		b.jobs = append(b.jobs, j)
		b.size += int64(len(j.text))
	}
	b.Body = appendAnswer(make([]byte, 0, int(b.size)+len(b.jobs)*100+16), b.jobs, now)
	d.giveBack(late, Late)
	return b
}

// Jobs returns the number of jobs.
func (b *Batch) Jobs() int { return len(b.jobs) }

// End completes the batch. If Body was not written, the client does not know of the jobs and they are given back: End
// waits until the engine has done that, or cannot be reached.
func (b *Batch) End(written bool) {
	if !written {
		b.d.giveBack(b.jobs, Gone)
		return
	}
	b.d.hold(-b.size)
	now := time.Now()
	for _, j := range b.jobs {
		b.d.o.Observer.Handed(j.Queue, now.Sub(j.DepartsFrom))
		if b.d.o.Handed != nil {
			b.d.o.Handed(&j.Reservation, j.DepartsFrom)
		}
	}
}

// giveBack releases jobs. If that fails, their leases run out.
func (d *Dispatcher) giveBack(jobs []*job, why Reason) {
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
		d.o.Logger.Warn("giving jobs back failed; they are granted again when their leases have run out",
			"queue", jobs[0].Queue, "jobs", len(jobs), "error", err)
	}
}

// settle settles jobs, with a few tries.
func (d *Dispatcher) settle(s []queue.Settlement) (err error) {
	for try := range settleTries {
		if try > 0 {
			time.Sleep(settlePause)
		}
		ctx, cancel := context.WithTimeout(d.calls, settleTimeout)
		var answers []queue.Settled
		answers, err = d.engine.Settle(ctx, s)
		cancel()
		if again := withoutActual(s, answers); len(again) > 0 {
			d.o.Logger.Warn("actual costs of a call are not charged: the queue counts other units by now",
				"queue", again[0].Queue)
			return d.settle(again)
		}
		if err == nil {
			return nil
		}
	}
	return err
}
