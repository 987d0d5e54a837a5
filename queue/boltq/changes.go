package boltq

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/changekind"
	"github.com/penstock/penstock/queue/internal/changelog"
)

// encodeChange encodes a change, except its number, which the head has, and specs, which are versions.
func encodeChange(c *queue.Change) []byte {
	w := writer{}
	w.num(uint64(instantOf(c.At)), uint64(c.Revision), uint64(c.Was), uint64(instantOf(c.Until)), uint64(c.Jobs))
	for _, s := range []string{c.By, c.Note, string(c.What), c.Detail, c.Reason} {
		w.text(s)
	}
	for _, id := range c.IDs {
		w.text(id)
	}
	return w
}

// decodeChange decodes a log entry.
func decodeChange(v []byte) (c queue.Change, err error) {
	h, ok := readHead(v)
	if !ok {
		return c, fmt.Errorf("%w: a change cut short", queue.ErrCorrupt)
	}
	r := reader{b: v[entryHeadBytes:]}
	at, revision, was, until, jobs := leaky.Instant(r.num()), r.num(), r.num(), leaky.Instant(r.num()), r.num()
	c = queue.Change{
		Number: int64(h.number), At: at.Time(), Last: h.last.Time(),
		Revision: int64(revision), Was: int64(was), Jobs: int64(jobs),
		By: r.text(), Note: r.text(), What: changekind.Kind(r.text()), Detail: r.text(), Reason: r.text(),
	}
	for len(r.b) > 0 && !r.bad {
		c.IDs = append(c.IDs, r.text())
	}
	if until != 0 {
		c.Until = until.Time()
	}
	return c, r.err("change")
}

// loggedBy is a change, in one step, that keeps the revision.
func loggedBy(what changekind.Kind, a queue.Actor, revision int64, now leaky.Instant) logged {
	return logged{actor: a, Change: queue.Change{
		At: now.Time(), Last: now.Time(), By: a.Name, Note: a.Note, What: what, Revision: revision, Was: revision,
	}}
}

// pauseLapsed is what to log about a pause that has ended by itself.
func (q *queueState) pauseLapsed(now leaky.Instant) []logged {
	if !q.pause.ended(now) {
		return nil
	}
	n := loggedBy(changekind.Resumed, queue.Actor{}, q.revision, q.pause.until)
	n.Reason = changelog.LapseReason
	return []logged{n}
}

// subjectState reports whether the subject exists, and what has happened to it that is not logged yet.
func (m *machine) subjectState(s subject, now leaky.Instant) (there bool, unwritten []logged) {
	if s.of == queue.OfRule {
		_, err := m.liveRule(s.name)
		return err == nil, nil
	}
	q, err := m.liveQueue(s.name)
	if err != nil {
		return false, nil
	}
	return true, q.pauseLapsed(now)
}

// Changes implements queue.Specs.
func (e *Engine) Changes(ctx context.Context, r queue.ChangesRequest) (queue.ChangesPage, error) {
	if err := r.Validate(); err != nil {
		return queue.ChangesPage{}, err
	}
	s := subject{r.Subject, r.Name}
	e.lock()
	if err := e.readable(ctx); err != nil {
		e.unlock()
		return queue.ChangesPage{}, err
	}
	now := e.now()
	there, unwritten := e.subjectState(s, now)
	e.unlock()
	var page queue.ChangesPage
	err := e.db.view(func(t *tables) (err error) {
		if !there && (strings.ContainsRune(s.name, 0) || !t.hasLog(s, now)) {
			return s.unknown()
		}
		var dropped int64
		page, err = r.Page(func(before int64, n int) (list []queue.Change, err error) {
			if list, dropped, err = t.entries(s, before, n, e.keptSince(now)); before == 0 {
				list = withUnwritten(list, unwritten)
			}
			return list, err
		})
		if err == nil {
			err = t.withSpecs(s, page.Changes)
		}
		page.Dropped = dropped
		return err
	})
	return page, err
}

// keptSince is the instant up to which changes are too old.
func (e *Engine) keptSince(now leaky.Instant) leaky.Instant {
	return now.Add(-e.opts.KeepChanges)
}

// hasLog reports whether there is still a log of a deleted subject.
func (t *tables) hasLog(s subject, now leaky.Instant) bool {
	until, buried := t.deletedUntil(s)
	return buried && until > now
}

// withUnwritten puts what is not logged yet before a list, unless it has been logged meanwhile.
func withUnwritten(list []queue.Change, unwritten []logged) []queue.Change {
	for i := range unwritten {
		c := unwritten[i].Change
		written := slices.ContainsFunc(list, func(o queue.Change) bool {
			return o.What == c.What && o.Reason == c.Reason && o.By == "" && o.At.Equal(c.At)
		})
		if written {
			continue
		}
		c.Number = 1
		if len(list) > 0 {
			c.Number = list[0].Number + 1
		}
		list = append([]queue.Change{c}, list...)
	}
	return list
}

// withSpecs adds to changes of specs what the spec was before and after.
func (t *tables) withSpecs(s subject, list []queue.Change) error {
	if !slices.ContainsFunc(list, func(c queue.Change) bool { return c.What.OfSpecs() }) {
		return nil
	}
	if s.of == queue.OfRule {
		rules := map[int64]*queue.Rule{}
		err := t.versions(s, func(revision int64, text []byte) error {
			r, err := queue.DecodeRule(text)
			rules[revision] = &r
			return err
		})
		changelog.JoinRules(list, rules)
		return err
	}
	h, err := t.history(s)
	h.Join(list)
	return err
}

// history reads the kept specs of a queue.
func (t *tables) history(s subject) (queue.History, error) {
	h := queue.History{Queue: s.name}
	err := t.versions(s, func(revision int64, text []byte) error {
		spec, err := queue.ParseSpec(text)
		if err != nil {
			return fmt.Errorf("%w: a former spec of %s: %w", queue.ErrCorrupt, s.name, err)
		}
		h.Specs = append(h.Specs, queue.KeptSpec{Revision: revision, Spec: spec})
		return nil
	})
	slices.Reverse(h.Specs)
	return h, err
}

func (s subject) unknown() error {
	if s.of == queue.OfRule {
		return unknownRule(s.name)
	}
	return unknownQueue(s.name)
}

// History implements queue.Specs.
func (e *Engine) History(ctx context.Context, name string) (queue.History, error) {
	e.lock()
	if err := e.readable(ctx); err != nil {
		e.unlock()
		return queue.History{}, err
	}
	now, s := e.now(), queueSubject(name)
	q, err := e.liveQueue(name)
	revision := int64(0)
	if err == nil {
		revision = q.revision
	}
	e.unlock()
	var h queue.History
	err = e.db.view(func(t *tables) (err error) {
		if revision == 0 && (strings.ContainsRune(name, 0) || !t.hasLog(s, now)) {
			return s.unknown()
		}
		h, err = t.history(s)
		h.Revision = revision
		return err
	})
	return h, err
}

// Rollback implements queue.Specs. It puts the spec only if the queue is still at the revision at which it looked.
func (e *Engine) Rollback(ctx context.Context, name string, revision, expect int64) (queue.PutResult, error) {
	h, err := e.History(ctx, name)
	if err != nil {
		return queue.PutResult{}, err
	}
	if expect != queue.AnyRevision && expect != h.Revision {
		return queue.PutResult{Revision: h.Revision}, checkRevision(name, expect, h.Revision)
	}
	spec, err := h.Earlier(revision)
	if err != nil {
		return queue.PutResult{}, err
	}
	return e.putSpec(ctx, spec, h.Revision, true)
}
