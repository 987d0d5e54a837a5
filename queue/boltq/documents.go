package boltq

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/changekind"
)

// A document is found by its name, and by the revision of its last write, in which order DocumentsSince tells them.
// One that was deleted is kept as a record without a text, so that it can tell of that, and those have a table of
// their own by the same revisions, so that the oldest of them are found.

func documentKey(kind, name string) []byte { return append(append([]byte(kind), 0), name...) }

// encodeDocument encodes all but the kind and the name. A document's text is JSON and so never empty.
func encodeDocument(d *queue.Document) []byte {
	w := writer{}
	w.num(uint64(d.Revision), uint64(instantOf(d.At)))
	return append(w, d.Text...)
}

// document returns one that is there or was deleted; its Revision is 0 if nothing is known of it.
func (t *tables) document(k []byte) (d queue.Document, err error) {
	v := t.table(documentsTable).Get(k)
	if v == nil {
		return d, nil
	}
	kind, name, _ := bytes.Cut(k, []byte{0})
	r := reader{b: v}
	d = queue.Document{Kind: string(kind), Name: string(name), Revision: int64(r.num())}
	d.At = leaky.Instant(r.num()).Time()
	if len(r.b) > 0 {
		d.Text = bytes.Clone(r.b)
	}
	return d, r.err("document")
}

// putDocument writes a document that was at a revision before, 0 if nothing was known of it.
func (s *effects) putDocument(d *queue.Document, was int64) {
	k, at := documentKey(d.Kind, d.Name), uint64(d.Revision)
	if was != 0 {
		s.drop(docWritesTable, uint64(was))
		s.drop(docDeletesTable, uint64(was))
	}
	if d.Text == nil {
		s.put(docDeletesTable, at, k)
	}
	s.put(docWritesTable, at, k)
	s.putNamed(documentsTable, string(k), encodeDocument(d))
}

// forgetDocuments forgets up to n of those that were deleted up to an instant.
func (t *tables) forgetDocuments(n int, until leaky.Instant) error {
	for range n {
		at, k := t.table(docDeletesTable).cursor().First()
		if at == nil {
			return nil
		}
		d, err := t.document(k)
		if err != nil || instantOf(d.At) > until {
			return err
		}
		at, k = bytes.Clone(at), bytes.Clone(k)
		for table, gone := range map[string][]byte{
			string(docDeletesTable): at, string(docWritesTable): at, string(documentsTable): k,
		} {
			if err := t.table([]byte(table)).Delete(gone); err != nil {
				return err
			}
		}
	}
	return nil
}

// Document implements queue.Documents.
func (e *Engine) Document(ctx context.Context, kind, name string) (d queue.Document, err error) {
	d = queue.Document{Kind: kind, Name: name}
	if d.Validate() != nil {
		return queue.Document{}, queue.UnknownDocument(kind, name)
	}
	if err := e.lookable(ctx); err != nil {
		return queue.Document{}, err
	}
	err = e.db.view(func(t *tables) error {
		d, err = t.document(documentKey(kind, name))
		return err
	})
	if err == nil && d.Text == nil {
		return queue.Document{}, queue.UnknownDocument(kind, name)
	}
	return d, err
}

// documentsBytes is about how many bytes of texts a page has.
const documentsBytes = 1 << 20

// DocumentsSince implements queue.Documents.
func (e *Engine) DocumentsSince(ctx context.Context, after int64, limit int) (p queue.DocumentsPage, err error) {
	if limit < 1 || limit > queue.MaxDocuments {
		return p, queue.FieldErrorf("limit", strconv.Itoa(limit), "must be from 1 to %d", queue.MaxDocuments)
	}
	e.lock()
	now, err := e.now(), e.readable(ctx)
	e.unlock()
	if err != nil {
		return p, err
	}
	p.Run = strconv.FormatUint(e.epoch, 16)
	err = e.db.view(func(t *tables) error {
		size := 0
		c := t.table(docWritesTable).cursor()
		for at, k := c.Seek(key(uint64(max(0, after)) + 1)); at != nil; at, k = c.Next() {
			if p.More = len(p.Documents) == limit || size >= documentsBytes; p.More {
				return nil
			}
			d, err := t.document(k)
			if err != nil {
				return err
			}
			if d.Revision != int64(binary.BigEndian.Uint64(at)) {
				return fmt.Errorf("%w: %s %s is not at revision %d", queue.ErrCorrupt, d.Kind, d.Name, at)
			}
			if d.Text == nil && instantOf(d.At) <= now.Add(-queue.KeepDeletedDocuments) {
				continue
			}
			size += len(d.Text)
			p.Documents = append(p.Documents, d)
		}
		return nil
	})
	return p, err
}

// PutDocument implements queue.Documents.
func (e *Engine) PutDocument(ctx context.Context, d queue.Document, expect int64) (int64, error) {
	if err := d.Validate(); err != nil {
		return 0, err
	}
	actor, err := queue.ActorOf(ctx)
	if err != nil {
		return 0, err
	}
	// The change may still be under way when the caller has given up.
	d.Kind, d.Name, d.Text = strings.Clone(d.Kind), strings.Clone(d.Name), bytes.Clone(d.Text)
	var revision int64
	err = decideWhenFree(ctx, func(c *call) (busy *call, err error) {
		busy, revision, err = e.tryPutDocument(d, expect, actor, c)
		return busy, err
	})
	if err != nil && !errors.Is(err, queue.ErrRevision) {
		return 0, err
	}
	return revision, err
}

// tryPutDocument decides about a document unless somebody else does, whose call it returns, and hands the change to
// the committer. The file is read outside the mutex, while nobody else can decide about the document.
func (e *Engine) tryPutDocument(
	d queue.Document, expect int64, actor queue.Actor, c *call,
) (busy *call, revision int64, err error) {
	k := documentKey(d.Kind, d.Name)
	e.lock()
	if err := e.usable(); err != nil {
		e.unlock()
		return nil, 0, err
	}
	if busy := e.documentCalls[string(k)]; busy != nil {
		e.unlock()
		return busy, 0, nil
	}
	e.documentCalls[string(k)] = c
	e.unlock()

	var was queue.Document
	err = e.db.view(func(t *tables) error {
		was, err = t.document(k)
		return err
	})
	var changes bool
	if err == nil {
		changes, revision, err = decideDocument(&d, &was, expect)
	}

	e.lock()
	defer e.unlock()
	if changes {
		err = e.usable()
	}
	if err != nil || !changes {
		delete(e.documentCalls, string(k))
		close(c.done)
		return nil, revision, err
	}
	e.store.revision++
	d.Revision = e.store.revision
	e.enqueue(c, &documentChange{call: c, document: d, was: was, actor: actor})
	return nil, d.Revision, nil
}

// decideDocument reports whether a document changes, and else the present revision.
func decideDocument(d, was *queue.Document, expect int64) (changes bool, present int64, err error) {
	if was.Text != nil {
		present = was.Revision
	}
	switch {
	case d.Text == nil && present == 0:
		return false, 0, queue.UnknownDocument(d.Kind, d.Name)
	case expect != queue.AnyRevision && expect != present:
		return false, present, checkRevision(d.Kind+" "+d.Name, expect, present)
	case present != 0 && bytes.Equal(d.Text, was.Text):
		return false, present, nil
	}
	return true, present, nil
}

// documentChange writes or deletes a document.
type documentChange struct {
	call          *call
	document, was queue.Document
	actor         queue.Actor
}

func (c *documentChange) prepare(b *batch) {
	c.document.At = b.now.Time()
	entry := queue.AuditEntry{
		Actor: c.actor, Of: c.document.Kind, Name: c.document.Name, What: changekind.Changed, Revision: c.document.Revision,
	}
	switch {
	case c.was.Text == nil:
		entry.What = changekind.Created
	case c.document.Text == nil:
		entry.What, entry.Was = changekind.Deleted, c.was.Revision
	default:
		entry.Was = c.was.Revision
	}
	b.audited = append(b.audited, audited{entry: entry, before: c.was.Text, after: c.document.Text})
	b.putDocument(&c.document, c.was.Revision)
	b.documents++
}

func (c *documentChange) apply(m *machine, _ leaky.Instant) { c.end(m, nil) }

func (c *documentChange) rollBack(m *machine, now leaky.Instant, err error) { c.end(m, err) }

func (c *documentChange) end(m *machine, err error) {
	delete(m.documentCalls, string(documentKey(c.document.Kind, c.document.Name)))
	c.call.finish(err)
}

func (c *documentChange) freesSpace() bool { return c.document.Text == nil }
