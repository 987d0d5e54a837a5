package redisq

import (
	"context"
	"fmt"

	"github.com/penstock/penstock/queue"
)

// Changes implements queue.Specs.
func (e *Engine) Changes(ctx context.Context, name string, limit int) ([]queue.Change, error) {
	if queue.ValidateName(name) != nil {
		return nil, unknown(name)
	}
	if err := queue.ValidateChanges(limit); err != nil {
		return nil, err
	}
	v, err := e.ask(ctx, changesScript, e.Partition(name), e.instant(), name, limit)
	if err != nil {
		return nil, err
	}
	rows := list(v)
	var all []queue.Change
	for rows.more() {
		r := rows.list()
		c := queue.Change{At: micros(r.int()), By: r.text(), What: queue.ChangeKind(r.text()), Revision: r.int(), Was: r.int()}
		for _, spec := range []**queue.Spec{&c.Before, &c.After} {
			text := r.text()
			if text == "" {
				continue
			}
			s, err := queue.ParseSpec([]byte(text))
			if err != nil {
				return nil, fmt.Errorf("%w: a former spec of %s: %w", queue.ErrCorrupt, name, err)
			}
			*spec = &s
		}
		if c.Reason, c.Until = r.text(), micros(r.int()); r.err != nil {
			return nil, r.err
		}
		all = append(all, c)
	}
	if rows.err == nil && len(all) == 0 {
		return nil, unknown(name)
	}
	return all, rows.err
}

// Rollback implements queue.Specs. The spec is put at the revision at which it was found to be
// the one that is meant.
func (e *Engine) Rollback(ctx context.Context, name string, revision, expect int64) (queue.PutResult, error) {
	changes, err := e.Changes(ctx, name, queue.MaxChanges)
	if err != nil {
		return queue.PutResult{}, err
	}
	spec, now, err := queue.Earlier(name, changes, revision)
	if expect != queue.AnyRevision && expect != now {
		return queue.PutResult{Revision: now}, fmt.Errorf("%s: %w: it is at revision %d", name, queue.ErrRevision, now)
	}
	if err != nil {
		return queue.PutResult{}, err
	}
	return e.put(ctx, spec, now, true)
}
