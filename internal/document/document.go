// Package document defines the small texts that a store keeps by kind and name, such as apps and tokens.
package document

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// Document is a small text that a store keeps by kind and name, such as an app or a token. The store does not
// interpret it.
type Document struct {
	Kind, Name string
	// Revision grows with every write of any document in the store. No two writes have the same revision.
	Revision int64
	At       time.Time // time of the last write, by the engine's clock
	// Text is valid JSON, or nil if the document was deleted.
	Text []byte
}

// Documents stores documents. All of them live in partition 0.
type Documents interface {
	// Document returns a document. Errors also: ErrUnknown.
	Document(ctx context.Context, kind, name string) (Document, error)
	// DocumentsSince returns up to limit documents, 1 to MaxPage, whose last write has a revision above after,
	// including recently deleted ones. A caller that starts with 0 and continues after the last document it got
	// receives all documents and every change.
	DocumentsSince(ctx context.Context, after int64, limit int) (Page, error)
	// PutDocument writes a document, or deletes it if Text is nil, and returns its revision. expect is the revision
	// the document must be at: 0 means that it must not exist, AnyRevision skips the check. An equal text changes
	// nothing and keeps the revision, so PutDocument may be repeated. Errors also: an *invalid.Error, ErrRevision (the
	// result is then the present revision, or 0), and for a deletion ErrUnknown.
	PutDocument(ctx context.Context, d Document, expect int64) (int64, error)
}

// Bounds of documents.
const (
	MaxBytes     = 64 << 10
	MaxNameBytes = 128
	// KeepDeleted is how long DocumentsSince reports the deletion of a document.
	KeepDeleted = 24 * time.Hour
	// MaxPage is the maximum length of a page of documents.
	MaxPage = 1000
)

// Page is a page of documents written after a revision.
type Page struct {
	Documents []Document // in the order of their last writes
	// More is whether further documents follow.
	More bool
	// Run identifies the run of the store. A store that was restarted, or replaced by another server, may have lost its
	// last writes. Callers that cache documents must read all of them again when Run changes.
	Run string
}

// Validate checks a document to be put. Its error is an *invalid.Error.
func (d *Document) Validate() error {
	if !names.IsKind(d.Kind) {
		return invalid.Errorf("kind", clip.Quote(d.Kind, 40), "must be 1 to 16 characters of a-z and _")
	}
	if len(d.Name) > MaxNameBytes || names.ValidateID(d.Name) != nil {
		return invalid.Errorf("name", clip.Quote(d.Name, 80), "must be 1 to %d visible ASCII characters", MaxNameBytes)
	}
	if len(d.Text) > MaxBytes {
		return invalid.Errorf("text", "", "has %d bytes, the limit is %d", len(d.Text), MaxBytes)
	}
	if d.Text != nil && (!json.Valid(d.Text) || bytes.ContainsAny(d.Text, "\n\r")) {
		return invalid.Errorf("text", "", "must be JSON on one line")
	}
	return nil
}

// ErrUnknown means that no document has that name.
var ErrUnknown = errors.New("unknown document")

// Missing is the error of a document that does not exist. It unwraps to ErrUnknown.
type Missing struct{ Kind, Name string }

// Unknown returns the error of a document that does not exist, a *Missing.
func Unknown(kind, name string) error { return &Missing{kind, name} }

func (e *Missing) Error() string {
	return fmt.Sprintf("%v: %s %s", ErrUnknown, e.Kind, clip.Quote(e.Name, 80))
}

func (e *Missing) Unwrap() error { return ErrUnknown }
