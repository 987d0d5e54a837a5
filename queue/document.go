package queue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
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

// Bounds of documents.
const (
	MaxDocumentBytes = 64 << 10
	MaxDocumentName  = 128 // bytes
	// KeepDeletedDocuments is for how long DocumentsSince tells of a document that it was deleted.
	KeepDeletedDocuments = 24 * time.Hour
	// MaxDocuments is the longest page of documents.
	MaxDocuments = 1000
)

// DocumentsPage is some of the documents that were written behind a revision.
type DocumentsPage struct {
	Documents []Document // in the order in which they were written last
	// More says that others follow.
	More bool
	// Run names the run of the store: a store that was restarted, or whose place another server took, may have lost
	// its last writes. Whoever keeps documents in memory reads all of them again when it changes.
	Run string
}

// Validate checks a document that is to be put. Its error is a *FieldError.
func (d *Document) Validate() error {
	if !isKind(d.Kind) {
		return FieldErrorf("kind", Shorten(d.Kind, 40), "must be 1 to 16 of a-z and _")
	}
	if len(d.Name) > MaxDocumentName || ValidateID(d.Name) != nil {
		return FieldErrorf("name", Shorten(d.Name, 80), "must be 1 to %d visible ASCII characters", MaxDocumentName)
	}
	if len(d.Text) > MaxDocumentBytes {
		return FieldErrorf("text", "", "has %d bytes, the limit is %d", len(d.Text), MaxDocumentBytes)
	}
	if d.Text != nil && (!json.Valid(d.Text) || bytes.ContainsAny(d.Text, "\n\r")) {
		return FieldErrorf("text", "", "must be JSON on one line")
	}
	return nil
}

func isKind(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= 16
}

// NoDocument is the ErrUnknownDocument of a document that is not there.
type NoDocument struct{ Kind, Name string }

// UnknownDocument is the error for a document that is not there, a *NoDocument.
func UnknownDocument(kind, name string) error { return &NoDocument{kind, name} }

func (e *NoDocument) Error() string {
	return fmt.Sprintf("%v: %s %s", ErrUnknownDocument, e.Kind, Shorten(e.Name, 80))
}

func (e *NoDocument) Unwrap() error { return ErrUnknownDocument }
