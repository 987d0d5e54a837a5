package api

import (
	"context"
	"errors"
	"sync"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
	"github.com/penstock/penstock/queue/unit"
)

// appOfCaller is the app that a request is made for; nil of the operator, and where nobody is asked.
func appOfCaller(ctx context.Context) *auth.App {
	if id := caller(ctx); id != nil {
		return id.App
	}
	return nil
}

// appNameOf is the name of that app; empty if there is none.
func appNameOf(ctx context.Context) string {
	if app := appOfCaller(ctx); app != nil {
		return app.Name
	}
	return ""
}

// allowedSpec checks that an app may have a queue: that the rules which it names are the app's, and that all of the
// app's queues keep to its limits. Whoever calls it holds onePut.
func (h *handler) allowedSpec(ctx context.Context, spec *queue.Spec) error {
	app := appOfCaller(ctx)
	if app == nil {
		return nil
	}
	for i, name := range spec.Rules {
		if !owns(ctx, name) { // it does not exist for who asks
			return ruleset.NoSuch(i, name)
		}
	}
	l := app.Limits
	if l.Queues == 0 && l.Lanes == 0 && l.Bytes == 0 {
		return nil
	}
	var now auth.Usage
	var before *queue.Spec
	err := eachOf(ctx, spansOf(app.Prefixes), h.engine.List, queueName, func(i *queue.Info) {
		now.Add(&i.Spec)
		if i.Spec.Name == spec.Name {
			before = &i.Spec
		}
	})
	if err == nil && l.Bytes > 0 {
		err = h.addFormerDead(ctx, app, spec.Name, &now)
	}
	if err != nil {
		return err
	}
	return l.PermitQueue(now, before, spec)
}

// addFormerDead adds the bytes of dead jobs of deleted queues, except those of the queue being put: they count toward
// its max_bytes.
func (h *handler) addFormerDead(ctx context.Context, app *auth.App, put string, now *auth.Usage) error {
	return eachOf(ctx, spansOf(app.Prefixes), h.engine.DeadQueues, deadName, func(d *queue.DeadQueue) {
		if d.Gone && d.Queue != put {
			now.Bytes += unit.Bytes(d.Bytes)
		}
	})
}

// allowedTarget checks that the app which has a queue may deliver to its target: its hosts, secrets and senders. That
// binds the operator too, since drainers check it at each attempt.
func (h *handler) allowedTarget(ctx context.Context, spec *queue.Spec) error {
	app := appOfCaller(ctx)
	if app == nil && h.o.Auth != nil {
		app = h.o.Auth.AppWith(spec.Name)
	}
	if app == nil {
		return nil
	}
	target, err := deliver.Parse(spec.Deliver)
	if err != nil {
		return err
	}
	return app.PermitTarget(target.Kind, target.Setting)
}

// allowedRule checks that an app may have one more rule, if it has not this one already. Whoever calls it holds onePut.
func (h *handler) allowedRule(ctx context.Context, name string) error {
	app := appOfCaller(ctx)
	if app == nil || app.Limits.Rules == 0 {
		return nil
	}
	if _, err := h.engine.Rule(ctx, name); !errors.Is(err, rules.ErrUnknown) {
		return err
	}
	var now auth.Usage
	err := eachOf(ctx, spansOf(app.Prefixes), h.engine.ListRules, ruleName, func(*rules.Info) { now.Rules++ })
	if err != nil {
		return err
	}
	return app.Limits.PermitRule(now)
}

// onePut lets one request of an app at a time put what its limits are of: two together could pass them. Other apps do
// not wait. Where an app puts at several ingresses at once it can still have one more for each.
func (h *handler) onePut(ctx context.Context) (unlock func(), err error) {
	app := appOfCaller(ctx)
	if app == nil || app.Limits == (auth.Limits{}) {
		return func() {}, nil
	}
	return h.puts.lock(ctx, app.Name)
}

// nameLocks are a lock for each name. The zero nameLocks is ready for use.
type nameLocks struct {
	mu sync.Mutex
	of map[string]*nameLock
}

type nameLock struct {
	held chan struct{} // of one place
	uses int           // who has it or waits for it
}

// lock waits until nobody has the lock of a name, or until ctx ends.
func (l *nameLocks) lock(ctx context.Context, name string) (unlock func(), err error) {
	l.mu.Lock()
	a := l.of[name]
	if a == nil {
		if l.of == nil {
			l.of = map[string]*nameLock{}
		}
		a = &nameLock{held: make(chan struct{}, 1)}
		l.of[name] = a
	}
	a.uses++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if a.uses--; a.uses == 0 {
			delete(l.of, name)
		}
	}
	select {
	case a.held <- struct{}{}:
		return func() { <-a.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
