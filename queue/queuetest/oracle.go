package queuetest

import (
	"errors"
	"reflect"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
)

// oracle models a rule with package leaky.
type oracle struct {
	rule rules.Rule
	keys map[string]*takenUnderKey
}

// takenUnderKey is the tally of one key.
type takenUnderKey struct {
	limiter leaky.Limiter // of the last take
	tally   leaky.Tally
	expires leaky.Instant
}

func newOracle(rule rules.Rule) *oracle {
	return &oracle{rule: rule, keys: map[string]*takenUnderKey{}}
}

// changes gives the rule other numbers, or another algorithm.
func (o *oracle) changes(rule rules.Rule) {
	if rule.Algorithm != o.rule.Algorithm {
		clear(o.keys)
	}
	o.rule = rule
}

// of returns the tally of a key at now, and its limiter.
func (o *oracle) of(now leaky.Instant, key string) *takenUnderKey {
	l, err := o.rule.Of(key).Limiter(o.rule.Algorithm)
	if err != nil {
		panic(err)
	}
	k := o.keys[key]
	if k == nil || k.expires <= now {
		return &takenUnderKey{limiter: l, tally: l.Fresh()}
	}
	if k.limiter == l {
		return k
	}
	state, _ := k.tally.AppendBinary(nil)
	tally, err := l.Restore(state)
	if err != nil {
		panic(err)
	}
	return &takenUnderKey{limiter: l, tally: tally, expires: k.expires}
}

func (o *oracle) keep(now leaky.Instant, key string, k *takenUnderKey) {
	k.expires = k.tally.Expires(now)
	o.keys[key] = k
}

// ask answers one take. lease is the lease that the engine made up, if it did.
func (o *oracle) ask(now leaky.Instant, t rules.Take, lease string) rules.Taken {
	k := o.of(now, t.Key)
	ask, err := o.rule.Ask(t, k.limiter)
	if err != nil {
		return rules.Taken{Err: err}
	}
	if t.Lease == "" && lease != "" {
		ask.Lease = lease
	}
	a := rules.Taken{Shadow: o.rule.Action == rules.Shadow}
	switch t.Op {
	case rules.TakeNow:
		if a.Decision = k.tally.Take(now, ask); a.Allowed {
			a.Lease = ask.Lease
		}
		o.keep(now, t.Key, k)
	case rules.TakePeek:
		a.Decision = k.tally.Peek(now, ask)
	case rules.TakeBack:
		a.Decision = k.tally.Refund(now, ask)
		o.keep(now, t.Key, k)
	case rules.TakeAnew:
		delete(o.keys, t.Key)
		a.Decision = k.limiter.Fresh().Peek(now, leaky.Ask{})
	}
	if err := o.rule.Never(ask, k.limiter, &a.Decision); err != nil {
		return rules.Taken{Err: err}
	}
	return a
}

// same reports whether an engine's answer equals the oracle's. Errors are compared by field.
func same(got, want rules.Taken) bool {
	if want.Err != nil {
		var a, b *invalid.Error
		return errors.As(got.Err, &a) && errors.As(want.Err, &b) && a.Field == b.Field
	}
	return reflect.DeepEqual(got, want)
}

// asksOf asks a rule and compares the answers with the oracle's.
func (r *rig) asksOf(o *oracle, takes ...rules.Take) []rules.Taken {
	r.Helper()
	now := r.clock.Now()
	got := r.take(o.rule.Name, takes...)
	for i, t := range takes {
		if want := o.ask(now, t, got[i].Lease); !same(got[i], want) {
			r.Fatalf("%s: question %d of %d at %d, %v %.40q cost %d lease %q:\n got %+v, %v\nwant %+v, %v", o.rule.Name,
				i, len(takes), now, t.Op, t.Key, t.Cost, t.Lease,
				got[i], got[i].Err, want, want.Err)
		}
	}
	return got
}

// take asks a rule.
func (r *rig) take(rule string, takes ...rules.Take) []rules.Taken {
	r.Helper()
	got, err := r.e.Take(r.ctx, rule, takes)
	if err != nil || len(got) != len(takes) {
		r.Fatalf("take from %s: %d answers to %d questions, %v", rule, len(got), len(takes), err)
	}
	return got
}

// takes asks a rule and checks whether it allows the take.
func (r *rig) takes(rule, key string, cost int64, allowed bool) rules.Taken {
	r.Helper()
	got := r.take(rule, rules.Take{Key: key, Cost: cost})[0]
	if got.Err != nil || got.Allowed != allowed {
		r.Errorf(
			"%s: %d of %.40q at %d: %+v, %v; want allowed: %v", rule, cost, key, r.clock.Now(), got, got.Err, allowed,
		)
	}
	return got
}

// checkRemaining checks how much a rule would still allow under a key, without taking anything.
func (r *rig) checkRemaining(rule, key string, want int64) {
	r.Helper()
	got := r.take(rule, rules.Take{Op: rules.TakePeek, Key: key})[0]
	have := got.Remaining
	if got.Allowed {
		have++ // a peek answers what would remain
	}
	if got.Err != nil || have != want {
		r.Errorf("%s: %d are left of %.40q at %d, want %d: %+v, %v", rule, have, key, r.clock.Now(), want, got, got.Err)
	}
}
