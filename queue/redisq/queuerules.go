package redisq

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/penstock/penstock/internal/coalesce"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

// queueRules is the ruleset of a queue.
type queueRules struct {
	ruleset.Set
	known string // the number that a script compares
	group string // unique, because it has the queue's name
	rules []*rule
}

// asked is what a job asks of its ruleset.
type asked struct {
	*queueRules
	asks []ask
	err  error // of a job that cannot be asked
}

type ask struct {
	rule  *rule
	bound *bound
	key   storedKey
}

const (
	askBytes  = 2
	unaskable = "!"

	// askSize is the size of an ask in a batch, whatever its key's length: the server works on each, so a call has at
	// most about 2,000.
	askSize = coalesce.MaxBytes / 2000
)

// asksOf returns what a job asks, by the ruleset as it is known here.
func (e *Engine) asksOf(j *queue.Job) *asked {
	s := e.rulesets.get(j.Queue)
	if s == nil {
		return nil
	}
	all, err := s.Asks(j)
	a := &asked{queueRules: s, err: err}
	if len(all) > 0 {
		a.asks = make([]ask, 0, len(all))
	}
	for i := range all {
		for _, r := range s.rules {
			if r.Name == all[i].Rule.Name {
				a.asks = append(a.asks, ask{r, r.of(all[i].Key), e.keyOf(r, all[i].Key)})
			}
		}
	}
	return a
}

// size returns what a job's asks add to the size of its batch.
func (a *asked) size() int {
	if a == nil {
		return 0
	}
	return len(a.asks) * askSize
}

// keysArg is the keys of a call, each once, and the bounds of all.
type keysArg struct {
	bounds boundsArg
	keys   []any
	at     map[string]uint16
	of     []byte // of each key of an append, its bound, the action of its rule and its rarity
}

// newKeysArg returns a keysArg for a call with so many asks.
func newKeysArg(asks int) keysArg {
	a := keysArg{keys: make([]any, 0, asks)}
	if asks > 1 {
		a.at = make(map[string]uint16, asks)
	}
	return a
}

// index returns the index of a key, from 1 as in Lua; fresh says that it was added. The key must not change until the
// call is sent.
func (a *keysArg) index(key *string) (n uint16, fresh bool) {
	if a.at == nil && len(a.keys) > 0 { // more than expected
		a.at = map[string]uint16{*a.keys[0].(*string): 1}
	}
	if n, ok := a.at[*key]; ok {
		return n, false
	}
	a.keys = append(a.keys, key)
	n = uint16(len(a.keys))
	if a.at != nil {
		a.at[*key] = n
	}
	return n, true
}

func (a *asked) pack(keys *keysArg) any {
	if a.err != nil {
		return unaskable
	}
	b := make([]byte, 0, askBytes*len(a.asks))
	for i := range a.asks {
		ask := &a.asks[i]
		n, fresh := keys.index(&ask.key.name)
		if fresh {
			keys.of = append(binary.BigEndian.AppendUint16(keys.of, keys.bounds.index(ask.bound)), ask.rule.Action[0],
				ask.key.rarity)
		}
		b = binary.BigEndian.AppendUint16(b, n)
	}
	return b
}

// readRuled reads the decisions on a job.
func (a *asked) readRuled(text string) (ruled []rules.Ruling) {
	if a == nil || len(text) != decisionBytes*len(a.asks) {
		return nil
	}
	ruled = make([]rules.Ruling, 0, len(a.asks))
	for i, ask := range a.asks {
		said := text[decisionBytes*i:]
		ruled = append(ruled, rules.Ruling{
			Rule: ask.rule.Name, Shadow: ask.rule.Action == rules.Shadow, MaxKeys: noRoomFor(said[0], ask.bound),
			Decision: readDecision(said, ask.bound),
		})
	}
	return ruled
}

// learnRules reads the ruleset of a queue.
func (e *Engine) learnRules(ctx context.Context, name string) error {
	v, err := e.ask(ctx, rulesetScript, e.Partition(name), e.instant(), name)
	if err != nil {
		return err
	}
	if v == int64(0) {
		e.rulesets.forget(name)
		return nil
	}
	answer := list(v)
	known, parents, own := answer.text(), strings.Fields(answer.text()), strings.Fields(answer.text())
	byName := map[string]*rule{}
	for rows := answer.list(); rows.more(); {
		r, err := readRule(rows.list())
		if err != nil {
			return err
		}
		byName[r.Name] = r
	}
	if answer.err != nil {
		return answer.err
	}
	if known == "" {
		e.rulesets.forget(name)
		return nil
	}
	s := &queueRules{known: known, group: name + " " + known}
	for _, n := range ruleset.Names(name, parents, own) {
		r := byName[n]
		if r == nil {
			return fmt.Errorf("%w: queue %s asks the rule %s, which is gone", queue.ErrCorrupt, name, n)
		}
		s.Set = append(s.Set, r.ParsedRule)
		s.rules = append(s.rules, r)
	}
	e.rulesets.put(name, s)
	return nil
}
