package deferred

import (
	"context"
	"fmt"
	"time"
)

const (
	// lookPause is how often the overflow is asked whether something came.
	lookPause = 2 * time.Second
	// listPause is how often its queues are listed though nothing came, and the engine is
	// asked what it remembers.
	listPause = 30 * time.Second
	// listShare keeps the listing of very many queues from being most of what NATS does.
	listShare = 20
)

// discover finds the queues that have something on the overflow, whoever put it there.
func (r *Readmitter) discover(ctx context.Context) {
	var list listing
	for {
		if err := r.find(ctx, &list); err != nil && ctx.Err() == nil && !list.failed {
			list.failed = true
			r.log.Warn("the overflow cannot be looked at; trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(lookPause, listShare*list.took)):
		}
	}
}

// listing is what was seen the last time.
type listing struct {
	last   uint64 // the stream's last sequence
	at     time.Time
	took   time.Duration
	failed bool
}

// find lists the queues, if there can be one that was not listed before.
func (r *Readmitter) find(ctx context.Context, list *listing) error {
	last, messages, err := r.stream.size(ctx)
	if err != nil {
		return err
	}
	if list.failed {
		list.failed = false
		r.log.Info("the overflow can be looked at again")
	}
	if messages == 0 || last == list.last && time.Since(list.at) < listPause {
		return nil
	}
	begin := time.Now()
	subjects, err := r.stream.list(ctx)
	if err != nil {
		return err
	}
	for subject := range subjects {
		if !addressable(subject) {
			r.log.Warn("a message on the overflow is not ours, and its subject cannot be asked for: remove it with "+
				"nats stream rmm", "subject", subject)
			continue
		}
		r.wake(subject, something)
	}
	list.last, list.at, list.took = last, begin, time.Since(begin)
	return nil
}

// remember asks the engine which queues have a backlog: also those of which the overflow
// has nothing, or not yet.
func (r *Readmitter) remember(ctx context.Context) {
	for {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		names, err := r.engine.Backlogged(call, maxPaths)
		cancel()
		if err != nil && ctx.Err() == nil {
			r.log.Warn("the engine does not say which queues have a backlog; trying again", "error", fmt.Sprint(err))
		}
		for _, name := range names {
			r.wake(r.stream.subjects.of(name), recorded)
		}
		pause := listPause
		if err != nil {
			pause = lookPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}
