package boltq

import (
	"context"
	"fmt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/jobrecord"
)

// Reserve implements queue.Outflow.
func (e *Engine) Reserve(ctx context.Context, r queue.ReserveRequest) (queue.Reserved, error) {
	if err := ctx.Err(); err != nil {
		return queue.Reserved{}, err
	}
	if err := checkRequest(&r); err != nil {
		return queue.Reserved{}, err
	}
	var out queue.Reserved
	e.lock()
	if err := e.usable(); err != nil {
		e.unlock()
		return queue.Reserved{}, err
	}
	now := e.now()
	cl := e.registerClient(r.Client, now)
	cl.isPuller = r.Queue != ""
	fresh := cl.isNew(r.Number)
	pulled, err := e.pullQueueOf(&r, fresh)
	if err != nil {
		e.unlock()
		return queue.Reserved{}, err
	}
	if pulled != nil {
		pulled.lastAsked = now
	} else {
		e.lastReserve = now
	}
	g := &grant{drainer: r.Client.Shown(), max: r.Max, noRoom: e.room.full != nil, shares: newShares(r), full: r.Max == 0}
	for _, step := range []func() *call{
		func() *call { return e.takeBack(now, pulled, &out.Expired) },
		func() *call { // before pauses end: what expires before that must not count as a lost slot
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
		e.unlock()
		if err := c.await(ctx); err != nil {
			return queue.Reserved{}, err
		}
		e.lock()
		if err := e.usable(); err != nil {
			e.unlock()
			return queue.Reserved{}, err
		}
		now, fresh = e.now(), cl.isNew(r.Number)
		if pulled, err = e.pullQueueOf(&r, fresh); err != nil {
			e.unlock()
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
		if r.Max > 0 { // else nothing was found out
			cl.short, g.newlyShort = g.short, g.noteShort(cl.short)
		}
		e.trimSome(now)
	case r.Number == cl.lastNumber:
		g = cl.grant
	default: // overtaken by a later request: nobody reads the answer
		g = &grant{}
	}
	if pulled != nil {
		out.Next = e.untilPulled(pulled, g.full, now)
	} else {
		out.Next, out.Backup = e.planSleep(r.Client.ID, g, now)
		e.restorePassed(g)
	}
	out.Garbage = e.needsSweep(now)
	e.unlock()

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
		return &queue.FieldError{
			Field: "partition", Value: fmt.Sprint(r.Partition), Reason: "an embedded store has only partition 0",
		}
	}
	return r.Check()
}

// takeGrantBack gives back jobs whose grant could not be answered. Their slots are lost.
func (m *machine) takeGrantBack(cl *client, g *grant, now leaky.Instant, err error) {
	if g.err != nil {
		return
	}
	g.err = err
	for _, h := range g.jobs {
		if j := h.job; j.lane.queue.live && j.busy == nil && j.state == queue.Leased && j.lease.fence == h.fence {
			m.dropLease(j)
			m.putWaiting(j, now)
			m.wakeForExpiry(j, now)
			j.lane.queue.outflow.add(now, -1)
			m.armAndWake(j.lane.queue, now)
		}
	}
	if cl.grant == g {
		cl.grant = nil // so that the same request may be tried again
	}
}

// readJobs reads the payloads of a grant's jobs, and counts their departures from now. Jobs whose lease was lost
// meanwhile are left out.
func (e *Engine) readJobs(g *grant, out *queue.Reserved) error {
	if len(g.jobs) == 0 {
		return nil
	}
	records, faults := make([][]byte, len(g.jobs)), make([]error, len(g.jobs))
	err := e.db.view(func(t *tables) error {
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
	e.lock()
	defer e.unlock()
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
			faults[i] = jobrecord.Unpack(records[i], &v.Job)
		}
		if faults[i] != nil {
			// The job is left to its lease: each time that runs out an attempt is spent, so it ends dead instead of
			// blocking for ever.
			e.log.Error("a job cannot be read", "queue", q.spec.Name, "id", j.id, "error", faults[i])
			continue
		}
		out.Jobs = append(out.Jobs, v)
	}
	return nil
}
