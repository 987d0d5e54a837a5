package queue

import (
	"bytes"
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
//	flags        1 byte: which of the following it has
//	expires at   7 bytes, big endian, microseconds since 1970 (flag 2)
//	not before   7 bytes, the same (flag 16)
//	lane         16 bytes, its digest (flag 4)
//	priority     1 byte (flag 8)
//	content type uvarint length and text (flag 1), else it is application/json
//	lane's key   uvarint length and text (flag 4)
//	headers      uvarint count, then uvarint lengths and texts of names and values
//	payload      the rest
//
// All before the content type has a fixed length, so that a Lua script can read it.
const (
	RecordFingerprint = 0
	RecordCost        = 8
	RecordFlags       = 10
	recordBody        = 11

	flagContentType = 1
	flagExpires     = 2
	flagLane        = 4
	flagPriority    = 8
	flagNotBefore   = 16
	allFlags        = 31
	instantBytes    = 7
)

// PackRecord returns the record of a normalized, valid job.
func PackRecord(j *Job) []byte { return AppendRecord(nil, j) }

// AppendRecord is PackRecord behind a copy of b, in one allocation.
func AppendRecord(b []byte, j *Job) []byte {
	n := len(b) + recordBody + 2*instantBytes + len(LaneDigest{}) + 1 + 2 + len(j.Lane) + 2 + len(j.Payload) +
		binary.MaxVarintLen16
	if j.ContentType != DefaultContentType {
		n += len(j.ContentType)
	}
	for name, value := range j.Headers {
		n += len(name) + len(value) + 2*binary.MaxVarintLen16
	}
	b = append(make([]byte, 0, n), b...)
	b = binary.BigEndian.AppendUint64(b, j.Fingerprint())
	b = binary.BigEndian.AppendUint16(b, uint16(j.Cost))
	flags := recordFlags(j)
	b = append(b, flags)
	if flags&flagExpires != 0 {
		b = appendInstant(b, j.ExpiresAt)
	}
	if flags&flagNotBefore != 0 {
		b = appendInstant(b, j.NotBefore)
	}
	if flags&flagLane != 0 {
		digest := DigestLane(j.Lane)
		b = append(b, digest[:]...)
	}
	if flags&flagPriority != 0 {
		b = append(b, byte(j.Priority))
	}
	if flags&flagContentType != 0 {
		b = appendText(b, j.ContentType)
	}
	if flags&flagLane != 0 {
		b = appendText(b, j.Lane)
	}
	b = binary.AppendUvarint(b, uint64(len(j.Headers)))
	if len(j.Headers) > 0 {
		for _, name := range slices.Sorted(maps.Keys(j.Headers)) {
			b = appendText(appendText(b, name), j.Headers[name])
		}
	}
	return append(b, j.Payload...)
}

func recordFlags(j *Job) (flags byte) {
	if j.ContentType != DefaultContentType {
		flags |= flagContentType
	}
	if !j.ExpiresAt.IsZero() {
		flags |= flagExpires
	}
	if !j.NotBefore.IsZero() {
		flags |= flagNotBefore
	}
	if j.Lane != "" {
		flags |= flagLane
	}
	if j.Priority > 0 {
		flags |= flagPriority
	}
	return flags
}

func appendInstant(b []byte, at time.Time) []byte {
	var whole [8]byte
	binary.BigEndian.PutUint64(whole[:], uint64(at.UnixMicro()))
	return append(b, whole[8-instantBytes:]...)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Head is what an engine needs to know of a job without its payload.
type Head struct {
	Fingerprint uint64
	Cost        int64
	ExpiresAt   time.Time // zero is never
	NotBefore   time.Time // zero is at once
	Lane        LaneDigest
	Priority    int
}

// UnpackHead reads the beginning of a record. The error wraps ErrCorrupt.
func UnpackHead(b []byte) (Head, error) {
	h, _, _, err := unpackHead(b)
	return h, err
}

func unpackHead(b []byte) (h Head, flags byte, rest reader, err error) {
	if len(b) < recordBody+1 || b[RecordFlags] > allFlags {
		return h, 0, rest, fmt.Errorf("%w: a record of %d bytes", ErrCorrupt, len(b))
	}
	h.Fingerprint = binary.BigEndian.Uint64(b)
	h.Cost = int64(binary.BigEndian.Uint16(b[RecordCost:]))
	flags, rest = b[RecordFlags], reader{b: b[recordBody:]}
	if flags&flagExpires != 0 {
		h.ExpiresAt = rest.instant()
	}
	if flags&flagNotBefore != 0 {
		h.NotBefore = rest.instant()
	}
	if flags&flagLane != 0 {
		copy(h.Lane[:], rest.take(len(h.Lane)))
	}
	if flags&flagPriority != 0 {
		if p := rest.take(1); !rest.bad {
			h.Priority = int(p[0])
		}
	}
	if rest.bad || h.Priority > MaxPriority {
		return h, 0, rest, fmt.Errorf("%w: the head of a record", ErrCorrupt)
	}
	return h, flags, rest, nil
}

// UnpackLane reads the lane and the priority of the job from a record, or from the
// beginning of one that holds them. The error wraps ErrCorrupt.
func UnpackLane(b []byte) (key string, priority int, err error) {
	h, flags, r, err := unpackHead(b)
	if err != nil || flags&flagLane == 0 {
		return "", h.Priority, err
	}
	if flags&flagContentType != 0 {
		r.text(MaxContentTypeBytes)
	}
	if key = r.text(MaxLaneBytes); r.bad {
		return "", 0, fmt.Errorf("%w: a record cut short", ErrCorrupt)
	}
	return key, h.Priority, nil
}

// UnpackInfo reads into i what it tells of a job's record, as UnpackLane does: the lane, the
// priority, and when the job expires. After an error i is as it was.
func UnpackInfo(b []byte, i *JobInfo) error {
	key, priority, err := UnpackLane(b)
	if err != nil {
		return err
	}
	h, _ := UnpackHead(b) // which was read just now
	i.Lane, i.Priority = key, priority
	if !h.ExpiresAt.IsZero() {
		i.ExpiresAt = h.ExpiresAt.Local()
	}
	return nil
}

// UnpackContent reads into i what a job carries, and all that UnpackInfo does. It shares no memory with b. After an
// error i is as it was.
func UnpackContent(b []byte, i *JobInfo) error {
	var j Job
	if err := UnpackRecord(b, &j); err != nil {
		return err
	}
	i.Payload, i.ContentType, i.Headers = bytes.Clone(j.Payload), j.ContentType, j.Headers
	return UnpackInfo(b, i)
}

// UnpackRecord reads a record into j, all but Queue, ID and Overflow. The payload shares
// memory with b. The error wraps ErrCorrupt.
func UnpackRecord(b []byte, j *Job) error {
	h, flags, r, err := unpackHead(b)
	if err != nil {
		return err
	}
	j.Cost, j.ExpiresAt, j.NotBefore, j.Priority = h.Cost, h.ExpiresAt, h.NotBefore, h.Priority
	j.ContentType = DefaultContentType
	if flags&flagContentType != 0 {
		j.ContentType = r.text(MaxContentTypeBytes)
	}
	j.Lane = ""
	if flags&flagLane != 0 {
		j.Lane = r.text(MaxLaneBytes)
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

// take returns the next n bytes, nil if there are not as many.
func (r *reader) take(n int) []byte {
	if r.bad || len(r.b) < n {
		r.bad = true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) instant() time.Time {
	var whole [8]byte
	copy(whole[8-instantBytes:], r.take(instantBytes))
	return time.UnixMicro(int64(binary.BigEndian.Uint64(whole[:]))).UTC()
}

func (r *reader) text(limit uint64) string { return string(r.take(int(r.uvarint(limit)))) }
