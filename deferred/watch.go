package deferred

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/queue"
)

// probes is how many queues are probed at a time, and how many may fail before the
// others have to wait for the next time.
const probes = 8

// watch looks after the queues whose engine is away, until ctx ends: whether it is
// back, and what it must hear first.
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

// ask asks for one queue, and reports whether there was an answer.
//
// Of a queue whose jobs have strayed the engine is told that something is behind: so
// the next job that may wait is set aside, and overtakes none. Until it has heard of all,
// such jobs go on past the engine, behind those that strayed; those that may not wait are
// the engine's already.
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
		case answers(err): // what is wrong, those are told who offer a job
			a.outages.unheard(name)
			return true
		default:
			a.outages.begin(name)
			return false
		}
	}
	return true
}

// answers reports whether an error comes from an engine that is there.
func answers(err error) bool {
	return !errors.Is(err, queue.ErrUnavailable) && !errors.Is(err, queue.ErrOutcomeUnknown) &&
		!errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}

// announce tells the engine that a queue has something on the overflow that it knows
// nothing of.
func (a *Appender) announce(ctx context.Context, name string) error {
	err := a.engine.Announce(ctx, name)
	if errors.Is(err, queue.ErrUnknownQueue) {
		return nil // nothing can be overtaken
	}
	if err == nil {
		a.stream.tell(name) // it may be back already: then nothing is behind
	}
	return err
}

// follow announces a job that strayed when the engine was about to be told, or had been.
func (a *Appender) follow(ctx context.Context, name string) {
	if err := a.announce(ctx, name); err != nil {
		a.outages.untold(name)
	}
}
