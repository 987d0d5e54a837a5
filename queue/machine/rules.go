package machine

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/internal/changelog"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

// rulebook is all rules and what was taken from them.
type rulebook struct {
	rules          map[string]*rule
	ruleNames      []string                 // of existing rules, sorted
	ruleUses       map[string]int           // rule name -> how many queues of its group use it
	rulesVersion   uint64                   // grows with every change of rules or of their use; 0 is before the first
	tallySets      heap[*tallySet]          // by when the first of their tallies may expire
	lastTally      uint64                   // the last key given to a tally
	lastTallySet   uint64                   // the last number given to a tally set
	dirtyTallies   chunkList[*tally]        // tallies that differ from the file
	spareTallies   []*tally                 // forgotten tallies for reuse, not on file but maybe still in dirtyTallies
	droppedTallies chunkList[uint64]        // records of tallies that are gone
	attending      map[string]leaky.Instant // when each process last took part in admission
	openTakes      openTakes                // takes that can be corrected
}

// rule is one rule. It is immutable.
type rule struct {
	rules.Rule
	revision  int64
	template  rules.Template
	limiter   leaky.Limiter
	overrides map[string]leaky.Limiter
	keyLimit  int64
	tallies   *tallySet
	commit    uint64 // the commit that last changed it; 0 if it was loaded
}

// newRule parses the numbers of a valid rule.
func newRule(r rules.Rule, revision int64, s *tallySet) (*rule, error) {
	to := &rule{Rule: r, revision: revision, keyLimit: r.KeyLimit(), tallies: s}
	var err error
	if to.template, err = rules.ParseTemplate(r.Key); err != nil {
		return nil, err
	}
	if to.limiter, err = r.Limiter(r.Algorithm); err != nil {
		return nil, err
	}
	if len(r.Overrides) > 0 {
		to.overrides = map[string]leaky.Limiter{}
	}
	for key, b := range r.Overrides {
		if to.overrides[key], err = b.Limiter(r.Algorithm); err != nil {
			return nil, err
		}
	}
	return to, nil
}

func (r *rule) limiterFor(key string) leaky.Limiter {
	if l, ok := r.overrides[key]; ok {
		return l
	}
	return r.limiter
}

// ruleInfo describes a rule. Its overrides are shared with the rule.
func (m *Machine) ruleInfo(r *rule) rules.Info {
	i := rules.Info{Rule: r.Rule, Revision: r.revision, Keys: r.tallies.keys()}
	group := names.Group(r.Name)
	for _, name := range append([]string{group}, m.childrenOf(group)...) {
		if q := m.queues[name]; q != nil && slices.Contains(q.spec.Rules, r.Name) {
			i.Queues = append(i.Queues, name)
		}
	}
	return i
}

func (m *Machine) countRuleUses(of string, asked []string, n int) {
	for _, name := range ruleset.Names(of, nil, asked) {
		if m.ruleUses[name] += n; m.ruleUses[name] == 0 {
			delete(m.ruleUses, name)
		}
	}
}

// checkRuleNames returns an *invalid.Error if a spec names a rule of its own group that does not exist or cannot be
// used by queues.
func (m *Machine) checkRuleNames(s *queue.Spec) error {
	for i, name := range s.Rules {
		if names.Group(name) != names.Group(s.Name) {
			continue
		}
		r := m.rules[name]
		if r == nil {
			return ruleset.NoSuch(i, name)
		}
		if !rules.ForQueues(r.Algorithm) {
			return ruleset.NoQueueAsks(i, name)
		}
	}
	return nil
}

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

// ListRules returns up to limit rules after a name. It shares their overrides, which never change: there may be a
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

// RuleText is a valid rule as it is stored, and its encodings.
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
	if !rules.ForQueues(t.rule.Algorithm) && m.ruleUses[t.rule.Name] > 0 {
		return queue.PutResult{}, 0, ruleset.AskedByQueues(t.rule.Name, t.rule.Algorithm)
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
	m.current.logChange(logUpdate{
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
	m.current.logChange(logUpdate{subject: ruleSubject(name), changes: []logged{n}, revision: n.Revision, gone: true})
	m.current.dropRule(name)
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
	m.current.logChange(logUpdate{subject: ruleSubject(name), changes: []logged{n}, revision: n.Revision})
	m.setRule(old, &to, text, now)
	return m.wait(), nil
}

// setRule replaces the rule old, which may be nil.
func (m *Machine) setRule(old, to *rule, text []byte, now leaky.Instant) {
	m.rulesVersion++
	if old != nil && to.tallies != old.tallies {
		m.discardTallies(old.tallies)
	}
	to.commit = m.current.Number
	to.tallies.setOverrides(to.overrides, to.limiter, now)
	m.rules[to.Name] = to
	if at, found := slices.BinarySearch(m.ruleNames, to.Name); !found {
		m.ruleNames = slices.Insert(m.ruleNames, at, to.Name)
	}
	m.current.putRule(to, text)
}

func (l *loader) loadRules(context.Context) error {
	err := forEach(l.Table(rulesTable), func(k, v []byte) error {
		var number uint64
		var revision int64
		text, err := decode(v, "rule", &number, &revision)
		if err != nil {
			return err
		}
		q, err := rules.Decode(text)
		if err != nil {
			return fmt.Errorf("%w: the rule %s: %w", queue.ErrCorrupt, k, err)
		}
		r, err := newRule(q, revision, &tallySet{number: number})
		if err != nil {
			return fmt.Errorf("%w: the rule %s: %w", queue.ErrCorrupt, k, err)
		}
		r.tallies.setOverrides(r.overrides, r.limiter, l.now)
		l.Machine.rules[q.Name], l.rulesByTallies[number] = r, r
		l.ruleNames = append(l.ruleNames, q.Name)
		l.lastTallySet = max(l.lastTallySet, number)
		return nil
	})
	slices.Sort(l.ruleNames)
	return err
}

// readTallies reads the tallies. Unreadable and expired tallies are ignored, and deleted from the file.
func (l *loader) readTallies(ctx context.Context) error {
	return l.each(ctx, talliesTable, func(number uint64, v []byte) error {
		l.lastTally = number
		set, expires, digest, state, err := decodeTally(v)
		if err != nil {
			l.droppedTallies.add(number)
			return nil
		}
		l.lastTallySet = max(l.lastTallySet, set)
		r := l.rulesByTallies[set]
		if r == nil {
			l.orphans.tallyKeys = append(l.orphans.tallyKeys, number)
			return nil
		}
		s, err := r.limiter.Restore(state)
		if err != nil || expires <= l.now {
			l.droppedTallies.add(number)
			return nil
		}
		if older := r.tallies.find(digest); older != nil { // it was forgotten, and should have left the file
			l.forgetTally(older)
		}
		t := l.newTally(r.tallies, digest)
		t.number, t.expires, t.checkAt, t.onFile = number, expires, expires, true
		if len(state) <= packedMax { // left packed: its key and limiter are known when it is asked
			t.size = uint8(copy(t.packed[:], state))
		} else {
			// a log, or places, which lose nothing by unpacking
			t.unpacked = &unpackedTally{limiter: r.limiter, correctedBy: r.limiter, state: s, size: len(state)}
		}
		l.putTally(t)
		return nil
	})
}
