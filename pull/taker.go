package pull

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// kind is what turns must have in common to be interchangeable.
type kind struct {
	lane     string
	cost     int64
	costs    string // hash of the costs in other units, as their callers stated them; empty without
	priority int
}

// kind returns the kind of a request.
func (r *TurnRequest) kind() kind {
	return kind{cmp.Or(r.Lane, TurnLane), max(1, r.Cost), costsHash(r.Costs), r.Priority}
}

// A turn's job has costs in all units that limits count, also those that its caller left out. So its id has what its
// caller stated.
const costsMark = "."

// costsHash returns a hash of what a caller stated. Two kinds whose hashes are equal by chance are taken for one: their
// callers may take one another's turns, which are charged to the right budgets all the same.
func costsHash(costs map[string]int64) string {
	if len(costs) == 0 {
		return ""
	}
	return strconv.FormatUint(xxhash.Sum64String(queue.CostsText(costs)), 36)
}

// newTurnID returns the id of a turn of a kind.
func (k *kind) newTurnID() string {
	id := queue.NewID()
	if k.costs != "" {
		id += costsMark + k.costs
	}
	return id
}

// kindOfJob returns the kind of a turn.
func kindOfJob(id, lane string, cost int64, priority int) kind {
	_, costs, _ := strings.Cut(id, costsMark)
	return kind{lane, cost, costs, priority}
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
	for most := leastYield; ; {
		came, of, err := t.next(waiting, until)
		if err == nil && of != k {
			if !t.pass(came, of) {
				yield(waiting, most)
				most = min(2*most, mostYield)
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
		if t.dispatcher.stop.Err() != nil {
			return nil, kind{}, ErrStopped
		}
		return nil, kind{}, &Later{turnRetry}
	}
	j := handed.jobs[0]
	if !IsTurn(&j.Job) && j.Lane != TurnLane { // older versions know turns by their lane
		handed.End(false)
		return nil, kind{}, &invalid.Error{
			Field: "queue", Value: t.queue,
			Reason: "holds other jobs, which were left there; give turns a queue of their own",
		}
	}
	handed.End(true)
	came := &Departure{
		Latest: j.latest, LeaseEnd: j.LeaseEnd, Costs: j.Costs, turns: t, lease: j.lease(), attempt: j.Attempt,
	}
	return came, kindOfJob(j.ID, j.Lane, j.Cost, j.Priority), nil
}

// A turn may come that often, for that long, for whose kind no caller waits here. Meanwhile the other processes have as
// many chances to take it. One that nobody takes was left by a process that died: it could hold up others until it
// expires.
const (
	maxUnclaimed = 25
	unclaimedFor = 10 * time.Second
)

// unclaimed is how often a turn came for whose kind no caller waits here.
type unclaimed struct {
	times int
	since time.Time
}

// abandon notes a turn for whose kind no caller waits here, and reports whether it was left by a process that died. mu
// is held.
func (t *Turns) abandon(id string) bool {
	if t.unclaimed == nil || len(t.unclaimed) >= maxNoted {
		t.unclaimed = map[string]unclaimed{}
	}
	u := t.unclaimed[id]
	if u.times++; u.times == 1 {
		u.since = time.Now()
	}
	if u.times >= maxUnclaimed && time.Since(u.since) >= unclaimedFor {
		delete(t.unclaimed, id)
		return true
	}
	t.unclaimed[id] = u
	return false
}

// maxNoted is the maximum number of turns of which that is noted.
const maxNoted = 1000

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
	abandoned := t.abandon(d.lease.ID)
	t.mu.Unlock()
	_ = t.dispatcher.settle([]queue.Settlement{{Lease: d.lease, Verdict: queue.Release}})
	if abandoned {
		ctx, cancel := context.WithTimeout(context.Background(), leaveWithin)
		defer cancel()
		_, _ = t.engine.Cancel(ctx, t.queue, d.lease.ID) // it may have been taken at last
	}
	return false
}

// leave ends a caller's wait, and returns the turn that another caller gave it, if any.
func (t *Turns) leave(me *taker) *Departure {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.takers = slices.DeleteFunc(t.takers, func(o *taker) bool { return o == me })
	return me.got
}

// A caller lets other processes take the turn that it gave back, for a random time up to these maxima. Two processes
// could otherwise keep on taking one another's turns at the same time.
const leastYield, mostYield = 20 * time.Millisecond, 320 * time.Millisecond

func yield(ctx context.Context, most time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(rand.N(most)):
	}
}
