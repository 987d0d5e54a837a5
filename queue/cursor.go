package queue

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock/penstock/internal/pack"
	"github.com/penstock/penstock/queue/invalid"
)

// Cursor says where a page of jobs ended. It names the last job instead of an index, so that nothing is skipped when
// jobs leave. Callers see it as an opaque text that is valid for the same request only; a checksum detects other
// texts.
type Cursor struct {
	At    int64  // turn of the job, or the instant by which it is sorted
	ID    string // the job
	Lane  string // position of its lane, in the store's own form
	Until int64  // of a purge: only jobs with an earlier turn are purged
}

const (
	cursorSum      = 8
	maxCursorBytes = 1 << 10
)

// Cursor parses After. It returns nil if After is empty. The error is an *invalid.Error.
func (r *ListRequest) Cursor() (*Cursor, error) {
	return ReadCursor(r.After, 'l', r.State, r.Queue, r.Lane)
}

// Next returns the After of the request for the next page.
func (r *ListRequest) Next(c Cursor) string { return c.Text('l', r.State, r.Queue, r.Lane) }

// Cursor parses After. It returns nil if After is empty. The error is an *invalid.Error.
func (r *PurgeRequest) Cursor() (*Cursor, error) {
	return ReadCursor(r.After, 'p', r.State, r.Queue, r.Lane)
}

// Next returns the After of the next call.
func (r *PurgeRequest) Next(c Cursor) string { return c.Text('p', r.State, r.Queue, r.Lane) }

// Text returns the cursor as callers see it; kind is the kind of list.
func (c Cursor) Text(kind byte, s State, queue string, lane *string) string {
	b := make([]byte, 0, 64)
	b = binary.AppendVarint(b, c.At)
	b = binary.AppendVarint(b, c.Until)
	b = pack.AppendText(b, c.Lane)
	b = pack.AppendText(b, c.ID)
	return sealCursor(b, headOfCursor(kind, s, queue, lane))
}

// headOfCursor returns what the checksum of a cursor covers besides its content: the list that it belongs to.
func headOfCursor(kind byte, s State, queue string, lane *string) []byte {
	head := []byte{kind, byte(s), 0}
	if lane != nil {
		head[2] = 1
	}
	head = pack.AppendText(head, queue)
	if lane != nil {
		head = pack.AppendText(head, *lane)
	}
	return head
}

// sealCursor returns a cursor as callers see it, from its content and the list that it belongs to. The checksum guards
// against mistakes only. A forged cursor yields a page that begins elsewhere in the same list.
func sealCursor(b, head []byte) string {
	sum := binary.BigEndian.AppendUint64(make([]byte, 0, cursorSum+len(b)), xxhash.Sum64(append(head, b...)))
	return base64.RawURLEncoding.EncodeToString(append(sum, b...))
}

// openCursor returns the content of a cursor of the same list. The error is an *invalid.Error.
func openCursor(text string, head []byte) ([]byte, error) {
	if len(text) > maxCursorBytes {
		return nil, foreignCursor(text)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < cursorSum ||
		binary.BigEndian.Uint64(b) != xxhash.Sum64(append(head, b[cursorSum:]...)) {
		return nil, foreignCursor(text)
	}
	return b[cursorSum:], nil
}

func foreignCursor(text string) error {
	return invalid.Errorf("after", text, "is not a cursor of this list; leave it out to start from the beginning")
}

// ReadCursor parses the Text of the same list. It returns nil if text is empty. The error is an *invalid.Error.
func ReadCursor(text string, kind byte, s State, queue string, lane *string) (*Cursor, error) {
	if text == "" {
		return nil, nil
	}
	b, err := openCursor(text, headOfCursor(kind, s, queue, lane))
	if err != nil {
		return nil, err
	}
	r := pack.Reader{Rest: b}
	c := Cursor{At: r.Varint(), Until: r.Varint(), Lane: r.Text(maxCursorBytes), ID: r.Text(maxCursorBytes)}
	if r.Bad || len(r.Rest) > 0 {
		return nil, foreignCursor(text)
	}
	return &c, nil
}
