package redisq

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/internal/changelog"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

// rule is a rule of the store, with the numbers by which scripts know it.
type rule struct {
	ruleset.ParsedRule
	revision int64
	is       string // what a script compares: the number of its tallies, and the revision
	number   string // the first of these
	field    string // of the partition, which stores that
	salt     []byte // decides which of its keys are rare
	known    string // unique, because it has the name
	bound    *bound
	single   map[string]*bound // for single keys
}

// bound is the numbers of one limiter, as scripts read them.
type bound struct {
	limiter leaky.Limiter
	keys    int64 // that the rule may hold; 0 for a key with an override, which does not count
	packed  [boundBytes]byte
}

// boundBytes is the size of a bound: a letter for the arithmetic, three numbers, the maximum number of keys, and the
// span by which the store counts them: at least half of the longest that a key can take until it is fresh again.
const boundBytes = 1 + 5*8

func (r *rule) of(key string) *bound {
	if b, ok := r.single[key]; ok {
		return b
	}
	return r.bound
}

// storedKey is the key in the store for a key of a rule. The rule counts a part of its keys: one in 2^n has a rarity of
// n or more (see rulekeys.lua).
type storedKey struct {
	name   string
	rarity byte
}

func (e *Engine) keyOf(r *rule, key string) storedKey {
	digest := queue.DigestLane(key)
	return storedKey{
		name:   e.keys[e.Partition(r.Name)] + "V" + r.number + ":" + string(digest[:]),
		rarity: rarity(digest, r.salt),
	}
}

func rarity(digest queue.LaneDigest, salt []byte) byte {
	var b [64]byte // more than either
	sum := sha256.Sum256(append(append(b[:0], digest[:]...), salt...))
	return byte(bits.LeadingZeros32(binary.BigEndian.Uint32(sum[:])))
}

func newRule(text []byte, revision int64, is string) (*rule, error) {
	stored, err := rules.Decode(text)
	if err != nil {
		return nil, err
	}
	if err := stored.Validate(); err != nil {
		return nil, err
	}
	number, more, _ := strings.Cut(is, " ")
	_, salt, _ := strings.Cut(more, " ")
	salt, _, _ = strings.Cut(salt, " ")
	r := &rule{
		revision: revision, is: is, number: number, field: "u:" + stored.Name, salt: []byte(salt),
		known: stored.Name + " " + is, single: map[string]*bound{},
	}
	r.Rule = stored
	if r.Template, err = rules.ParseTemplate(stored.Key); err != nil {
		return nil, err
	}
	if r.bound, err = newBound(stored.Algorithm, stored.Bound, stored.KeyLimit()); err != nil {
		return nil, err
	}
	for key, b := range stored.Overrides {
		if r.single[key], err = newBound(stored.Algorithm, b, 0); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func newBound(a leaky.Algorithm, numbers rules.Bound, keys int64) (*bound, error) {
	l, err := numbers.Limiter(a)
	if err != nil {
		return nil, err
	}
	b := &bound{limiter: l, keys: keys}
	binary.BigEndian.PutUint64(b.packed[25:], uint64(keys))
	binary.BigEndian.PutUint64(b.packed[33:], uint64(max(recovery(l)/2, 5*time.Second).Microseconds()+1))
	for _, k := range kinds {
		list := k.numbers(l)
		if list == nil {
			continue
		}
		b.packed[0] = k.letter[0]
		for i, n := range list {
			binary.BigEndian.PutUint64(b.packed[1+8*i:], uint64(n))
		}
		return b, nil
	}
	return nil, fmt.Errorf("no script implements the algorithm of %s", a)
}

// recovery returns the longest that a key can take until it is fresh.
func recovery(l leaky.Limiter) time.Duration {
	full := l.Fresh()
	full.Take(0, leaky.Ask{Cost: l.Limit(), Lease: "all"})
	return full.Expires(0).Sub(0)
}

// longestOf returns the longest recovery of all keys of a rule.
func longestOf(r *rules.Rule) (longest time.Duration, err error) {
	for _, numbers := range append(slices.Collect(maps.Values(r.Overrides)), r.Bound) {
		l, err := numbers.Limiter(r.Algorithm)
		if err != nil {
			return 0, err
		}
		longest = max(longest, recovery(l))
	}
	return longest, nil
}

// overridden returns the digests of all keys with overrides.
func overridden(r *rules.Rule) []byte {
	var digests []byte
	for key := range r.Overrides {
		digest := queue.DigestLane(key)
		digests = append(digests, digest[:]...)
	}
	return digests
}

// PutRule implements queue.Rules.
func (e *Engine) PutRule(ctx context.Context, r rules.Rule, expect int64) (queue.PutResult, error) {
	r.Normalize()
	if err := r.Validate(); err != nil {
		return queue.PutResult{}, err
	}
	by, err := actorArg(ctx)
	if err != nil {
		return queue.PutResult{}, err
	}
	text, err := rules.Encode(r)
	if err != nil {
		return queue.PutResult{}, err
	}
	kept, err := changelog.EncodeKeptRule(r)
	if err != nil {
		return queue.PutResult{}, err
	}
	audited, err := changelog.EncodeAuditedRule(r)
	if err != nil {
		return queue.PutResult{}, err
	}
	longest, err := longestOf(&r)
	if err != nil {
		return queue.PutResult{}, err
	}
	digest, show := e.shown(string(queue.OfRule), kept, audited)
	for range mostReads {
		known, lost := e.lostOverrides(ctx, &r)
		v, err := e.repeat(ctx, putRuleScript, e.Partition(r.Name), e.instant(), r.Name, text, string(r.Algorithm),
			expect, randomID(), kept, by, overridden(&r), longest.Microseconds(), known, lost, digest,
			show)
		if err != nil {
			return queue.PutResult{}, err
		}
		answer := list(v)
		result := queue.PutResult{Revision: answer.int(), Created: answer.int() == 1, Changed: answer.int() == 1}
		switch answer.int() {
		case 1:
			return result, fmt.Errorf("%s: %w: it is at revision %d", r.Name, queue.ErrRevision, result.Revision)
		case 2:
			return queue.PutResult{}, ruleset.AskedByQueues(r.Name, r.Algorithm)
		case 3:
			e.rules.forget(r.Name)
			continue
		}
		return result, answer.err
	}
	return queue.PutResult{}, fmt.Errorf("%w: rule %s keeps changing", queue.ErrUnavailable, r.Name)
}

// lostOverrides returns the keys that have overrides in the known rule but not in r, and the revision of the known
// rule: 0 if there is no rule, -1 if it cannot be read.
func (e *Engine) lostOverrides(ctx context.Context, r *rules.Rule) (known int64, lost []byte) {
	old, err := e.ruleOf(ctx, r.Name)
	if errors.Is(err, rules.ErrUnknown) {
		return 0, nil
	}
	if err != nil {
		return -1, nil
	}
	for key := range old.Overrides {
		if _, ok := r.Overrides[key]; !ok {
			digest := queue.DigestLane(key)
			lost = append(append(lost, digest[:]...), rarity(digest, old.salt))
		}
	}
	return old.revision, lost
}

// Rule implements queue.Rules.
func (e *Engine) Rule(ctx context.Context, name string) (rules.Info, error) {
	if rules.ValidateName(name) != nil {
		return rules.Info{}, unknownRule(name)
	}
	page, _, err := e.ruleInfos(ctx, e.Partition(name), "get", name)
	if err != nil {
		return rules.Info{}, err
	}
	if len(page) == 0 {
		return rules.Info{}, unknownRule(name)
	}
	return page[0], nil
}

func unknownRule(name string) error {
	return fmt.Errorf("%s: %w", clip.Quote(name, 80), rules.ErrUnknown)
}

// ListRules implements queue.Rules.
func (e *Engine) ListRules(ctx context.Context, after string, limit int) ([]rules.Info, error) {
	return merged(len(e.keys), after, limit, nameOfRule, func(p int, after string, n int) ([]rules.Info, string,
		error,
	) {
		return e.ruleInfos(ctx, p, "list", after, n)
	})
}

// ruleInfos reads rules; next is the name to continue a list with, "" at the end.
func (e *Engine) ruleInfos(ctx context.Context, partition int, args ...any) (page []rules.Info, next string,
	err error,
) {
	v, err := e.ask(ctx, rulesScript, partition, append([]any{e.instant()}, args...)...)
	if err != nil {
		return nil, "", err
	}
	answer := list(v)
	next = answer.text()
	for rows := answer.list(); rows.more(); {
		i, err := readRuleInfo(rows.list())
		if err != nil && args[0] == "list" {
			e.log.Error("rule left out of a list: its stored data is not what penstock wrote", "rule", i.Name,
				"error", err)
			continue
		}
		if err != nil {
			return nil, "", err
		}
		page = append(page, i)
	}
	return page, next, answer.err
}

func readRuleInfo(row *reply) (i rules.Info, err error) {
	r, err := readRule(row)
	if err != nil {
		i.Name = r.Name
		return i, err
	}
	i.Rule, i.Revision = r.Rule, r.revision
	for queues := row.list(); queues.more(); {
		i.Queues = append(i.Queues, queues.text())
	}
	i.Keys = row.int()
	return i, row.err
}

// readRule reads {name, revision, is, rule}, or {name, error}. Of a broken rule it returns the name.
func readRule(row *reply) (*rule, error) {
	named := &rule{}
	named.Name = row.text()
	if len(row.v) == 1 {
		return named, replyErr(row.text())
	}
	revision, is, text := row.int(), row.text(), row.text()
	if row.err != nil {
		return named, row.err
	}
	r, err := newRule([]byte(text), revision, is)
	if err != nil {
		return named, fmt.Errorf("%w: rule %s: %w", queue.ErrCorrupt, named.Name, err)
	}
	return r, nil
}

// DeleteRule implements queue.Rules.
func (e *Engine) DeleteRule(ctx context.Context, name string, expect int64) error {
	if rules.ValidateName(name) != nil {
		return unknownRule(name)
	}
	by, err := actorArg(ctx)
	if err != nil {
		return err
	}
	v, err := e.once(ctx, deleteRuleScript, e.Partition(name), e.instant(), name, expect, by)
	if err != nil {
		return err
	}
	answer := list(v)
	switch code, revision := answer.int(), answer.int(); code {
	case 1:
		return unknownRule(name)
	case 2:
		return fmt.Errorf("%s: %w: it is at revision %d", name, queue.ErrRevision, revision)
	case 3:
		return fmt.Errorf("%s: %w", name, rules.ErrInUse)
	}
	e.rules.forget(name)
	return answer.err
}

// ResetRule implements queue.Rules.
func (e *Engine) ResetRule(ctx context.Context, name string) error {
	if rules.ValidateName(name) != nil {
		return unknownRule(name)
	}
	by, err := actorArg(ctx)
	if err != nil {
		return err
	}
	v, err := e.repeat(ctx, resetRuleScript, e.Partition(name), e.instant(), name, by)
	if err == nil && v == int64(0) {
		err = unknownRule(name)
	}
	return err
}

// Attend implements queue.Rules. Processes are noted on the first partition.
func (e *Engine) Attend(ctx context.Context, process string) (int, error) {
	if err := ruleset.ValidateProcess(process); err != nil {
		return 0, err
	}
	v, err := e.repeat(ctx, attendScript, 0, e.instant(), process, queue.AttendFor.Microseconds())
	if err != nil {
		return 0, err
	}
	n, ok := v.(int64)
	if !ok {
		return 0, errors.Join(queue.ErrCorrupt, fmt.Errorf("a script answered %T in place of a number", v))
	}
	return int(n), nil
}
