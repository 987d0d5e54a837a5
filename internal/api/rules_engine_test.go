package api_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
)

// ruled is a rule of the engine, and what was taken from it.
type ruled struct {
	info    rules.Info
	tallies map[string]leaky.Tally
}

func (e *engine) PutRule(_ context.Context, r rules.Rule, expect int64) (queue.PutResult, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return queue.PutResult{}, e.err
	}
	old, present := e.rules[r.Name], int64(0)
	if old != nil {
		present = old.info.Revision
	}
	if expect != queue.AnyRevision && expect != present {
		return queue.PutResult{Revision: present}, queue.ErrRevision
	}
	e.revision++
	if e.rules == nil {
		e.rules = map[string]*ruled{}
	}
	e.rules[r.Name] = &ruled{rules.Info{Rule: r, Revision: e.revision}, map[string]leaky.Tally{}}
	return queue.PutResult{Revision: e.revision, Created: old == nil, Changed: true}, nil
}

func (e *engine) rule(name string) (*ruled, error) {
	if e.err != nil {
		return nil, e.err
	}
	r := e.rules[name]
	if r == nil {
		return nil, fmt.Errorf("%w: %s", rules.ErrUnknown, name)
	}
	return r, nil
}

func (e *engine) Rule(_ context.Context, name string) (rules.Info, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, err := e.rule(name)
	if err == nil {
		err = e.readErr
	}
	if err != nil {
		return rules.Info{}, err
	}
	return r.info, nil
}

func (e *engine) ListRules(_ context.Context, after string, limit int) ([]rules.Info, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []rules.Info
	for _, name := range slices.Sorted(maps.Keys(e.rules)) {
		if name > after && len(list) < limit {
			list = append(list, e.rules[name].info)
		}
	}
	return list, e.err
}

func (e *engine) DeleteRule(_ context.Context, name string, expect int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, err := e.rule(name)
	switch {
	case err != nil:
		return err
	case expect != queue.AnyRevision && expect != r.info.Revision:
		return queue.ErrRevision
	case len(r.info.Queues) > 0:
		return rules.ErrInUse
	}
	delete(e.rules, name)
	return nil
}

func (e *engine) ResetRule(_ context.Context, name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, err := e.rule(name)
	if err == nil {
		clear(r.tallies)
	}
	return err
}

// Take decides at the epoch.
func (e *engine) Take(_ context.Context, name string, takes []rules.Take) ([]rules.Taken, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, err := e.rule(name)
	if err != nil {
		return nil, err
	}
	e.takes = append(e.takes, len(takes))
	answers := make([]rules.Taken, len(takes))
	for i, t := range takes {
		answers[i] = r.take(t)
		answers[i].Shadow, answers[i].Away = r.info.Action == rules.Shadow, e.away
	}
	return answers, nil
}

func (r *ruled) take(t rules.Take) rules.Taken {
	l, err := r.info.Of(t.Key).Limiter(r.info.Algorithm)
	if err != nil {
		return rules.Taken{Err: err}
	}
	ask := leaky.Ask{Cost: t.Cost, Lease: t.Lease}
	if r.info.Algorithm == leaky.AlgorithmConcurrency && ask.Lease == "" {
		ask.Lease = fmt.Sprintf("place-%d", len(r.tallies))
	}
	switch err := leaky.CheckAsk(l, ask); {
	case errors.Is(err, leaky.ErrNever):
		return rules.Taken{Err: rules.CannotPass(r.info.Name, t.Cost, l.Limit())}
	case err != nil:
		return rules.Taken{Err: err}
	case t.Key == "" && r.info.Key != "":
		return rules.Taken{Err: &invalid.Error{Field: "key", Reason: "is empty, and the rule counts by one; give it"}}
	}
	tally := r.tallies[t.Key]
	if tally == nil || t.Op == rules.TakeAnew {
		tally = l.Fresh()
		r.tallies[t.Key] = tally
	}
	now := leaky.Instant(epoch.UnixMicro())
	switch t.Op {
	case rules.TakePeek:
		return rules.Taken{Decision: tally.Peek(now, ask)}
	case rules.TakeBack:
		return rules.Taken{Decision: tally.Refund(now, ask)}
	case rules.TakeAnew:
		return rules.Taken{Decision: tally.Peek(now, leaky.Ask{Lease: ask.Lease})}
	}
	return rules.Taken{Decision: tally.Take(now, ask), Lease: t.Lease}
}
