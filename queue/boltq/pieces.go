package boltq

import (
	"bytes"
	"encoding/binary"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/queue/machine"
)

// pieceBytes is the length of the longest piece of a value in a piecewise table. bbolt keeps a value with its neighbors
// in adjacent pages, and writes all of them again for each change of one. So a large job would need hundreds of
// adjacent free pages whenever a small job beside it changes. A file with a maximum size soon has none, however much is
// free.
const pieceBytes = 2000

// piecewise is the set of tables that keep large values in pieces. Their keys are numbers of 8 bytes, and each is put
// once.
var piecewise = map[string]bool{"jobs": true, "samples": true}

// pieceTable is a table that keeps large values in pieces: the first under the key itself, the others under the key and
// their number. A value whose first piece is shorter than pieceBytes has only that piece. So does a value with a longer
// first piece, which an earlier version wrote.
type pieceTable struct{ boltTable }

const pieceKeyBytes = 8 + 4

func pieceKey(key []byte, n uint32) []byte { return binary.BigEndian.AppendUint32(bytes.Clone(key), n) }

// Get implements machine.Table.
func (t pieceTable) Get(key []byte) []byte { return t.whole(key, t.Bucket.Get(key)) }

// whole returns the value of a key whose first piece is first.
func (t pieceTable) whole(key, first []byte) []byte {
	if len(first) != pieceBytes {
		return first
	}
	value := bytes.Clone(first)
	c := t.Bucket.Cursor()
	for k, v := c.Seek(pieceKey(key, 0)); len(k) == pieceKeyBytes && bytes.HasPrefix(k, key); k, v = c.Next() {
		value = append(value, v...)
	}
	return value
}

// Put implements machine.Table.
func (t pieceTable) Put(key, value []byte) error {
	first := value[:min(len(value), pieceBytes)]
	if err := t.Bucket.Put(key, first); err != nil {
		return err
	}
	for n, rest := uint32(0), value[len(first):]; len(rest) > 0; n++ {
		piece := rest[:min(len(rest), pieceBytes)]
		if err := t.Bucket.Put(pieceKey(key, n), piece); err != nil {
			return err
		}
		rest = rest[len(piece):]
	}
	return nil
}

// Delete implements machine.Table.
func (t pieceTable) Delete(key []byte) error {
	c := t.Bucket.Cursor()
	k, v := c.Seek(key)
	for n := uint32(0); bytes.Equal(k, key); n++ {
		more := len(v) == pieceBytes
		if err := c.Delete(); err != nil || !more {
			return err
		}
		key = pieceKey(key[:8], n)
		k, v = c.Seek(key)
	}
	return nil
}

// Cursor implements machine.Table.
func (t pieceTable) Cursor() machine.Cursor { return pieceCursor{t, t.Bucket.Cursor()} }

type pieceCursor struct {
	table pieceTable
	*bbolt.Cursor
}

// at returns the entry at k, or the next by step if that is a later piece.
func (c pieceCursor) at(k, v []byte, step func() ([]byte, []byte)) (key, value []byte) {
	for len(k) == pieceKeyBytes {
		k, v = step()
	}
	return k, c.table.whole(k, v)
}

func (c pieceCursor) First() (key, value []byte) {
	k, v := c.Cursor.First()
	return c.at(k, v, c.Cursor.Next)
}

func (c pieceCursor) Last() (key, value []byte) {
	k, v := c.Cursor.Last()
	return c.at(k, v, c.Cursor.Prev)
}

func (c pieceCursor) Next() (key, value []byte) {
	k, v := c.Cursor.Next()
	return c.at(k, v, c.Cursor.Next)
}

func (c pieceCursor) Prev() (key, value []byte) {
	k, v := c.Cursor.Prev()
	return c.at(k, v, c.Cursor.Prev)
}

func (c pieceCursor) Seek(to []byte) (key, value []byte) {
	k, v := c.Cursor.Seek(to)
	return c.at(k, v, c.Cursor.Next)
}
