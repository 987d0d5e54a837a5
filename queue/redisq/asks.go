package redisq

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/penstock/penstock/queue"
)

// ruleset is what a queue asks its jobs.
type ruleset struct {
	queue.Ruleset
	known  string // what a script compares
	group  string // with the queue's name, so that no other is the same
	rules  []*rule
	packed string // the number and action of each rule
}

// asked is what a job asks: its ruleset is nil if its queue asks nothing.
type asked struct {
	*ruleset
	asks []ask
	err  error // of a job that cannot be asked
}

type ask struct {
	rule  int // from 1 on, as in Lua
	bound *bound
	key   queue.LaneDigest
}

const (
	askBytes  = 1 + 2 + 16
	unaskable = "!"
)

// asksOf is what a job asks, as far as it is known here.
func (e *Engine) asksOf(j *queue.Job) asked {
	s := e.rulesets.get(j.Queue)
	if s == nil {
		return asked{}
	}
	all, err := s.Asks(j)
	a := asked{ruleset: s, err: err}
	for i := range all {
		for k, r := range s.rules {
			if r.Name == all[i].Rule.Name {
				a.asks = append(a.asks, ask{k + 1, r.of(all[i].Key), queue.DigestLane(all[i].Key)})
			}
		}
	}
	return a
}

// size is what a job's asks add to its flight.
func (a *asked) size() int { return askBytes * len(a.asks) }

func (a *asked) pack(bounds *boundsArg) any {
	if a.err != nil {
		return unaskable
	}
	b := make([]byte, 0, a.size())
	for _, ask := range a.asks {
		b = append(b, byte(ask.rule))
		b = binary.BigEndian.AppendUint16(b, bounds.index(ask.bound))
		b = append(b, ask.key[:]...)
	}
	return b
}

// readRuled reads what a job was answered.
func (a *asked) readRuled(text string) (ruled []queue.Ruled) {
	if len(text) != decisionBytes*len(a.asks) {
		return nil
	}
	for i, ask := range a.asks {
		r := a.rules[ask.rule-1]
		ruled = append(ruled, queue.Ruled{Rule: r.Name, Shadow: r.Action == queue.Shadow, Decision: readDecision(text[decisionBytes*i:], ask.bound)})
	}
	return ruled
}

// learnRules reads what a queue asks its jobs.
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
	s := &ruleset{known: known, group: name + " " + known}
	for _, n := range queue.RuleNames(name, parents, own) {
		r := byName[n]
		if r == nil {
			return fmt.Errorf("%w: queue %s asks the rule %s, which is gone", queue.ErrCorrupt, name, n)
		}
		number, _, _ := strings.Cut(r.is, " ")
		s.Ruleset, s.rules = append(s.Ruleset, r.ParsedRule), append(s.rules, r)
		s.packed += number + r.Action[:1]
	}
	e.rulesets.put(name, s)
	return nil
}
