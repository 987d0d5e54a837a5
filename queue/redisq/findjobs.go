package redisq

import (
	"context"
	"fmt"
	"strconv"

	"github.com/penstock/penstock/queue"
)

// FindJobs implements queue.Jobs.
func (e *Engine) FindJobs(ctx context.Context, r queue.FindRequest) (queue.FoundJobs, error) {
	if err := r.Validate(); err != nil {
		return queue.FoundJobs{}, err
	}
	c, err := r.Cursor()
	if err != nil {
		return queue.FoundJobs{}, err
	}
	if c == nil {
		c = &queue.FindCursor{}
	}
	if c.Partition >= len(e.keys) { // of a store with more partitions
		return queue.FoundJobs{}, nil
	}
	lane := ""
	if r.Lane != "" {
		lane = digestOf(&r.Lane)
	}
	at, member, laneAt := "", "", ""
	if w := c.Within; w != nil {
		at, member, laneAt = strconv.FormatInt(w.At, 10), w.ID, w.Lane
	}
	v, err := e.ask(ctx, findJobsScript, c.Partition, e.instant(), r.ID, flag(r.Exact()), lane, r.From, r.To, r.Limit,
		c.Queue, int(c.State), at, member, laneAt)
	if err != nil {
		return queue.FoundJobs{}, err
	}
	return e.readFound(list(v), &r, c.Partition)
}

func (e *Engine) readFound(r *reply, asked *queue.FindRequest, partition int) (found queue.FoundJobs, err error) {
	for groups := r.list(); groups.more(); {
		name, state := groups.text(), groups.int()
		if state < 0 {
			e.log.Error("queue left out of a search: its stored data is not what penstock wrote", "queue", name,
				"error", fmt.Sprint(groups.next()))
			continue
		}
		if found.Jobs, err = readListed(groups.list(), name, queue.State(state), found.Jobs); err != nil {
			return queue.FoundJobs{}, err
		}
	}
	ahead := r.duration()
	for n := range found.Jobs {
		found.Jobs[n].ToWall(ahead)
	}
	next := queue.FindCursor{Partition: partition + 1}
	if r.more() {
		next = queue.FindCursor{Partition: partition, Queue: r.text(), State: queue.State(r.int())}
		if at := r.next(); at != "" {
			rest := &reply{v: append([]any{at}, r.v...), err: r.err}
			next.Within = &queue.Cursor{At: rest.number(), ID: rest.text(), Lane: rest.text()}
			r = rest
		}
	} else if next.Partition == len(e.keys) {
		return found, r.err
	}
	found.Next = asked.Next(next)
	return found, r.err
}
