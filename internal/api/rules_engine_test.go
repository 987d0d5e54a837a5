package api_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// ruled is a rule of the engine, and what was taken from it.
type ruled struct {
	info    queue.RuleInfo
	tallies map[string]leaky.Tally
}

func (e *engine) PutRule(_ context.Context, r queue.Rule, expect int64) (queue.PutResult, error) {
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
	e.rules[r.Name] = &ruled{queue.RuleInfo{Rule: r, Revision: e.revision}, map[string]leaky.Tally{}}
	return queue.PutResult{Revision: e.revision, Created: old == nil, Changed: true}, nil
}

func (e *engine) rule(name string) (*ruled, error) {
	if e.err != nil {
		return nil, e.err
	}
	r := e.rules[name]
	if r == nil {
		return nil, fmt.Errorf("%w: %s", queue.ErrUnknownRule, name)
	}
	return r, nil
}

func (e *engine) Rule(_ context.Context, name string) (queue.RuleInfo, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, err := e.rule(name)
	if err == nil {
		err = e.readErr
	}
	if err != nil {
		return queue.RuleInfo{}, err
	}
	return r.info, nil
}

func (e *engine) ListRules(_ context.Context, after string, limit int) ([]queue.RuleInfo, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []queue.RuleInfo
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
		return queue.ErrRuleInUse
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
func (e *engine) Take(_ context.Context, name string, takes []queue.Take) ([]queue.Taken, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, err := e.rule(name)
	if err != nil {
		return nil, err
	}
	e.takes = append(e.takes, len(takes))
	answers := make([]queue.Taken, len(takes))
	for i, t := range takes {
		answers[i] = r.take(t)
		answers[i].Shadow, answers[i].Away = r.info.Action == queue.Shadow, e.away
	}
	return answers, nil
}

func (r *ruled) take(t queue.Take) queue.Taken {
	l, err := r.info.Of(t.Key).Limiter(r.info.Algorithm)
	if err != nil {
		return queue.Taken{Err: err}
	}
	ask := leaky.Ask{Cost: t.Cost, Lease: t.Lease}
	if r.info.Algorithm == leaky.AlgorithmConcurrency && ask.Lease == "" {
		ask.Lease = fmt.Sprintf("place-%d", len(r.tallies))
	}
	switch err := leaky.CheckAsk(l, ask); {
	case errors.Is(err, leaky.ErrNever):
		return queue.Taken{Err: queue.CannotPass(r.info.Name, t.Cost, l.Limit())}
	case err != nil:
		return queue.Taken{Err: err}
	case t.Key == "" && r.info.Key != "":
		return queue.Taken{Err: &queue.FieldError{Field: "key", Reason: "is empty, and the rule counts by one; give it"}}
	}
	tally := r.tallies[t.Key]
	if tally == nil || t.Op == queue.TakeAnew {
		tally = l.Fresh()
		r.tallies[t.Key] = tally
	}
	now := leaky.Instant(epoch.UnixMicro())
	switch t.Op {
	case queue.TakePeek:
		return queue.Taken{Decision: tally.Peek(now, ask)}
	case queue.TakeBack:
		return queue.Taken{Decision: tally.Refund(now, ask)}
	case queue.TakeAnew:
		return queue.Taken{Decision: tally.Peek(now, leaky.Ask{Lease: ask.Lease})}
	}
	return queue.Taken{Decision: tally.Take(now, ask), Lease: t.Lease}
}
