package boltq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/changekind"
	"github.com/penstock/penstock/queue/internal/changelog"
	"github.com/penstock/penstock/queue/ruleset"
)

func unknownRule(name string) error {
	return fmt.Errorf("%w: %s", queue.ErrUnknownRule, queue.Shorten(name, 80))
}

// Rule implements queue.Rules.
func (e *Engine) Rule(ctx context.Context, name string) (queue.RuleInfo, error) {
	e.lock()
	defer e.unlock()
	if err := e.readable(ctx); err != nil {
		return queue.RuleInfo{}, err
	}
	r, err := e.liveRule(name)
	if err != nil {
		return queue.RuleInfo{}, err
	}
	i := e.ruleInfo(r)
	i.Overrides = maps.Clone(i.Overrides)
	return i, nil
}

// liveRule returns the rule of that name, unless it is only being created.
func (m *machine) liveRule(name string) (*rule, error) {
	if r := m.rules[name]; r != nil && r.live {
		return r, nil
	}
	return nil, unknownRule(name)
}

// ListRules implements queue.Rules.
func (e *Engine) ListRules(ctx context.Context, after string, limit int) ([]queue.RuleInfo, error) {
	list, err := e.listRules(ctx, after, limit)
	for i := range list { // outside the mutex: there may be a million, and those of a rule never change
		list[i].Overrides = maps.Clone(list[i].Overrides)
	}
	return list, err
}

// listRules shares the overrides with the rules.
func (e *Engine) listRules(ctx context.Context, after string, limit int) ([]queue.RuleInfo, error) {
	e.lock()
	defer e.unlock()
	if err := e.readable(ctx); err != nil {
		return nil, err
	}
	from, found := slices.BinarySearch(e.ruleNames, after)
	if found {
		from++
	}
	to := min(len(e.ruleNames), from+max(0, limit))
	list := make([]queue.RuleInfo, 0, to-from)
	for _, name := range e.ruleNames[from:to] {
		list = append(list, e.ruleInfo(e.rules[name]))
	}
	return list, nil
}

// PutRule implements queue.Rules.
func (e *Engine) PutRule(ctx context.Context, r queue.Rule, expect int64) (queue.PutResult, error) {
	actor, err := queue.ActorOf(ctx)
	if err != nil {
		return queue.PutResult{}, err
	}
	r.Normalize()
	if err := r.Validate(); err != nil {
		return queue.PutResult{}, err
	}
	r, text, err := asStored(r, queue.EncodeRule, queue.DecodeRule)
	if err != nil {
		return queue.PutResult{}, err
	}
	var put queue.PutResult
	kept, err := changelog.EncodeKeptRule(r)
	if err != nil {
		return queue.PutResult{}, err
	}
	audited, err := changelog.EncodeAuditedRule(r)
	if err != nil {
		return queue.PutResult{}, err
	}
	err = e.decideRule(ctx, r.Name, func(old *rule, now leaky.Instant) (*ruleChange, error) {
		c, result, err := e.putRule(old, r, text, expect)
		put = result
		if c != nil {
			c.kept, c.note = kept, loggedBy(changekind.Created, actor, result.Revision, now)
			c.note.Was, c.note.after = 0, audited
			if old != nil {
				c.note.What, c.note.Was = changekind.Changed, old.revision
			}
		}
		return c, err
	})
	if err != nil && !errors.Is(err, queue.ErrRevision) {
		return queue.PutResult{}, err
	}
	return put, err
}

// putRule returns the change, nil if nothing changes, and the answer once that is on disk.
func (m *machine) putRule(old *rule, r queue.Rule, text []byte, expect int64) (*ruleChange, queue.PutResult, error) {
	var present int64
	if old != nil {
		present = old.revision
	}
	if err := checkRevision(r.Name, expect, present); err != nil {
		return nil, queue.PutResult{Revision: present}, err
	}
	if old != nil {
		if was, err := queue.EncodeRule(old.Rule); err == nil && bytes.Equal(was, text) {
			return nil, queue.PutResult{Revision: present}, nil
		}
	}
	if r.Algorithm == leaky.AlgorithmConcurrency && m.ruleUses[r.Name] > 0 {
		return nil, queue.PutResult{}, ruleset.AskedByQueues(r.Name)
	}
	s := m.tallySetFor(old, r.Algorithm)
	to, err := newRule(r, m.store.revision+1, s)
	if err != nil {
		return nil, queue.PutResult{}, err
	}
	m.store.revision++
	return &ruleChange{old: old, to: to, text: text}, queue.PutResult{
		Revision: to.revision, Created: old == nil, Changed: true,
	}, nil
}

// DeleteRule implements queue.Rules.
func (e *Engine) DeleteRule(ctx context.Context, name string, expect int64) error {
	actor, err := queue.ActorOf(ctx)
	if err != nil {
		return err
	}
	return e.decideRule(ctx, name, func(old *rule, now leaky.Instant) (*ruleChange, error) {
		if old == nil {
			return nil, unknownRule(name)
		}
		if err := checkRevision(name, expect, old.revision); err != nil {
			return nil, err
		}
		if n := e.ruleUses[name]; n > 0 {
			return nil, fmt.Errorf("%w: %s, of %d", queue.ErrRuleInUse, name, n)
		}
		return &ruleChange{old: old, note: loggedBy(changekind.Deleted, actor, old.revision, now)}, nil
	})
}

// ResetRule implements queue.Rules.
func (e *Engine) ResetRule(ctx context.Context, name string) error {
	actor, err := queue.ActorOf(ctx)
	if err != nil {
		return err
	}
	return e.decideRule(ctx, name, func(old *rule, now leaky.Instant) (*ruleChange, error) {
		if old == nil {
			return nil, unknownRule(name)
		}
		text, err := queue.EncodeRule(old.Rule)
		if err != nil {
			return nil, err
		}
		to := *old
		to.tallies = e.newTallySet()
		return &ruleChange{old: old, to: &to, text: text, note: loggedBy(changekind.Reset, actor, old.revision, now)}, nil
	})
}

// decideRule runs a decision about a rule (nil if there is none) when nobody else is changing it, and waits for the
// change that it returns.
func (e *Engine) decideRule(
	ctx context.Context, name string, decision func(old *rule, now leaky.Instant) (*ruleChange, error),
) error {
	return decideWhenFree(ctx, func(c *call) (*call, error) {
		e.lock()
		defer e.unlock()
		if err := e.usable(); err != nil {
			return nil, err
		}
		old := e.rules[name]
		if old != nil && old.changing != nil {
			return old.changing.call, nil
		}
		ch, err := decision(old, e.now()) // even if the call fails, a caller may have seen this time
		if err != nil || ch == nil {
			return nil, err
		}
		ch.call = c
		if old != nil {
			old.changing = ch
		} else { // not live, and so invisible, until it is on disk
			ch.to.changing = ch
			e.rules[name] = ch.to
		}
		e.enqueue(c, ch)
		return nil, nil
	})
}

// ruleChange creates, changes, resets or deletes a rule.
type ruleChange struct {
	call *call
	old  *rule // nil if it is created
	to   *rule // nil if it is deleted
	text []byte
	kept []byte // the version for the log, if it was put
	note logged
}

func (c *ruleChange) prepare(b *batch) {
	if c.note.What.OfSpecs() && c.old != nil {
		c.note.before, _ = changelog.EncodeAuditedRule(c.old.Rule) // it was encoded before
	}
	b.logChange(logUpdate{
		subject: ruleSubject(c.name()), changes: []logged{c.note}, revision: c.note.Revision, version: c.kept,
		created: c.old == nil, gone: c.to == nil,
	})
	if c.to == nil {
		b.dropRule(c.old.Name)
	} else {
		b.putRule(c.to, c.text)
	}
}

func (c *ruleChange) apply(m *machine, now leaky.Instant) {
	old, to := c.old, c.to
	m.rulesVersion++
	if old != nil {
		old.live, old.changing = false, nil
		if to == nil || to.tallies != old.tallies {
			m.discardTallies(old.tallies)
		}
	}
	switch name := c.name(); {
	case to == nil:
		delete(m.rules, name)
		if at, found := slices.BinarySearch(m.ruleNames, name); found {
			m.ruleNames = slices.Delete(m.ruleNames, at, at+1)
		}
	default:
		to.live, to.changing = true, nil
		to.tallies.setOverrides(to.overrides, to.limiter, now)
		m.rules[name] = to
		if at, found := slices.BinarySearch(m.ruleNames, name); !found {
			m.ruleNames = slices.Insert(m.ruleNames, at, name)
		}
	}
	c.call.finish(nil)
}

func (c *ruleChange) name() string {
	if c.to != nil {
		return c.to.Name
	}
	return c.old.Name
}

func (c *ruleChange) rollBack(m *machine, now leaky.Instant, err error) {
	if c.old == nil {
		delete(m.rules, c.to.Name)
	} else {
		c.old.changing = nil
	}
	c.call.finish(err)
}

func (c *ruleChange) freesSpace() bool { return c.old != nil }
