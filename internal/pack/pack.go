// Package pack encodes instants, texts and numbers in stored records and in cursors.
package pack

import (
	"encoding/binary"
	"time"
)

// InstantBytes is the length of an encoded instant.
const InstantBytes = 7

// AppendInstant appends an instant: microseconds since 1970, big endian.
func AppendInstant(b []byte, at time.Time) []byte {
	var whole [8]byte
	binary.BigEndian.PutUint64(whole[:], uint64(at.UnixMicro()))
	return append(b, whole[8-InstantBytes:]...)
}

// AppendText appends a text, preceded by its length.
func AppendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Reader decodes texts and numbers. After the first fault it is Bad and returns zeros.
type Reader struct {
	Rest []byte
	Bad  bool
}

// Uvarint returns the next number, which is at most limit.
func (r *Reader) Uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.Rest)
	if r.Bad || n <= 0 || v > limit {
		r.Bad = true
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Next returns the next n bytes, or nil if fewer are left.
func (r *Reader) Next(n int) []byte {
	if r.Bad || len(r.Rest) < n {
		r.Bad = true
		return nil
	}
	b := r.Rest[:n]
	r.Rest = r.Rest[n:]
	return b
}

// Instant decodes what AppendInstant encoded.
func (r *Reader) Instant() time.Time {
	var whole [8]byte
	copy(whole[8-InstantBytes:], r.Next(InstantBytes))
	return time.UnixMicro(int64(binary.BigEndian.Uint64(whole[:]))).UTC()
}

// Text decodes what AppendText encoded, at most limit bytes.
func (r *Reader) Text(limit uint64) string { return string(r.Next(int(r.Uvarint(limit)))) }

// Varint returns the next number.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.Rest)
	if r.Bad || n <= 0 {
		r.Bad = true
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}
