package queue

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// A job is stored by both engines as one packed record, which never changes
// while the job lives: what happens to a job is kept elsewhere.
//
//	fingerprint  8 bytes
//	cost         2 bytes, big endian
//	content type 1 byte: 0 is application/json; 1, then a uvarint length and the text
//	headers      uvarint count, then uvarint lengths and texts of names and values
//	payload      the rest
//
// The first ten bytes stand at fixed places so that a Lua script can read them.
const (
	RecordFingerprint = 0
	RecordCost        = 8
	recordBody        = 10
)

// PackRecord returns the record of a normalized, valid job.
func PackRecord(j *Job) []byte { return AppendRecord(nil, j) }

// AppendRecord is PackRecord behind a copy of b, in one allocation.
func AppendRecord(b []byte, j *Job) []byte {
	n := len(b) + recordBody + 3 + len(j.Payload) + binary.MaxVarintLen16
	if j.ContentType != DefaultContentType {
		n += len(j.ContentType)
	}
	for name, value := range j.Headers {
		n += len(name) + len(value) + 2*binary.MaxVarintLen16
	}
	b = append(make([]byte, 0, n), b...)
	b = binary.BigEndian.AppendUint64(b, j.Fingerprint())
	b = binary.BigEndian.AppendUint16(b, uint16(j.Cost))
	if j.ContentType == DefaultContentType {
		b = append(b, 0)
	} else {
		b = append(b, 1)
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

// UnpackRecord reads a record into j, all but Queue and ID. The payload shares
// memory with b. The error wraps ErrCorrupt.
func UnpackRecord(b []byte, j *Job) error {
	if len(b) < recordBody+2 {
		return fmt.Errorf("%w: a record of %d bytes", ErrCorrupt, len(b))
	}
	j.Cost = int64(binary.BigEndian.Uint16(b[RecordCost:]))
	r := reader{b: b[recordBody+1:]}
	j.ContentType = DefaultContentType
	if b[recordBody] != 0 {
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
