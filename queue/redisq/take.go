package redisq

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

// takeItem is a valid question on its way to its rule.
type takeItem struct {
	rule  *rule
	bound *bound
	op    rules.TakeOp
	key   storedKey
	ask   leaky.Ask
	err   error // the question cannot be asked of the rule as it is known here
}

// askNothing only asks whether the rule is still as it is known, for a question that cannot be asked.
const askNothing = rules.TakeCorrect + 1

func (i takeItem) size() int { return questionBytes + len(i.key.name) + len(i.ask.Lease) }

const (
	questionBytes = 1 + 2 + 2 + 4 + 1 + 1
	decisionBytes = 1 + 4 + 8 + 8

	// mostReads is how often a call reads a rule that keeps changing.
	mostReads = 10
)

// Answers to questions that were not decided.
var (
	errStale = errors.New("changed since it was read") // the rule has changed
	errLater = errors.New("to be asked again")         // the server has looked at enough entries for one call
	errTake  = errors.New("is unknown")                // of the take to correct
)

// Take implements queue.Rules. It asks rules as they are known here, and reads those that have changed.
func (e *Engine) Take(ctx context.Context, name string, takes []rules.Take) ([]rules.Taken, error) {
	if err := ruleset.CheckTakes(len(takes)); err != nil {
		return nil, err
	}
	if rules.ValidateName(name) != nil {
		return nil, unknownRule(name)
	}
	entry, err := ruleset.Audited(ctx, name, takes)
	if err != nil {
		return nil, err
	}
	if len(takes) == 0 { // without questions no script would notice that the rule is gone
		_, err := e.Rule(ctx, name)
		return nil, err
	}
	var few [8]int // a small call allocates nothing for them
	open := few[:0]
	for i := range takes {
		open = append(open, i)
	}
	var answers []rules.Taken
	for range mostReads {
		got, stale, err := e.takeFrom(ctx, name, takes, open, answers, entry)
		if err != nil {
			return failed(answers, open, err)
		}
		answers = got
		if open = stale; len(open) == 0 {
			return answers, nil
		}
	}
	return failed(answers, open, fmt.Errorf("%w: rule %s keeps changing", queue.ErrUnavailable, name))
}

// failed returns the answers when the open questions cannot be decided, or the error if none was decided.
func failed(answers []rules.Taken, open []int, err error) ([]rules.Taken, error) {
	if answers == nil || len(open) == len(answers) {
		return nil, err
	}
	for _, i := range open {
		answers[i] = rules.Taken{Err: err}
	}
	return answers, nil
}

// takeFrom asks the open questions. It returns the answers, and the questions whose rule has changed meanwhile. It adds
// to answers, unless that is nil.
func (e *Engine) takeFrom(ctx context.Context, name string, takes []rules.Take, open []int,
	answers []rules.Taken, entry *audit.Entry,
) (all []rules.Taken, stale []int, err error) {
	r, err := e.ruleOf(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	items := make([]takeItem, len(open))
	for k, i := range open {
		item := takeItem{rule: r, bound: r.of(takes[i].Key), op: takes[i].Op, key: e.keyOf(r, takes[i].Key)}
		if item.ask, item.err = r.Ask(takes[i], item.bound.limiter); item.err != nil {
			item.op, item.ask = askNothing, leaky.Ask{}
		}
		items[k] = item
	}
	var got []rules.Taken
	if entry == nil {
		got, err = e.takes[e.Partition(r.Name)].Do(ctx, items)
	} else {
		got, err = e.sendAudited(ctx, items, entry)
	}
	if err != nil {
		return nil, nil, err
	}
	if answers == nil {
		answers = got
	}
	failed := 0
	for k, a := range got {
		item := &items[k]
		if errors.Is(a.Err, errStale) {
			stale = append(stale, open[k])
			continue
		}
		switch {
		case errors.Is(a.Err, errTake):
			a.Err = rules.UnknownTake(item.ask.Lease)
		case a.Err != nil:
			if failed++; failed == len(items) {
				return nil, nil, a.Err
			}
		case item.err != nil:
			a = rules.Taken{Err: item.err}
		default:
			a.Shadow = r.Action == rules.Shadow
			if err := r.Never(item.ask, item.bound.limiter, &a.Decision); err != nil {
				a = rules.Taken{Err: err}
			}
		}
		if item.op == rules.TakeNow && a.Allowed {
			r.SetID(&a, item.ask)
		}
		answers[open[k]] = a
	}
	if len(stale) > 0 {
		e.rules.drop(name, r)
	}
	return answers, stale, nil
}

// ruleOf returns a rule as it is known here, or reads it.
func (e *Engine) ruleOf(ctx context.Context, name string) (*rule, error) {
	if r := e.rules.get(name); r != nil {
		return r, nil
	}
	v, err := e.ask(ctx, rulesScript, e.Partition(name), e.instant(), "get", name)
	if err != nil {
		return nil, err
	}
	answer := list(v)
	answer.text() // the name to continue with, which only lists have
	rows := answer.list()
	if answer.err != nil {
		return nil, answer.err
	}
	if !rows.more() {
		return nil, unknownRule(name)
	}
	r, err := readRule(rows.list())
	if err != nil {
		return nil, err
	}
	e.rules.put(name, r)
	return r, nil
}

// sendTake sends one batch, with a call for each arithmetic. It asks once: the tokens may have been taken although no
// answer came.
func (e *Engine) sendTake(ctx context.Context, partition int, items []takeItem) ([]rules.Taken, error) {
	answers, byLetter := make([]rules.Taken, len(items)), map[byte][]ofQueue{}
	for _, g := range byQueue(items, func(i *takeItem) string { return i.rule.known }) {
		letter := items[g.items[0]].rule.bound.packed[0]
		byLetter[letter] = append(byLetter[letter], g)
	}
	for letter, groups := range byLetter {
		scripts, freeing := takeScripts[letter], 0
		for len(groups) > 0 {
			err := e.askRules(ctx, scripts[freeing], partition, items, groups, answers)
			left := func(i int) bool { return errors.Is(answers[i].Err, errLater) }
			if errors.Is(err, queue.ErrStoreFull) && freeing == 0 {
				freeing = 1 // it takes nothing
				left = func(i int) bool { return items[i].op != rules.TakeNow }
			}
			groups = only(groups, left)
		}
	}
	return answers, nil
}

// sendAudited asks one rule in calls of their own, each of which writes an audit entry.
func (e *Engine) sendAudited(
	ctx context.Context, items []takeItem, entry *audit.Entry,
) ([]rules.Taken, error) {
	by, err := actorText(&entry.Actor)
	if err != nil {
		return nil, err
	}
	r := items[0].rule
	answers, groups := make([]rules.Taken, len(items)), byQueue(items, func(i *takeItem) string { return i.rule.known })
	scripts, freeing := auditedTakes[r.bound.packed[0]], 1
	if slices.ContainsFunc(items, func(i takeItem) bool { return i.op == rules.TakeNow }) {
		freeing = 0
	}
	for len(groups) > 0 {
		asked := 0
		for _, i := range groups[0].items {
			if items[i].op != askNothing {
				asked++
			}
		}
		err := e.askRules( // each answer has its error; earlier answers stand
			ctx, scripts[freeing], e.Partition(r.Name), items, groups, answers, asked, by, r.Name, string(entry.What),
		)
		left := func(i int) bool { return errors.Is(answers[i].Err, errLater) }
		if errors.Is(err, queue.ErrStoreFull) && freeing == 0 {
			freeing = 1 // it takes nothing
			left = func(i int) bool { return items[i].op != rules.TakeNow }
		}
		groups = only(groups, left)
	}
	return answers, nil
}

// only returns the items of groups that satisfy a condition.
func only(groups []ofQueue, is func(i int) bool) []ofQueue {
	for k := range groups {
		groups[k].items = slices.DeleteFunc(groups[k].items, func(i int) bool { return !is(i) })
	}
	return slices.DeleteFunc(groups, func(g ofQueue) bool { return len(g.items) == 0 })
}

// askRules asks rules of one arithmetic. Its error is for all answers.
func (e *Engine) askRules(ctx context.Context, s script, partition int, items []takeItem, groups []ofQueue,
	answers []rules.Taken, more ...any,
) error {
	args, sent := make([]any, 0, 3+5*len(groups)+len(items)+len(more)), time.Now()
	args = append(args, e.instant(), len(groups), e.clocks[partition].latest(sent))
	for _, g := range groups {
		keys := newKeysArg(len(g.items))
		questions := make([]byte, 0, len(g.items)*questionBytes)
		for _, i := range g.items {
			item := &items[i]
			questions = append(questions, byte(item.op))
			questions = binary.BigEndian.AppendUint16(questions, keys.bounds.index(item.bound))
			key, _ := keys.index(&item.key.name)
			questions = binary.BigEndian.AppendUint16(questions, key)
			questions = binary.BigEndian.AppendUint32(questions, uint32(item.ask.Cost))
			questions = append(questions, item.key.rarity, byte(len(item.ask.Lease)))
			questions = append(questions, item.ask.Lease...)
		}
		r := items[g.items[0]].rule
		args = append(append(args, &r.field, &r.is, keys.bounds.packed, len(keys.keys)), keys.keys...)
		args = append(args, questions)
	}
	args = append(args, more...)
	v, err := e.unrepeated(ctx, s, partition, args...)
	r := &reply{err: err}
	if err == nil {
		r = list(v)
	}
	for _, g := range groups {
		v := r.next()
		for k, i := range g.items {
			answers[i] = rules.Taken{Err: r.err}
			if r.err == nil {
				answers[i] = readTaken(v, k, len(g.items), items[i].bound)
			}
		}
	}
	if err == nil && e.now == nil {
		e.clocks[partition].observe(leaky.Instant(r.int()), sent)
	}
	return err
}

// boundsArg is the bounds of a call, each once.
type boundsArg struct {
	bounds []*bound
	packed []byte
}

// index returns the index of a bound, from 1 as in Lua. A call usually has only a few.
func (a *boundsArg) index(b *bound) uint16 {
	for i := len(a.bounds) - 1; i >= 0; i-- {
		if a.bounds[i] == b {
			return uint16(i + 1)
		}
	}
	a.bounds = append(a.bounds, b)
	a.packed = append(a.packed, b.packed[:]...)
	return uint16(len(a.bounds))
}

// readTaken reads the k-th of n answers of one rule.
func readTaken(v any, k, n int, b *bound) rules.Taken {
	if text, ok := v.(string); ok && len(text) == decisionBytes*n {
		switch text[decisionBytes*k] {
		case 2:
			return rules.Taken{Err: errLater}
		case 4:
			return rules.Taken{Err: errTake}
		}
		return rules.Taken{
			Decision: readDecision(text[decisionBytes*k:], b),
			MaxKeys:  noRoomFor(text[decisionBytes*k], b),
		}
	}
	if v == int64(1) {
		return rules.Taken{Err: errStale}
	}
	return rules.Taken{Err: fmt.Errorf("%w: a script answered %T in place of decisions", queue.ErrCorrupt, v)}
}

// noRoomFor returns how many keys the rule may hold if a decision says that there is no room for another; else 0.
func noRoomFor(said byte, b *bound) int64 {
	if said == 3 {
		return b.keys
	}
	return 0
}

// readDecision reads a packed decision.
func readDecision(text string, b *bound) leaky.Decision {
	return leaky.Decision{
		Allowed:    text[0] == 1,
		Limit:      b.limiter.Limit(),
		Remaining:  int64(number(text[1:5])),
		RetryAfter: time.Duration(number(text[5:13])) * time.Microsecond,
		ResetAfter: time.Duration(number(text[13:21])) * time.Microsecond,
	}
}

func number(bytes string) (n uint64) {
	for i := range len(bytes) {
		n = n<<8 | uint64(bytes[i])
	}
	return n
}
