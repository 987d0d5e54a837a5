package redisq

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

var _ document.Documents = (*Engine)(nil)

// documentKey returns the key of a document in scripts. A kind has no colon.
func documentKey(kind, name string) string { return kind + ":" + name }

// shown returns the showable text for the audit log as scripts take it: its digest, and the text itself unless it is
// the text that is kept.
func (e *Engine) shown(kind string, kept, audited []byte) (digest, other []byte) {
	show := audited
	if e.mask != nil {
		show = e.mask(kind, audited)
	}
	sum := sha256.Sum256(show)
	if string(show) == string(kept) {
		show = nil
	}
	return sum[:], show
}

// Document implements document.Documents.
func (e *Engine) Document(ctx context.Context, kind, name string) (document.Document, error) {
	d := document.Document{Kind: kind, Name: name}
	if d.Validate() != nil {
		return document.Document{}, document.Unknown(kind, name)
	}
	v, err := e.ask(ctx, documentScript, 0, e.instant(), documentKey(kind, name))
	if err != nil {
		return document.Document{}, err
	}
	r := list(v)
	if r.err == nil && !r.more() {
		return document.Document{}, document.Unknown(kind, name)
	}
	d.Revision, d.At, d.Text = r.int(), micros(r.int()), []byte(r.text())
	return d, r.err
}

// DocumentsSince implements document.Documents.
func (e *Engine) DocumentsSince(ctx context.Context, after int64, limit int) (p document.Page, err error) {
	if limit < 1 || limit > document.MaxPage {
		return p, invalid.Errorf("limit", strconv.Itoa(limit), "must be from 1 to %d", document.MaxPage)
	}
	for {
		v, err := e.ask(ctx, documentsSinceScript, 0, e.instant(), after, limit)
		if err != nil {
			return document.Page{}, err
		}
		r := list(v)
		p.Run, p.More = r.text(), r.text() == "1"
		behind, rows := r.number(), r.list()
		for rows.more() {
			d := document.Document{}
			d.Kind, d.Name, _ = strings.Cut(rows.text(), ":")
			d.Revision, d.At, d.Text = rows.int(), micros(rows.int()), bytesOf(rows.text())
			p.Documents = append(p.Documents, d)
		}
		if r.err != nil || rows.err != nil {
			return document.Page{}, errors.Join(r.err, rows.err)
		}
		// If all documents that were read were deleted long ago, the answer is empty, and the next one begins at the
		// same revision.
		if len(p.Documents) > 0 || !p.More {
			return p, nil
		}
		after = behind
	}
}

// PutDocument implements document.Documents.
func (e *Engine) PutDocument(ctx context.Context, d document.Document, expect int64) (int64, error) {
	if err := d.Validate(); err != nil {
		return 0, err
	}
	by, err := actorArg(ctx)
	if err != nil {
		return 0, err
	}
	var digest, show []byte
	if d.Text != nil {
		digest, show = e.shown(d.Kind, d.Text, d.Text)
	}
	v, err := e.repeat(ctx, putDocumentScript, 0, e.instant(), documentKey(d.Kind, d.Name), d.Text, expect, randomID(),
		digest, show, by)
	if err != nil {
		return 0, err
	}
	r := list(v)
	code, revision := r.int(), r.int()
	switch code {
	case 1:
		return revision, fmt.Errorf("%s %s: %w: it is at revision %d", d.Kind, d.Name, queue.ErrRevision, revision)
	case 2:
		return 0, document.Unknown(d.Kind, d.Name)
	}
	return revision, r.err
}
