package boltq

import (
	"context"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const takeBackMax = 100 // leases that ran out, a call

// grant is what a client was granted by one request.
type grant struct {
	drainer string // in timelines
	max     int    // jobs

	jobs    []granted
	bytes   int
	needs   []ceilingNeed
	lost    map[string]int64
	full    bool  // Max or MaxReserveBytes were reached
	expired int   // how many jobs have ended for it
	noRoom  bool  // the file had none when it began
	err     error // the ceilings it needs could not be written
	// expireCall ends the jobs that would depart after they have expired; nil if there are none.
	expireCall *call
	// leaseCall puts leases on file; nil if none needs that.
	leaseCall *call
	shares
}

type granted struct {
	job     *job
	fence   fence
	departs leaky.Instant
	attempt int
}

// ceilingNeed is the ceilings that must be on disk before a grant is answered.
type ceilingNeed struct {
	queue   *queueState
	ceiling ceilings
	pacer   leaky.Pacer   // whose TAT it is
	changed leaky.Instant // as of when the limits are
	limits  []queue.Limit // that they are of: more than one change may be made at one instant
}

// Reserve implements queue.Outflow.
func (e *Engine) Reserve(ctx context.Context, r queue.ReserveRequest) (queue.Reserved, error) {
	if err := ctx.Err(); err != nil {
		return queue.Reserved{}, err
	}
	if err := checkRequest(&r); err != nil {
		return queue.Reserved{}, err
	}
	var out queue.Reserved
	e.mu.Lock()
	if err := e.usable(); err != nil {
		e.mu.Unlock()
		return queue.Reserved{}, err
	}
	now := e.now()
	cl := e.registerClient(r.Client, now)
	cl.isPuller = r.Queue != ""
	fresh := cl.isNew(r.Number)
	pulled, err := e.pullQueueOf(&r, fresh)
	if err != nil {
		e.mu.Unlock()
		return queue.Reserved{}, err
	}
	if pulled != nil {
		pulled.lastAsked = now
	} else {
		e.lastReserve = now
	}
	g := &grant{drainer: r.Client.Shown(), max: r.Max, noRoom: e.outOfSpace(), shares: newShares(r), full: r.Max == 0}
	for _, step := range []func() *call{
		func() *call { return e.takeBack(now, pulled, &out.Expired) },
		func() *call { // what expires before a pause ends does not change since when others could have left
			c := e.expire(now)
			g.expired = c.enqueued
			e.endPauses(c, pulled, now)
			return c
		},
	} {
		if !fresh {
			break
		}
		c := step()
		if c.enqueued == 0 {
			continue
		}
		e.mu.Unlock()
		if err := c.await(ctx); err != nil {
			return queue.Reserved{}, err
		}
		e.mu.Lock()
		if err := e.usable(); err != nil {
			e.mu.Unlock()
			return queue.Reserved{}, err
		}
		now, fresh = e.now(), cl.isNew(r.Number)
		if pulled, err = e.pullQueueOf(&r, fresh); err != nil {
			e.mu.Unlock()
			return queue.Reserved{}, err
		}
	}
	switch {
	case fresh:
		if pulled != nil {
			e.grantPulled(g, pulled, now)
		} else {
			e.grantDue(g, now)
		}
		cl.lastNumber, cl.grant = r.Number, g
		out.Lost, out.Short = g.lost, g.short
		cl.short, g.newlyShort = g.short, g.noteShort(cl.short)
		e.trimSome(now)
	case r.Number == cl.lastNumber:
		g = cl.grant
	default: // overtaken by a later request; its answer goes nowhere
		g = &grant{}
	}
	if pulled != nil {
		out.Next = e.untilPulled(pulled, g.full, now)
	} else {
		out.Next, out.Backup = e.planSleep(r.Client.ID, g, now)
		e.restorePassed(g)
	}
	out.Garbage = e.needsSweep(now)
	e.mu.Unlock()

	if err := e.persistCeilings(ctx, cl, g); err != nil {
		return queue.Reserved{}, err
	}
	if err := e.readJobs(g, &out); err != nil {
		return queue.Reserved{}, err
	}
	return out, nil
}

func checkRequest(r *queue.ReserveRequest) error {
	if r.Partition != 0 && r.Queue == "" {
		return &queue.FieldError{Field: "partition", Value: fmt.Sprint(r.Partition), Reason: "an embedded store has only partition 0"}
	}
	return r.Check()
}

// takeBack takes back leases that ran out, before drainers' queues are visited, or the one that is
// pulled from.
func (e *Engine) takeBack(now leaky.Instant, pulled *queueState, expired *[]string) *call {
	c := newCall()
	var later []*lease
	for c.enqueued < takeBackMax && e.leases.len() > 0 && e.leases.top().deadline <= now && !e.outOfSpace() {
		ls := e.leases.pop()
		switch q := ls.job.lane.queue; {
		case !q.live: // the queue was deleted, and its leases with it
		case q.busy != nil || ls.job.busy != nil: // what becomes of it is being decided
			later = append(later, ls)
		default:
			e.takeBackOne(c, ls.job, now, q == pulled || pulled == nil && !q.spec.Pull, expired)
		}
	}
	for _, ls := range later {
		e.leases.push(ls)
	}
	return c
}

func (e *Engine) takeBackOne(c *call, j *job, now leaky.Instant, visits bool, expired *[]string) {
	j.busy = c
	ls := j.lease
	b := j.lane.queue.leaseLost(ls, now)
	o := leaseOutcome{call: c, job: j, at: now, failed: true, reason: b.reason, visited: visits}
	o.onExpired = func() { *expired = append(*expired, j.lane.queue.spec.Name) }
	if b.state == queue.Dead {
		d := e.newEndedJob(j, queue.Dead, now)
		d.attempts, d.reason = b.attempts, b.reason
		e.enqueue(c, &endChange{leaseOutcome: o, ended: d, timeline: b.past})
		return
	}
	to := *ls
	to.attempts, to.reason, to.timeline, to.heapIndex, to.fence, to.persisted = b.attempts, b.reason, b.past, -1, fence{}, false
	if b.state == queue.Held {
		to.due = now
	}
	e.enqueue(c, &returnChange{leaseOutcome: o, next: to, state: b.state})
}

// lostLease is what becomes of a job whose lease has run out.
type lostLease struct {
	state    queue.State
	attempts int
	reason   string
	past     []byte
}

func (q *queueState) leaseLost(ls *lease, now leaky.Instant) lostLease {
	a := lostLease{state: q.spec.Abandoned(), attempts: ls.attempts + 1, reason: queue.RanOutUnknown}
	how := queue.AttemptUnknown
	switch a.state {
	case queue.Waiting:
		how, a.reason = queue.AttemptLost, queue.RanOut
		if a.attempts >= q.spec.Retry.MaxAttempts {
			a.state = queue.Dead
		}
	case queue.Dead:
		how = queue.AttemptDied
	}
	a.past = queue.AppendAttempt(ls.timeline, ls.attempt(how, "", now))
	return a
}

// persistCeilings waits until the ceilings that a grant needs are on disk, and those of its leases that are to be. When they
// cannot be written the jobs are given back: nobody has heard of their leases.
func (e *Engine) persistCeilings(ctx context.Context, cl *client, g *grant) error {
	if g.expireCall != nil {
		if err := g.expireCall.await(ctx); err != nil {
			return err
		}
	}
	if g.leaseCall != nil {
		if err := g.leaseCall.await(ctx); err != nil {
			return err
		}
		if err := g.leaseCall.err; err != nil {
			e.mu.Lock()
			e.takeGrantBack(cl, g, err)
			e.mu.Unlock()
			return err
		}
	}
	for {
		e.mu.Lock()
		if err := e.usable(); err != nil && len(g.needs) > 0 {
			e.takeGrantBack(cl, g, err) // nobody would write them
		}
		wait, own := e.raiseNeeds(g)
		err := g.err
		e.mu.Unlock()
		if len(wait) == 0 && own == nil {
			return err
		}
		if own != nil {
			if err := own.await(ctx); err != nil {
				return err
			}
			if own.err != nil {
				e.mu.Lock()
				e.takeGrantBack(cl, g, own.err)
				e.mu.Unlock()
				return own.err
			}
		}
		if err := awaitAll(ctx, wait); err != nil {
			return err
		}
	}
}

// raiseNeeds returns the calls under way that will raise the ceilings of g, and
// one of its own if those are not enough.
func (e *Engine) raiseNeeds(g *grant) (wait []*call, own *call) {
	for _, n := range g.needs {
		q := n.queue
		// Another rate moves the TAT: then what the bucket, which remembers the grant, needs is
		// not what the grant left.
		ceiling := q.neededCeilings()
		if n.pacer == q.pacer && n.changed == q.changed && slices.Equal(n.limits, q.spec.Limits) {
			ceiling = ceiling.min(n.ceiling)
		}
		switch {
		case g.err != nil || !q.live || q.ceiling.covers(ceiling):
		case q.busy != nil: // whose change may lower it; what it needs is known then
			wait = append(wait, q.busy)
		case q.pledged.covers(ceiling):
			if q.pledgedBy != own {
				wait = append(wait, q.pledgedBy)
			}
		default:
			if own == nil {
				own = newCall()
			}
			to := q.raisedAhead(ceiling)
			q.pledge(to, own)
			e.enqueue(own, &ceilingChange{call: own, queue: q, to: to})
		}
	}
	return wait, own
}

// takeGrantBack gives back jobs whose grant could not be answered. Their slots
// are lost.
func (e *Engine) takeGrantBack(cl *client, g *grant, err error) {
	if g.err != nil {
		return
	}
	g.err = err
	now := e.now()
	for _, h := range g.jobs {
		if j := h.job; j.lane.queue.live && j.busy == nil && j.state == queue.Leased && j.lease.fence == h.fence {
			e.dropLease(j)
			e.putWaiting(j, now)
			e.wakeForExpiry(j, now)
			j.lane.queue.outflow.add(now, -1)
			e.armAndWake(j.lane.queue, now)
		}
	}
	if cl.grant == g {
		cl.grant = nil // the same request may be tried again
	}
}

// readJobs reads the payloads of a grant's jobs and counts their departures from
// now. Jobs whose lease was lost meanwhile are left out.
func (e *Engine) readJobs(g *grant, out *queue.Reserved) error {
	if len(g.jobs) == 0 {
		return nil
	}
	records, faults := make([][]byte, len(g.jobs)), make([]error, len(g.jobs))
	err := e.db.View(func(tx *bbolt.Tx) error {
		t := &tables{tx: tx}
		for i, h := range g.jobs {
			record, err := t.getRecord(h.job.seq)
			if err != nil {
				faults[i] = err
				continue
			}
			records[i] = append([]byte(nil), record...)
		}
		return nil
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closing:
		return queue.ErrClosed
	case err != nil:
		return fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	out.Jobs = make([]queue.Reservation, 0, len(g.jobs))
	now := e.now()
	for i, h := range g.jobs {
		j, q := h.job, h.job.lane.queue
		if !q.live || j.state != queue.Leased || j.lease.fence != h.fence {
			continue
		}
		v := queue.Reservation{
			Job:   queue.Job{Queue: q.spec.Name, ID: j.id},
			Fence: h.fence.text(), In: h.departs.Sub(now), Lease: q.spec.Lease.D(),
			Attempt: h.attempt, Revision: q.revision, AppendedAt: j.appended.Time(), Age: now.Sub(j.appended),
		}
		if faults[i] == nil {
			faults[i] = queue.UnpackRecord(records[i], &v.Job)
		}
		if faults[i] != nil {
			// The job is left to its lease: each time it runs out spends an
			// attempt, so that it ends dead and does not block for ever.
			e.log.Error("a job cannot be read", "queue", q.spec.Name, "id", j.id, "error", faults[i])
			continue
		}
		out.Jobs = append(out.Jobs, v)
	}
	return nil
}
