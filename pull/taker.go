package pull

import (
	"context"
	"slices"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// kind is what turns must have in common to be interchangeable.
type kind struct {
	lane     string
	cost     int64
	priority int
}

// taker is a caller that waits for a turn of its kind.
type taker struct {
	kind
	got  *Departure // from another caller, which did not wait for this kind
	stop func()     // ends the taker's own wait
}

// await waits for the next turn of a kind, no matter which caller reserved it. Each caller takes any turn from the
// dispatcher, and passes a turn of another kind on.
func (t *Turns) await(ctx context.Context, k kind, until time.Time) (*Departure, error) {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	me := &taker{kind: k, stop: stop}
	t.mu.Lock()
	t.takers = append(t.takers, me)
	t.mu.Unlock()
	for {
		came, of, err := t.next(waiting, until)
		if err == nil && of != k {
			if !t.pass(came, of) {
				t.yield(waiting)
			}
			continue
		}
		got := t.leave(me)
		if got == nil {
			return came, err
		}
		if err == nil { // this caller got two
			t.pass(came, of)
		}
		return got, nil
	}
}

// next returns the next turn of any kind.
func (t *Turns) next(ctx context.Context, until time.Time) (*Departure, kind, error) {
	handed, err := t.dispatcher.Lease(ctx, Request{Queue: t.queue, Max: 1, Wait: time.Until(until)})
	if err != nil {
		if ctx.Err() == nil {
			t.doubt()
		}
		return nil, kind{}, err
	}
	if handed.Jobs() == 0 {
		return nil, kind{}, &Later{turnRetry}
	}
	j := handed.jobs[0]
	if j.ContentType != turnType && j.Lane != TurnLane { // older versions know turns by their lane
		handed.End(false)
		return nil, kind{}, &invalid.Error{
			Field: "queue", Value: t.queue,
			Reason: "holds other jobs, which were left there; give turns a queue of their own",
		}
	}
	handed.End(true)
	return &Departure{Latest: j.latest, LeaseEnd: j.LeaseEnd, turns: t, lease: j.lease()}, kind{j.Lane, j.Cost, j.Priority}, nil
}

// pass gives a turn to a caller that waits for its kind. If there is none, it gives the turn back and reports that.
func (t *Turns) pass(d *Departure, of kind) bool {
	t.mu.Lock()
	for _, other := range t.takers {
		if other.kind == of && other.got == nil {
			other.got = d
			other.stop()
			t.mu.Unlock()
			return true
		}
	}
	t.mu.Unlock()
	_ = t.dispatcher.settle([]queue.Settlement{{Lease: d.lease, Verdict: queue.Release}})
	return false
}

// leave ends a caller's wait, and returns the turn that another caller gave it, if any.
func (t *Turns) leave(me *taker) *Departure {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.takers = slices.DeleteFunc(t.takers, func(o *taker) bool { return o == me })
	return me.got
}

// yieldFor is how long a caller lets other processes take the turn that it gave back.
const yieldFor = 20 * time.Millisecond

func (t *Turns) yield(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(yieldFor):
	}
}
