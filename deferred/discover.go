package deferred

import (
	"context"
	"fmt"
	"time"
)

const (
	// lookPause is the time between two looks at whether the overflow has changed.
	lookPause = 2 * time.Second
	// listPause is the time after which the queues on the overflow are listed even without a change, and after which
	// the engine is asked for its backlogs.
	listPause = 30 * time.Second
	// listLoad limits the listing of very many queues to a twentieth of the time.
	listLoad = 20
)

// discover finds the queues with messages on the overflow, no matter which process put them there.
func (r *Readmitter) discover(ctx context.Context) {
	var list listing
	for {
		if err := r.find(ctx, &list); err != nil && ctx.Err() == nil && !list.failed {
			list.failed = true
			r.log.Warn("looking at the overflow failed; trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(lookPause, listLoad*list.took)):
		}
	}
}

// listing is the result of the last look.
type listing struct {
	last   uint64 // the stream's last sequence
	at     time.Time
	took   time.Duration
	failed bool
}

// find lists the queues, if there may be new ones.
func (r *Readmitter) find(ctx context.Context, list *listing) error {
	last, messages, err := r.stream.size(ctx)
	if err != nil {
		return err
	}
	if list.failed {
		list.failed = false
		r.log.Info("looking at the overflow works again")
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
			r.log.Warn("foreign message on the overflow, on a subject that cannot be requested: remove it with "+
				"nats stream rmm", "subject", subject)
			continue
		}
		r.wake(subject, something)
	}
	list.last, list.at, list.took = last, begin, time.Since(begin)
	return nil
}

// remember regularly asks the engine which queues have a backlog. It finds queues that discover cannot find, because
// they have no messages on the overflow, or not yet.
func (r *Readmitter) remember(ctx context.Context) {
	for {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		names, err := r.engine.Backlogged(call, maxPaths)
		cancel()
		if err != nil && ctx.Err() == nil {
			r.log.Warn("asking the engine for queues with a backlog failed; trying again", "error", fmt.Sprint(err))
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
