package boltq

import (
	"context"
	"maps"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/machine"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

// Rule implements queue.Rules.
func (e *Engine) Rule(ctx context.Context, name string) (i rules.Info, err error) {
	err = e.look(ctx, func(leaky.Instant) (err error) { i, err = e.machine.Rule(name); return err })
	i.Overrides = maps.Clone(i.Overrides)
	return i, err
}

// ListRules implements queue.Rules.
func (e *Engine) ListRules(ctx context.Context, after string, limit int) (list []rules.Info, err error) {
	err = e.look(ctx, func(leaky.Instant) error { list = e.machine.ListRules(after, limit); return nil })
	for i := range list { // outside the mutex: there may be a million, and a rule's overrides never change
		list[i].Overrides = maps.Clone(list[i].Overrides)
	}
	return list, err
}

// PutRule implements queue.Rules.
func (e *Engine) PutRule(ctx context.Context, r rules.Rule, expect int64) (p queue.PutResult, err error) {
	t, err := machine.NewRuleText(r)
	if err != nil {
		return p, err
	}
	return answerActor(ctx, e, func(now leaky.Instant, by audit.Actor) (queue.PutResult, uint64, error) {
		return e.machine.PutRule(now, by, t, expect)
	})
}

// DeleteRule implements queue.Rules.
func (e *Engine) DeleteRule(ctx context.Context, name string, expect int64) error {
	return e.act(ctx, func(now leaky.Instant, by audit.Actor) (uint64, error) {
		return e.machine.DeleteRule(now, by, name, expect)
	})
}

// ResetRule implements queue.Rules.
func (e *Engine) ResetRule(ctx context.Context, name string) error {
	return e.act(ctx, func(now leaky.Instant, by audit.Actor) (uint64, error) {
		return e.machine.ResetRule(now, by, name)
	})
}

// Attend implements queue.Rules. It is not stored: no process outlives this one.
func (e *Engine) Attend(ctx context.Context, process string) (int, error) {
	return answer(ctx, e, func(now leaky.Instant) (n int, wait uint64, err error) {
		n, err = e.machine.Attend(now, process)
		return n, 0, err
	})
}

// Take implements queue.Rules. What it takes is on file within a second, and at Close.
func (e *Engine) Take(ctx context.Context, name string, takes []rules.Take) (taken []rules.Taken, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := ruleset.CheckTakes(len(takes)); err != nil {
		return nil, err
	}
	keys := make([]queue.LaneDigest, len(takes)) // outside the mutex
	for i := range takes {
		keys[i] = queue.DigestLane(takes[i].Key)
	}
	entry, err := ruleset.Audited(ctx, name, takes)
	if err != nil {
		return nil, err
	}
	take := func(now leaky.Instant) (wait uint64, err error) {
		taken, wait, err = e.machine.Take(now, name, takes, keys, entry)
		return wait, err
	}
	for taken == nil { // until the rule itself is durable
		if entry == nil {
			err = e.do(ctx, take)
		} else {
			err = e.takeAudited(ctx, take)
		}
		if err != nil {
			return nil, err
		}
	}
	return taken, nil
}

// takeAudited is do for takes with an audit entry. They are not decided again if there was no room for the entry: it
// goes with the next commit, along with what was taken.
func (e *Engine) takeAudited(ctx context.Context, take func(now leaky.Instant) (uint64, error)) error {
	o, err := e.decide(0, take)
	if o == nil {
		return err
	}
	if f := o.await(ctx); f.err != nil && !f.undone {
		return f.err
	}
	return err
}
