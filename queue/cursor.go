package queue

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock/penstock/internal/pack"
	"github.com/penstock/penstock/queue/invalid"
)

// Cursor is where a page of jobs ended. It names the last job and no index, so that
// nothing is skipped when jobs leave. Callers see it as an opaque text, which is good for
// the same request only: its sum tells a text that belongs elsewhere, or was changed.
type Cursor struct {
	At    int64  // turn of the job, or the instant by which it stands
	ID    string // the job
	Lane  string // where its lane stands, as the store says it
	Until int64  // of a purge: the turn before which jobs were appended
}

const (
	cursorSum      = 8
	maxCursorBytes = 1 << 10
)

// Cursor reads After. It is nil when that is empty. The error is an *invalid.Error.
func (r *ListRequest) Cursor() (*Cursor, error) {
	return ReadCursor(r.After, 'l', r.State, r.Queue, r.Lane)
}

// Next returns what is After in the request for the next page.
func (r *ListRequest) Next(c Cursor) string { return c.Text('l', r.State, r.Queue, r.Lane) }

// Cursor reads After. It is nil when that is empty. The error is an *invalid.Error.
func (r *PurgeRequest) Cursor() (*Cursor, error) {
	return ReadCursor(r.After, 'p', r.State, r.Queue, r.Lane)
}

// Next returns what is After in the next call.
func (r *PurgeRequest) Next(c Cursor) string { return c.Text('p', r.State, r.Queue, r.Lane) }

// Text is the cursor as callers see it, of a kind of list.
func (c Cursor) Text(kind byte, s State, queue string, lane *string) string {
	b := make([]byte, cursorSum, 64)
	b = binary.AppendVarint(b, c.At)
	b = binary.AppendVarint(b, c.Until)
	b = pack.AppendText(b, c.Lane)
	b = pack.AppendText(b, c.ID)
	binary.BigEndian.PutUint64(b, sumOfCursor(b[cursorSum:], kind, s, queue, lane))
	return base64.RawURLEncoding.EncodeToString(b)
}

// sumOfCursor guards against mistakes. Who makes a cursor by himself gets a page that
// begins elsewhere, of the list that he asked for all the same.
func sumOfCursor(b []byte, kind byte, s State, queue string, lane *string) uint64 {
	head := []byte{kind, byte(s), 0}
	if lane != nil {
		head[2] = 1
	}
	head = pack.AppendText(head, queue)
	if lane != nil {
		head = pack.AppendText(head, *lane)
	}
	return xxhash.Sum64(append(head, b...))
}

// ReadCursor reads what Text wrote for the same list. It is nil of an empty text. The error is an *invalid.Error.
func ReadCursor(text string, kind byte, s State, queue string, lane *string) (*Cursor, error) {
	if text == "" {
		return nil, nil
	}
	foreign := invalid.Errorf("after", text, "is not what a page of this list ended with; begin anew without it")
	if len(text) > maxCursorBytes {
		return nil, foreign
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < cursorSum ||
		binary.BigEndian.Uint64(b) != sumOfCursor(b[cursorSum:], kind, s, queue, lane) {
		return nil, foreign
	}
	r := pack.Reader{Rest: b[cursorSum:]}
	c := Cursor{At: r.Varint(), Until: r.Varint(), Lane: r.Text(maxCursorBytes), ID: r.Text(maxCursorBytes)}
	if r.Bad || len(r.Rest) > 0 {
		return nil, foreign
	}
	return &c, nil
}
