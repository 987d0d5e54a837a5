package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/internal/changelog"
	"github.com/penstock/penstock/queue/rules"
)

// changeFields are the fields of a change without its number, which is in the head, and without specs, which are
// versions.
func changeFields(c *queue.Change) []any {
	return []any{&c.At, &c.Revision, &c.Was, &c.Until, &c.Jobs, &c.By, &c.Note, &c.What, &c.Detail, &c.Reason}
}

func encodeChange(change *queue.Change) []byte {
	c := &codec{}
	c.fields(changeFields(change)...)
	for _, id := range change.IDs {
		c.fields(&id)
	}
	return c.b
}

// decodeChange decodes a log entry.
func decodeChange(v []byte) (change queue.Change, err error) {
	h, ok := readHead(v)
	if !ok {
		return change, fmt.Errorf("%w: a truncated change record", queue.ErrCorrupt)
	}
	change.Number, change.Last = int64(h.number), h.last.Time()
	c := decoder(v[entryHeadBytes:])
	for c.fields(changeFields(&change)...); len(c.b) > 0 && !c.bad; {
		var id string
		c.fields(&id)
		change.IDs = append(change.IDs, id)
	}
	return change, c.err("change")
}

// loggedBy returns a change, in one step, that keeps the revision.
func loggedBy(what changekind.Kind, a audit.Actor, revision int64, wall leaky.Instant) logged {
	return logged{actor: a, Change: queue.Change{
		At: wall.Time(), Last: wall.Time(), By: a.Name, Note: a.Note, What: what, Revision: revision, Was: revision,
	}}
}

// pauseLapsed returns what to log about a pause that has ended by itself.
func (q *queueState) pauseLapsed(now leaky.Instant) []logged {
	if !q.pause.ended(q.env.wall(now)) {
		return nil
	}
	n := loggedBy(changekind.Resumed, audit.Actor{}, q.revision, q.pause.until)
	n.Reason, n.unaudited = changelog.LapseReason, true
	return []logged{n}
}

// subjectState reports whether the subject exists, and what has happened to it that is not logged yet.
func (m *Machine) subjectState(s subject, now leaky.Instant) (there bool, unwritten []logged) {
	if s.of == queue.OfRule {
		_, err := m.ruleNamed(s.name)
		return err == nil, nil
	}
	q, err := m.liveQueue(s.name)
	if err != nil {
		return false, nil
	}
	return true, q.pauseLapsed(now)
}

// Changing is a page of changes to a queue or rule, to be read.
type Changing struct {
	request   queue.ChangesRequest
	of        subject
	there     bool
	unwritten []logged
	now       leaky.Instant
}

// Changes prepares a page of a queue's or rule's changes. Errors: an *invalid.Error.
func (m *Machine) Changes(now leaky.Instant, r queue.ChangesRequest) (*Changing, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	c := &Changing{request: r, of: subject{r.Subject, r.Name}, now: m.wall(now)}
	c.there, c.unwritten = m.subjectState(c.of, now)
	return c, nil
}

// Read reads the page; keep is how long changes are kept. Errors: queue.ErrUnknownQueue, rules.ErrUnknown.
func (c *Changing) Read(tx Transaction, keep time.Duration) (page queue.ChangesPage, err error) {
	t := &tables{tx}
	if !c.there && (strings.ContainsRune(c.of.name, 0) || !t.hasLog(c.of, c.now)) {
		return page, c.of.unknown()
	}
	var head entryHead
	page, err = c.request.Page(func(before int64, n int) (list []queue.Change, err error) {
		if list, head, err = t.entries(c.of, before, n, c.now.Add(-keep)); before == 0 {
			list = withUnwritten(list, c.unwritten, int64(head.number))
		}
		return list, err
	})
	if err == nil {
		err = t.withSpecs(c.of, page.Changes)
	}
	page.Dropped = int64(head.dropped)
	return page, err
}

// hasLog reports whether a deleted subject still has a log.
func (t *tables) hasLog(s subject, now leaky.Instant) bool {
	until, deleted := t.deletedUntil(s)
	return deleted && until > now
}

// withUnwritten prepends changes that are not logged yet to a list, unless they have been logged meanwhile. last is the
// number of the last change logged; the list lacks changes that are too old to be shown.
func withUnwritten(list []queue.Change, unwritten []logged, last int64) []queue.Change {
	for i := range unwritten {
		c := unwritten[i].Change
		written := slices.ContainsFunc(list, func(o queue.Change) bool {
			return o.What == c.What && o.Reason == c.Reason && o.By == "" && o.At.Equal(c.At)
		})
		if written {
			continue
		}
		last++
		c.Number = last
		list = append([]queue.Change{c}, list...)
	}
	return list
}

// withSpecs adds the specs before and after to changes of specs.
func (t *tables) withSpecs(s subject, list []queue.Change) error {
	if !slices.ContainsFunc(list, func(c queue.Change) bool { return c.What.OfSpecs() }) {
		return nil
	}
	if s.of == queue.OfRule {
		kept := map[int64]*rules.Rule{}
		err := t.versions(s, func(revision int64, text []byte) error {
			r, err := rules.Decode(text)
			kept[revision] = &r
			return err
		})
		changelog.JoinRules(list, kept)
		return err
	}
	h, err := t.history(s)
	h.Join(list)
	return err
}

// history reads the stored specs of a queue.
func (t *tables) history(s subject) (queue.History, error) {
	h := queue.History{Queue: s.name}
	err := t.versions(s, func(revision int64, text []byte) error {
		spec, err := queue.ParseSpec(text)
		if err != nil {
			return fmt.Errorf("%w: an earlier spec of %s: %w", queue.ErrCorrupt, s.name, err)
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

// Past is a lookup of a queue's earlier specs.
type Past struct {
	of   subject
	made uint64 // number of queues ever created
	now  leaky.Instant
}

// History starts a lookup of a queue's earlier specs. Read completes it once the returned commit is durable.
func (m *Machine) History(now leaky.Instant, name string) (p Past, wait uint64) {
	return Past{queueSubject(name), m.store.queue, m.wall(now)}, m.lastWait()
}

// Read returns the specs. It needs no machine. Errors: queue.ErrUnknownQueue.
func (p Past) Read(tx Transaction) (queue.History, error) {
	if strings.ContainsRune(p.of.name, 0) {
		return queue.History{}, p.of.unknown()
	}
	t := &tables{tx}
	h, err := t.history(p.of)
	if _, deleted := t.deletedUntil(p.of); !deleted && len(h.Specs) > 0 {
		h.Revision = h.Specs[0].Revision // the queue may have changed since History
	} else if !t.hasLog(p.of, p.now) {
		return queue.History{}, p.of.unknown()
	}
	return h, err
}
