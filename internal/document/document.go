// Package document has the small texts that a store keeps by kind and name, such as apps and tokens.
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

// Document is a small text that a store keeps by kind and name: an app, say, or a token. The store does not interpret
// it.
type Document struct {
	Kind, Name string
	// Revision grows with every write of any document of the store, and no two writes have the same.
	Revision int64
	At       time.Time // of its last write, by the engine's clock
	// Text is valid JSON; nil of one that was deleted.
	Text []byte
}

// Documents keeps small texts by kind and name, such as apps and tokens. A document lives in partition 0, whatever it
// is about.
type Documents interface {
	// Document returns one. Errors also: ErrUnknown.
	Document(ctx context.Context, kind, name string) (Document, error)
	// DocumentsSince returns up to limit documents, 1 to MaxPage, of which the last write has a higher revision
	// than after, also those that were deleted lately. Beginning with 0 and going on behind the last one that was
	// told, whoever asks has all of them, and hears of every change.
	DocumentsSince(ctx context.Context, after int64, limit int) (Page, error)
	// PutDocument writes a document, or with a nil Text deletes it, and returns its revision. expect is the revision
	// that it must be at: 0 means that it must not exist, AnyRevision that it does not matter. An equal text changes
	// nothing and keeps its revision, so it may be repeated. Errors also: an *invalid.Error, ErrRevision (the answer is
	// then the present revision, 0 if there is none), and to delete, ErrUnknown.
	PutDocument(ctx context.Context, d Document, expect int64) (int64, error)
}

// Bounds of documents.
const (
	MaxBytes     = 64 << 10
	MaxNameBytes = 128 // bytes
	// KeepDeleted is for how long DocumentsSince tells of a document that it was deleted.
	KeepDeleted = 24 * time.Hour
	// MaxPage is the longest page of documents.
	MaxPage = 1000
)

// Page is some of the documents that were written behind a revision.
type Page struct {
	Documents []Document // in the order in which they were written last
	// More says that others follow.
	More bool
	// Run names the run of the store: a store that was restarted, or whose place another server took, may have lost
	// its last writes. Whoever keeps documents in memory reads all of them again when it changes.
	Run string
}

// Validate checks a document that is to be put. Its error is an *invalid.Error.
func (d *Document) Validate() error {
	if !names.IsKind(d.Kind) {
		return invalid.Errorf("kind", clip.Quote(d.Kind, 40), "must be 1 to 16 of a-z and _")
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

// ErrUnknown says that no document has that name.
var ErrUnknown = errors.New("unknown document")

// Missing is the ErrUnknown of a document that is not there.
type Missing struct{ Kind, Name string }

// Unknown is the error for a document that is not there, a *Missing.
func Unknown(kind, name string) error { return &Missing{kind, name} }

func (e *Missing) Error() string {
	return fmt.Sprintf("%v: %s %s", ErrUnknown, e.Kind, clip.Quote(e.Name, 80))
}

func (e *Missing) Unwrap() error { return ErrUnknown }
