package machine

import (
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

// rulebook is all rules and what was taken from them.
type rulebook struct {
	rules          map[string]*rule
	ruleNames      []string                 // of live rules, sorted
	ruleUses       map[string]int           // rule name -> how many queues of its group use it
	rulesVersion   uint64                   // grows with every change of rules or of their use; 0 is before the first
	tallySets      heap[*tallySet]          // by when the first of their tallies may expire
	lastTally      uint64                   // the last key given to a tally
	lastTallySet   uint64                   // the last number given to a tally set
	dirtyTallies   chunkList[*tally]        // that differ from what is on file
	spareTallies   []*tally                 // forgotten ones that no file has; dirtyTallies may have them
	droppedTallies chunkList[uint64]        // records of tallies that are gone
	attending      map[string]leaky.Instant // when each process last took part in admission
}

// rule is one rule. It is never changed in place.
type rule struct {
	rules.Rule
	revision  int64
	template  rules.Template
	limiter   leaky.Limiter
	overrides map[string]leaky.Limiter
	keyLimit  int64
	tallies   *tallySet
	commit    uint64 // that made it what it is; 0 if it was loaded
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

// limiterFor returns the limiter of a key.
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

// countRuleUses adds n to the uses of the rules of its own group that the spec of a queue names.
func (m *Machine) countRuleUses(of string, asked []string, n int) {
	for _, name := range ruleset.Names(of, nil, asked) {
		if m.ruleUses[name] += n; m.ruleUses[name] == 0 {
			delete(m.ruleUses, name)
		}
	}
}

// checkRuleNames returns an *invalid.Error if a spec names a rule of its own group that does not exist or cannot
// be used by queues.
func (m *Machine) checkRuleNames(s *queue.Spec) error {
	for i, name := range s.Rules {
		if names.Group(name) != names.Group(s.Name) {
			continue
		}
		r := m.rules[name]
		if r == nil {
			return ruleset.NoSuch(i, name)
		}
		if r.Algorithm == leaky.AlgorithmConcurrency {
			return ruleset.NoQueueAsks(i, name)
		}
	}
	return nil
}
