package deferred

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/queue"
)

// probes is how many queues are probed concurrently, and how many probes may fail before the rest wait for the next
// round.
const probes = 8

// watch watches the queues whose engine is away, until ctx ends: whether the engine is back, and what it must learn
// first.
func (a *Appender) watch(ctx context.Context) {
	for {
		names := a.outages.all()
		if len(names) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-a.outages.wake:
			}
			continue
		}
		a.probe(ctx, names)
		select {
		case <-ctx.Done():
			return
		case <-time.After(probePause):
		}
	}
}

func (a *Appender) probe(ctx context.Context, names []string) {
	var failed atomic.Int64
	var running sync.WaitGroup
	slots := make(chan struct{}, probes)
	for _, name := range names {
		slots <- struct{}{}
		if failed.Load() >= probes || ctx.Err() != nil {
			break
		}
		running.Go(func() {
			defer func() { <-slots }()
			if !a.ask(ctx, name) {
				failed.Add(1)
			}
		})
	}
	running.Wait()
}

// ask probes the engine of one queue, and reports whether it answered.
//
// If the queue has strays, it announces them: then the engine sets the next deferrable job aside, so that it overtakes
// none. Until the engine has learned of all strays, deferrable jobs keep bypassing it, behind the strays. Other jobs
// go to the engine again.
func (a *Appender) ask(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	for more := true; more; {
		var err error
		strays := a.outages.strays(name)
		if strays == 0 {
			_, err = a.engine.Get(ctx, name)
		} else {
			err = a.announce(ctx, name)
		}
		switch {
		case err == nil, strays == 0 && answers(err):
			var away bool
			if away, more = a.outages.answered(name, strays); away {
				a.log.Info("the engine answers again", "queue", name)
			}
		case answers(err): // the next caller learns what is wrong
			a.outages.unheard(name)
			return true
		default:
			a.outages.begin(name)
			return false
		}
	}
	return true
}

// answers reports whether an error comes from an engine that is reachable.
func answers(err error) bool {
	return !errors.Is(err, queue.ErrUnavailable) && !errors.Is(err, queue.ErrOutcomeUnknown) &&
		!errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}

// announce tells the engine that a queue has jobs on the overflow that it does not know.
func (a *Appender) announce(ctx context.Context, name string) error {
	err := a.engine.Announce(ctx, name)
	if errors.Is(err, queue.ErrUnknownQueue) {
		return nil // nothing can be overtaken
	}
	if err == nil {
		a.stream.notify(name) // the job may be back already
	}
	return err
}

// follow announces a job that strayed when the engine was about to learn of strays, or already had.
func (a *Appender) follow(ctx context.Context, name string) {
	if err := a.announce(ctx, name); err != nil {
		a.outages.untold(name)
	}
}
