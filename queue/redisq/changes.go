package redisq

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/internal/changelog"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/rules"
)

// Changes implements queue.Specs.
func (e *Engine) Changes(ctx context.Context, r queue.ChangesRequest) (queue.ChangesPage, error) {
	if err := r.Validate(); err != nil {
		return queue.ChangesPage{}, err
	}
	if validSubject(r.Subject, r.Name) != nil {
		return queue.ChangesPage{}, unknownSubject(r.Subject, r.Name)
	}
	var dropped int64
	page, err := r.Page(func(before int64, n int) (list []queue.Change, err error) {
		list, dropped, err = e.changes(ctx, r.Subject, r.Name, before, n)
		return list, err
	})
	if err == nil && slices.ContainsFunc(page.Changes, func(c queue.Change) bool { return c.What.OfSpecs() }) {
		err = e.withSpecs(ctx, &r, page.Changes)
	}
	page.Dropped = dropped
	return page, err
}

func validSubject(s queue.Subject, name string) error {
	if s == queue.OfRule {
		return rules.ValidateName(name)
	}
	return names.Validate(name)
}

func unknownSubject(s queue.Subject, name string) error {
	if s == queue.OfRule {
		return unknownRule(name)
	}
	return unknown(name)
}

// changes reads some entries of a change log.
func (e *Engine) changes(
	ctx context.Context, s queue.Subject, name string, before int64, n int,
) (all []queue.Change, dropped int64, err error) {
	var from any = ""
	if before > 0 {
		from = before
	}
	v, err := e.ask(ctx, changesScript, e.Partition(name), e.instant(), string(s), name, from, n)
	if err != nil {
		return nil, 0, err
	}
	answer := list(v)
	if answer.int() == 0 && answer.err == nil {
		return nil, 0, unknownSubject(s, name)
	}
	dropped = answer.int()
	for rows := answer.list(); rows.more(); {
		r := rows.list()
		c := queue.Change{
			Number: r.int(), Last: micros(r.int()), At: micros(r.int()),
		}
		c.By, c.Note = who(r.text())
		c.What, c.Revision, c.Was = changekind.Kind(r.text()), r.int(), r.int()
		c.Detail, c.Reason, c.Until, c.Jobs = r.text(), r.text(), micros(r.int()), r.int()
		for ids := r.list(); ids.more(); {
			c.IDs = append(c.IDs, ids.text())
		}
		if r.err != nil {
			return nil, 0, r.err
		}
		all = append(all, c)
	}
	return all, dropped, answer.err
}

// withSpecs adds the specs before and after them to changes of specs.
func (e *Engine) withSpecs(ctx context.Context, r *queue.ChangesRequest, list []queue.Change) error {
	if r.Subject == queue.OfQueue {
		h, err := e.History(ctx, r.Name)
		h.Join(list)
		return err
	}
	kept := map[int64]*rules.Rule{}
	_, err := e.versions(ctx, r.Subject, r.Name, func(revision int64, text []byte) error {
		rule, err := rules.Decode(text)
		kept[revision] = &rule
		return err
	})
	changelog.JoinRules(list, kept)
	return err
}

// versions reads the kept versions, newest first.
func (e *Engine) versions(
	ctx context.Context, s queue.Subject, name string, visit func(revision int64, text []byte) error,
) (present int64, err error) {
	v, err := e.ask(ctx, historyScript, e.Partition(name), e.instant(), string(s), name)
	if err != nil {
		return 0, err
	}
	answer := list(v)
	if answer.int() == 0 && answer.err == nil {
		return 0, unknownSubject(s, name)
	}
	present = answer.int()
	rows := answer.list()
	for rows.more() {
		revision, text := rows.int(), rows.text()
		if rows.err != nil {
			break
		}
		if err := visit(revision, []byte(text)); err != nil {
			return present, fmt.Errorf("%w: a former state of %s %s: %w", queue.ErrCorrupt, s, name, err)
		}
	}
	return present, rows.err
}

// History implements queue.Specs.
func (e *Engine) History(ctx context.Context, name string) (queue.History, error) {
	h := queue.History{Queue: name}
	if names.Validate(name) != nil {
		return h, unknown(name)
	}
	var err error
	h.Revision, err = e.versions(ctx, queue.OfQueue, name, func(revision int64, text []byte) error {
		s, err := queue.ParseSpec(text)
		h.Specs = append(h.Specs, queue.KeptSpec{Revision: revision, Spec: s})
		return err
	})
	return h, err
}

// Rollback implements queue.Specs. It puts the earlier spec on condition that the queue is still at the revision at
// which that spec was found.
func (e *Engine) Rollback(ctx context.Context, name string, revision, expect int64) (queue.PutResult, error) {
	h, err := e.History(ctx, name)
	if err != nil {
		return queue.PutResult{}, err
	}
	if expect != queue.AnyRevision && expect != h.Revision {
		err := fmt.Errorf("%s: %w: it is at revision %d", name, queue.ErrRevision, h.Revision)
		return queue.PutResult{Revision: h.Revision}, err
	}
	spec, err := h.Earlier(revision)
	if err != nil {
		return queue.PutResult{}, err
	}
	return e.put(ctx, spec, h.Revision, true)
}

// keepChanges sets in all partitions how long changes are kept. Opening a store without this option leaves it
// unchanged.
func (e *Engine) keepChanges(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	_, err := e.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, key := range e.keys {
			pipe.HSet(ctx, key, "keepchanges", d.Microseconds())
		}
		return nil
	})
	if err != nil {
		err, _ = classify(err)
	}
	return err
}
