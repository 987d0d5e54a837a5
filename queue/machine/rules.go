package machine

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/internal/changelog"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

func unknownRule(name string) error {
	return fmt.Errorf("%w: %s", rules.ErrUnknown, clip.Quote(name, 80))
}

// Rule returns a rule. It shares its overrides, which never change. Errors: rules.ErrUnknown.
func (m *Machine) Rule(name string) (rules.Info, error) {
	r, err := m.ruleNamed(name)
	if err != nil {
		return rules.Info{}, err
	}
	return m.ruleInfo(r), nil
}

func (m *Machine) ruleNamed(name string) (*rule, error) {
	if r := m.rules[name]; r != nil {
		return r, nil
	}
	return nil, unknownRule(name)
}

// ListRules returns up to limit rules behind a name. It shares their overrides, which never change: there may be a
// million.
func (m *Machine) ListRules(after string, limit int) []rules.Info {
	from, found := slices.BinarySearch(m.ruleNames, after)
	if found {
		from++
	}
	to := min(len(m.ruleNames), from+max(0, limit))
	list := make([]rules.Info, 0, to-from)
	for _, name := range m.ruleNames[from:to] {
		list = append(list, m.ruleInfo(m.rules[name]))
	}
	return list
}

// RuleText is a valid rule as it is kept, and its texts.
type RuleText struct {
	rule                rules.Rule
	text, kept, audited []byte
}

// NewRuleText checks a rule. Errors: an *invalid.Error.
func NewRuleText(r rules.Rule) (t RuleText, err error) {
	r.Normalize()
	if err := r.Validate(); err != nil {
		return t, err
	}
	if t.rule, t.text, err = asStored(r, rules.Encode, rules.Decode); err != nil {
		return t, err
	}
	if t.kept, err = changelog.EncodeKeptRule(t.rule); err != nil {
		return t, err
	}
	t.audited, err = changelog.EncodeAuditedRule(t.rule)
	return t, err
}

// PutRule creates a rule or changes it, and returns the commit that the answer waits for. Errors: see queue.Rules.
func (m *Machine) PutRule(
	now leaky.Instant, actor audit.Actor, t RuleText, expect int64,
) (put queue.PutResult, wait uint64, err error) {
	old := m.rules[t.rule.Name]
	if old != nil {
		put.Revision = old.revision
	}
	if err := checkRevision(t.rule.Name, expect, put.Revision); err != nil {
		return put, 0, err
	}
	if old != nil {
		if was, err := rules.Encode(old.Rule); err == nil && bytes.Equal(was, t.text) {
			return put, m.lastWait(), nil
		}
	} else if m.Full != nil {
		return put, 0, m.Full
	}
	if t.rule.Algorithm == leaky.AlgorithmConcurrency && m.ruleUses[t.rule.Name] > 0 {
		return queue.PutResult{}, 0, ruleset.AskedByQueues(t.rule.Name)
	}
	to, err := newRule(t.rule, m.nextRevision(now), m.tallySetFor(old, t.rule.Algorithm))
	if err != nil {
		return queue.PutResult{}, 0, err
	}
	m.store.revision = to.revision
	n := loggedBy(changekind.Created, actor, to.revision, m.wall(now))
	n.Was, n.after = 0, t.audited
	if old != nil {
		n.What, n.Was = changekind.Changed, old.revision
		n.before, _ = changelog.EncodeAuditedRule(old.Rule) // it was encoded before
	}
	m.present.logChange(logUpdate{
		subject: ruleSubject(to.Name), changes: []logged{n}, revision: n.Revision, version: t.kept, created: old == nil,
	})
	m.setRule(old, to, t.text, now)
	return queue.PutResult{Revision: to.revision, Created: old == nil, Changed: true}, m.wait(), nil
}

// DeleteRule removes a rule, and returns the commit that the answer waits for. Errors: see queue.Rules.
func (m *Machine) DeleteRule(now leaky.Instant, actor audit.Actor, name string, expect int64) (wait uint64, err error) {
	old, err := m.ruleNamed(name)
	if err != nil {
		return 0, err
	}
	if err := checkRevision(name, expect, old.revision); err != nil {
		return 0, err
	}
	if n := m.ruleUses[name]; n > 0 {
		return 0, fmt.Errorf("%w: %s, of %d", rules.ErrInUse, name, n)
	}
	n := loggedBy(changekind.Deleted, actor, old.revision, m.wall(now))
	n.before, _ = changelog.EncodeAuditedRule(old.Rule) // it was encoded before
	m.present.logChange(logUpdate{subject: ruleSubject(name), changes: []logged{n}, revision: n.Revision, gone: true})
	m.present.dropRule(name)
	m.rulesVersion++
	m.discardTallies(old.tallies)
	delete(m.rules, name)
	if at, found := slices.BinarySearch(m.ruleNames, name); found {
		m.ruleNames = slices.Delete(m.ruleNames, at, at+1)
	}
	return m.wait(), nil
}

// ResetRule forgets all that was taken from a rule, and returns the commit that the answer waits for. Errors:
// rules.ErrUnknown.
func (m *Machine) ResetRule(now leaky.Instant, actor audit.Actor, name string) (wait uint64, err error) {
	old, err := m.ruleNamed(name)
	if err != nil {
		return 0, err
	}
	text, err := rules.Encode(old.Rule)
	if err != nil {
		return 0, err
	}
	to := *old
	to.tallies = m.newTallySet()
	n := loggedBy(changekind.Reset, actor, old.revision, m.wall(now))
	m.present.logChange(logUpdate{subject: ruleSubject(name), changes: []logged{n}, revision: n.Revision})
	m.setRule(old, &to, text, now)
	return m.wait(), nil
}

// setRule puts a rule in the place of an old one, which may be nil.
func (m *Machine) setRule(old, to *rule, text []byte, now leaky.Instant) {
	m.rulesVersion++
	if old != nil && to.tallies != old.tallies {
		m.discardTallies(old.tallies)
	}
	to.commit = m.present.Number
	to.tallies.setOverrides(to.overrides, to.limiter, now)
	m.rules[to.Name] = to
	if at, found := slices.BinarySearch(m.ruleNames, to.Name); !found {
		m.ruleNames = slices.Insert(m.ruleNames, at, to.Name)
	}
	m.present.putRule(to, text)
}
