package machine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/invalid"
)

// A document is indexed by its name, and by the revision of its last write, which is the order of DocumentsSince. A
// deleted document is kept as a record without text, so that DocumentsSince can report it. Deleted documents also have
// a table of their own by revision, which finds the oldest.

func documentKey(kind, name string) []byte { return append(append([]byte(kind), 0), name...) }

// encodeDocument encodes all but the kind and the name. The text is JSON and so never empty.
func encodeDocument(d *document.Document) []byte {
	return append(encode(&d.Revision, &d.At), d.Text...)
}

// document returns a document, which may be deleted; its Revision is 0 if it never existed.
func (t *tables) document(k []byte) (d document.Document, err error) {
	v := t.Table(documentsTable).Get(k)
	if v == nil {
		return d, nil
	}
	kind, name, _ := bytes.Cut(k, []byte{0})
	d = document.Document{Kind: string(kind), Name: string(name)}
	text, err := decode(v, "document", &d.Revision, &d.At)
	if len(text) > 0 {
		d.Text = bytes.Clone(text)
	}
	return d, err
}

// putDocument writes a document; was is its previous revision, or 0.
func (s *effects) putDocument(d *document.Document, was int64) {
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

// forgetDocuments forgets up to n documents that were deleted up to an instant.
func (t *tables) forgetDocuments(n int, until leaky.Instant) error {
	for range n {
		at, k := t.Table(docDeletesTable).Cursor().First()
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
			if err := t.Table([]byte(table)).Delete(gone); err != nil {
				return err
			}
		}
	}
	return nil
}

// ReadDocument returns a document. Errors: document.ErrUnknown.
func ReadDocument(tx Transaction, kind, name string) (document.Document, error) {
	d := document.Document{Kind: kind, Name: name}
	if d.Validate() != nil {
		return document.Document{}, document.Unknown(kind, name)
	}
	d, err := (&tables{tx}).document(documentKey(kind, name))
	if err == nil && d.Text == nil {
		return document.Document{}, document.Unknown(kind, name)
	}
	return d, err
}

// documentsBytes is the approximate maximum size of a page's texts.
const documentsBytes = 1 << 20

// ReadDocuments returns a page of documents written since a revision, as of an instant of the wall clock; epoch is the
// machine's. Errors: an *invalid.Error.
func ReadDocuments(
	wall leaky.Instant, tx Transaction, epoch uint64, after int64, limit int,
) (p document.Page, err error) {
	if limit < 1 || limit > document.MaxPage {
		return p, invalid.Errorf("limit", strconv.Itoa(limit), "must be from 1 to %d", document.MaxPage)
	}
	p.Run = strconv.FormatUint(epoch, 16)
	t, size := &tables{tx}, 0
	c := t.Table(docWritesTable).Cursor()
	for at, k := c.Seek(key(uint64(max(0, after)) + 1)); at != nil; at, k = c.Next() {
		if p.More = len(p.Documents) == limit || size >= documentsBytes; p.More {
			return p, nil
		}
		d, err := t.document(k)
		if err != nil {
			return p, err
		}
		if d.Revision != int64(binary.BigEndian.Uint64(at)) {
			return p, fmt.Errorf("%w: %s %s is not at revision %d", queue.ErrCorrupt, d.Kind, d.Name, at)
		}
		if d.Text == nil && instantOf(d.At) <= wall.Add(-document.KeepDeleted) {
			continue
		}
		size += len(d.Text)
		p.Documents = append(p.Documents, d)
	}
	return p, nil
}

// KnownDocument is a document as of a commit.
type KnownDocument struct {
	document document.Document
	commit   uint64
}

// ReadKnownDocument reads the document that the document by will replace. Errors: an *invalid.Error.
func ReadKnownDocument(tx Transaction, by document.Document) (known KnownDocument, err error) {
	if err := by.Validate(); err != nil {
		return known, err
	}
	if known.commit, err = LastCommit(tx); err == nil {
		known.document, err = (&tables{tx}).document(documentKey(by.Kind, by.Name))
	}
	return known, err
}

// PutDocument writes or deletes a document, and returns its revision and the commit that the answer waits for. Errors:
// see document.Documents; ErrOutdated.
func (m *Machine) PutDocument(
	now leaky.Instant, actor audit.Actor, known KnownDocument, d document.Document, expect int64,
) (revision int64, wait uint64, err error) {
	if known.commit < m.documentsDurable {
		return 0, 0, ErrOutdated
	}
	k := string(documentKey(d.Kind, d.Name))
	was := m.documentNow(known, k)
	changes, revision, err := decideDocument(&d, &was, expect)
	switch {
	case err != nil || !changes:
		return revision, m.lastWait(), err
	case d.Text != nil && m.Full != nil:
		return 0, 0, m.Full
	}
	m.store.revision = m.nextRevision(now)
	d.Revision, d.At, d.Text = m.store.revision, m.wall(now).Time(), bytes.Clone(d.Text)
	entry := audit.Entry{
		Actor: actor, Of: d.Kind, Name: d.Name, What: changekind.Changed, Revision: d.Revision,
	}
	switch {
	case was.Text == nil:
		entry.What = changekind.Created
	case d.Text == nil:
		entry.What, entry.Was = changekind.Deleted, was.Revision
	default:
		entry.Was = was.Revision
	}
	c := m.current
	c.audited = append(c.audited, audited{entry: entry, before: was.Text, after: d.Text})
	c.putDocument(&d, was.Revision)
	c.documents[k] = d
	return d.Revision, m.wait(), nil
}

// documentNow returns a document as it will be after the current commit.
func (m *Machine) documentNow(known KnownDocument, k string) document.Document {
	for _, c := range slices.Backward(m.failing()) {
		if d, here := c.documents[k]; here {
			return d
		}
	}
	return known.document
}

// decideDocument reports whether the document changes, and returns its current revision.
func decideDocument(d, was *document.Document, expect int64) (changes bool, current int64, err error) {
	if was.Text != nil {
		current = was.Revision
	}
	switch {
	case d.Text == nil && current == 0:
		return false, 0, document.Unknown(d.Kind, d.Name)
	case expect != queue.AnyRevision && expect != current:
		return false, current, checkRevision(d.Kind+" "+d.Name, expect, current)
	case current != 0 && bytes.Equal(d.Text, was.Text):
		return false, current, nil
	}
	return true, current, nil
}
