package queue

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
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

// Cursor reads After. It is nil when that is empty. The error is a *FieldError.
func (r *ListRequest) Cursor() (*Cursor, error) {
	return readCursor(r.After, 'l', r.State, r.Queue, r.Lane)
}

// Next returns what is After in the request for the next page.
func (r *ListRequest) Next(c Cursor) string { return c.text('l', r.State, r.Queue, r.Lane) }

// Cursor reads After. It is nil when that is empty. The error is a *FieldError.
func (r *PurgeRequest) Cursor() (*Cursor, error) {
	return readCursor(r.After, 'p', r.State, r.Queue, r.Lane)
}

// Next returns what is After in the next call.
func (r *PurgeRequest) Next(c Cursor) string { return c.text('p', r.State, r.Queue, r.Lane) }

func (c Cursor) text(kind byte, s State, queue string, lane *string) string {
	b := make([]byte, cursorSum, 64)
	b = binary.AppendVarint(b, c.At)
	b = binary.AppendVarint(b, c.Until)
	b = appendText(b, c.Lane)
	b = appendText(b, c.ID)
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
	head = appendText(head, queue)
	if lane != nil {
		head = appendText(head, *lane)
	}
	return xxhash.Sum64(append(head, b...))
}

func readCursor(text string, kind byte, s State, queue string, lane *string) (*Cursor, error) {
	if text == "" {
		return nil, nil
	}
	foreign := FieldErrorf("after", text, "is not what a page of this list ended with; begin anew without it")
	if len(text) > maxCursorBytes {
		return nil, foreign
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < cursorSum ||
		binary.BigEndian.Uint64(b) != sumOfCursor(b[cursorSum:], kind, s, queue, lane) {
		return nil, foreign
	}
	r := reader{b: b[cursorSum:]}
	c := Cursor{At: r.varint(), Until: r.varint(), Lane: r.text(maxCursorBytes), ID: r.text(maxCursorBytes)}
	if r.bad || len(r.b) > 0 {
		return nil, foreign
	}
	return &c, nil
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if r.bad || n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}
