package queue

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A job is stored by both engines as one packed record, which never changes
// while the job lives: what happens to a job is kept elsewhere.
//
//	fingerprint  8 bytes
//	cost         2 bytes, big endian
//	flags        1 byte: 1 a content type follows, else it is application/json; 2 the job expires
//	expires at   7 bytes, big endian, microseconds since 1970; if it does
//	content type uvarint length and text; if flagged
//	headers      uvarint count, then uvarint lengths and texts of names and values
//	payload      the rest
//
// All before the content type stands at fixed places so that a Lua script can
// read it.
const (
	RecordFingerprint = 0
	RecordCost        = 8
	RecordFlags       = 10
	recordBody        = 11

	flagContentType = 1
	flagExpires     = 2
	expiryBytes     = 7
)

// PackRecord returns the record of a normalized, valid job.
func PackRecord(j *Job) []byte { return AppendRecord(nil, j) }

// AppendRecord is PackRecord behind a copy of b, in one allocation.
func AppendRecord(b []byte, j *Job) []byte {
	n := len(b) + recordBody + expiryBytes + 2 + len(j.Payload) + binary.MaxVarintLen16
	if j.ContentType != DefaultContentType {
		n += len(j.ContentType)
	}
	for name, value := range j.Headers {
		n += len(name) + len(value) + 2*binary.MaxVarintLen16
	}
	b = append(make([]byte, 0, n), b...)
	b = binary.BigEndian.AppendUint64(b, j.Fingerprint())
	b = binary.BigEndian.AppendUint16(b, uint16(j.Cost))
	flags := byte(0)
	if j.ContentType != DefaultContentType {
		flags |= flagContentType
	}
	if !j.ExpiresAt.IsZero() {
		flags |= flagExpires
	}
	b = append(b, flags)
	if flags&flagExpires != 0 {
		at := binary.BigEndian.AppendUint64(nil, uint64(j.ExpiresAt.UnixMicro()))
		b = append(b, at[8-expiryBytes:]...)
	}
	if flags&flagContentType != 0 {
		b = appendText(b, j.ContentType)
	}
	b = binary.AppendUvarint(b, uint64(len(j.Headers)))
	if len(j.Headers) > 0 {
		for _, name := range slices.Sorted(maps.Keys(j.Headers)) {
			b = appendText(appendText(b, name), j.Headers[name])
		}
	}
	return append(b, j.Payload...)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// RecordExpiry returns when the job of a record expires; zero is never.
func RecordExpiry(b []byte) time.Time {
	if len(b) < recordBody+expiryBytes || b[RecordFlags]&flagExpires == 0 {
		return time.Time{}
	}
	var at [8]byte
	copy(at[8-expiryBytes:], b[recordBody:])
	return time.UnixMicro(int64(binary.BigEndian.Uint64(at[:]))).UTC()
}

// UnpackRecord reads a record into j, all but Queue, ID and Overflow. The payload shares
// memory with b. The error wraps ErrCorrupt.
func UnpackRecord(b []byte, j *Job) error {
	if len(b) < recordBody+1 || b[RecordFlags] > flagContentType|flagExpires {
		return fmt.Errorf("%w: a record of %d bytes", ErrCorrupt, len(b))
	}
	j.Cost = int64(binary.BigEndian.Uint16(b[RecordCost:]))
	r := reader{b: b[recordBody:]}
	j.ExpiresAt = RecordExpiry(b)
	if b[RecordFlags]&flagExpires != 0 {
		r.skip(expiryBytes)
	}
	j.ContentType = DefaultContentType
	if b[RecordFlags]&flagContentType != 0 {
		j.ContentType = r.text(MaxContentTypeBytes)
	}
	count := r.uvarint(MaxHeaders)
	j.Headers = nil
	if count > 0 {
		j.Headers = make(map[string]string, count)
	}
	for range count {
		name := r.text(MaxHeaderBytes)
		j.Headers[name] = r.text(MaxHeaderBytes)
	}
	if r.bad {
		return fmt.Errorf("%w: a record cut short", ErrCorrupt)
	}
	j.Payload = r.b
	return nil
}

// reader takes a record apart; after the first fault it yields zeros.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if r.bad || n <= 0 || v > limit {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) skip(n int) {
	if r.bad || len(r.b) < n {
		r.bad = true
		return
	}
	r.b = r.b[n:]
}

func (r *reader) text(limit uint64) string {
	n := r.uvarint(limit)
	if r.bad || uint64(len(r.b)) < n {
		r.bad = true
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}
