package deferred

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
)

// faulty is an engine that can be made to fail. What it does not fail, the real one does.
type faulty struct {
	Engine
	mu     sync.Mutex
	fault  error // of every call; nil if none
	silent bool  // no answer until the caller gives up
	does   bool  // but what was asked is done
	offers int
	forget bool   // Withdraw fails
	asked  func() // called as an offer comes; nil if nobody cares
}

func (f *faulty) onOffer(asked func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = asked
}

func (f *faulty) set(fault error, silent, does bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.silent, f.does = fault, silent, does
}

var errSilent = errors.New("no answer")

// fail returns how a call is to fail, having waited for it.
func (f *faulty) fail(ctx context.Context, do func()) error {
	f.mu.Lock()
	fault, silent, does := f.fault, f.silent, f.does
	f.mu.Unlock()
	if does {
		do()
	}
	if silent {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", queue.ErrOutcomeUnknown, errSilent)
	}
	return fault
}

func (f *faulty) Offer(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	f.mu.Lock()
	f.offers++
	asked := f.asked
	f.mu.Unlock()
	if asked != nil {
		asked()
	}
	if err := f.fail(ctx, func() { _, _ = f.Engine.Offer(context.WithoutCancel(ctx), jobs) }); err != nil {
		return nil, err
	}
	return f.Engine.Offer(ctx, jobs)
}

func (f *faulty) Withdraw(ctx context.Context, w []queue.Ticketed) (after []time.Duration, err error) {
	f.mu.Lock()
	forget := f.forget
	f.mu.Unlock()
	if forget {
		return nil, fmt.Errorf("%w: forgotten", queue.ErrUnavailable)
	}
	return f.Engine.Withdraw(ctx, w)
}

func (f *faulty) Readmit(ctx context.Context, r queue.ReadmitRequest) (queue.Readmitted, error) {
	if err := f.fail(ctx, func() {}); err != nil {
		return queue.Readmitted{}, err
	}
	return f.Engine.Readmit(ctx, r)
}

func (f *faulty) Announce(ctx context.Context, name string) error {
	if err := f.fail(ctx, func() { _ = f.Engine.Announce(context.WithoutCancel(ctx), name) }); err != nil {
		return err
	}
	return f.Engine.Announce(ctx, name)
}

func (f *faulty) Get(ctx context.Context, name string) (queue.Info, error) {
	if err := f.fail(ctx, func() {}); err != nil {
		return queue.Info{}, err
	}
	return f.Engine.Get(ctx, name)
}

func (f *faulty) offered() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.offers
}
