// Package jobrecord defines how engines store jobs and their timelines.
package jobrecord

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/pack"
	"github.com/penstock/penstock/queue"
)

// Both engines store a job as one packed record, which never changes while the job lives: everything that happens to a
// job is stored elsewhere.
//
//	fingerprint  8 bytes
//	cost         2 bytes, big endian
//	flags        1 byte: which of the following it has
//	expires at   7 bytes, big endian, microseconds since 1970 (flag 2)
//	not before   7 bytes, the same (flag 16)
//	lane         16 bytes, its digest (flag 4)
//	priority     1 byte (flag 8)
//	batch        1 byte of length, and its label (flag 32)
//	costs        2 bytes of length, then for each unit, sorted: 1 byte of length, its name, 4 bytes of cost (flag 64)
//	content type uvarint length and text (flag 1), else it is application/json
//	lane's key   uvarint length and text (flag 4)
//	headers      uvarint count, then uvarint lengths and texts of names and values
//	payload      the rest
//
// A Lua script can read everything before the content type: only the batch and the costs have no fixed length.
const (
	FingerprintAt = 0
	CostAt        = 8
	flagsAt       = 10
	recordBody    = 11

	flagContentType = 1
	flagExpires     = 2
	flagLane        = 4
	flagPriority    = 8
	flagNotBefore   = 16
	flagBatch       = 32
	flagCosts       = 64
	allFlags        = 127
)

// Pack returns the record of a normalized, valid job.
func Pack(j *queue.Job) []byte { return Append(nil, j) }

// Append returns a copy of b followed by the record, in one allocation.
func Append(b []byte, j *queue.Job) []byte {
	costs := packCosts(j.Costs)
	n := len(b) + len(costs) + recordBody + 2*pack.InstantBytes + len(queue.LaneDigest{}) + 1 + 1 + len(j.Batch) +
		2 + len(j.Lane) + 2 + len(j.Payload) + binary.MaxVarintLen16
	if j.ContentType != queue.DefaultContentType {
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
		b = pack.AppendInstant(b, j.ExpiresAt)
	}
	if flags&flagNotBefore != 0 {
		b = pack.AppendInstant(b, j.NotBefore)
	}
	if flags&flagLane != 0 {
		digest := queue.DigestLane(j.Lane)
		b = append(b, digest[:]...)
	}
	if flags&flagPriority != 0 {
		b = append(b, byte(j.Priority))
	}
	if flags&flagBatch != 0 {
		b = append(append(b, byte(len(j.Batch))), j.Batch...)
	}
	b = append(b, costs...)
	if flags&flagContentType != 0 {
		b = pack.AppendText(b, j.ContentType)
	}
	if flags&flagLane != 0 {
		b = pack.AppendText(b, j.Lane)
	}
	b = binary.AppendUvarint(b, uint64(len(j.Headers)))
	if len(j.Headers) > 0 {
		for _, name := range slices.Sorted(maps.Keys(j.Headers)) {
			b = pack.AppendText(pack.AppendText(b, name), j.Headers[name])
		}
	}
	return append(b, j.Payload...)
}

func recordFlags(j *queue.Job) (flags byte) {
	if j.ContentType != queue.DefaultContentType {
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
	if j.Batch != "" {
		flags |= flagBatch
	}
	if len(j.Costs) > 0 {
		flags |= flagCosts
	}
	return flags
}

// Head has the part of a job that an engine needs without the payload.
type Head struct {
	Fingerprint uint64
	Cost        int64
	ExpiresAt   time.Time // zero is never
	NotBefore   time.Time // zero is at once
	Lane        queue.LaneDigest
	Priority    int
	Batch       string
	Costs       string // packed, see UnpackCosts
}

// UnpackHead reads the start of a record. The error wraps ErrCorrupt.
func UnpackHead(b []byte) (Head, error) {
	h, _, _, err := unpackHead(b)
	return h, err
}

func unpackHead(b []byte) (h Head, flags byte, rest pack.Reader, err error) {
	if len(b) < recordBody+1 || b[flagsAt] > allFlags {
		return h, 0, rest, fmt.Errorf("%w: a record of %d bytes", queue.ErrCorrupt, len(b))
	}
	h.Fingerprint = binary.BigEndian.Uint64(b)
	h.Cost = int64(binary.BigEndian.Uint16(b[CostAt:]))
	flags, rest = b[flagsAt], pack.Reader{Rest: b[recordBody:]}
	if flags&flagExpires != 0 {
		h.ExpiresAt = rest.Instant()
	}
	if flags&flagNotBefore != 0 {
		h.NotBefore = rest.Instant()
	}
	if flags&flagLane != 0 {
		copy(h.Lane[:], rest.Next(len(h.Lane)))
	}
	if flags&flagPriority != 0 {
		if p := rest.Next(1); !rest.Bad {
			h.Priority = int(p[0])
		}
	}
	if flags&flagBatch != 0 {
		if n := rest.Next(1); !rest.Bad {
			h.Batch = string(rest.Next(int(n[0])))
		}
	}
	if flags&flagCosts != 0 {
		if n := rest.Next(2); !rest.Bad {
			h.Costs = string(rest.Next(int(binary.BigEndian.Uint16(n))))
		}
	}
	if rest.Bad || (flags&flagCosts != 0) != (h.Costs != "") || !validCosts(h.Costs) ||
		h.Priority > queue.MaxPriority || (flags&flagBatch != 0) != (h.Batch != "") {
		return h, 0, rest, fmt.Errorf("%w: the head of a record", queue.ErrCorrupt)
	}
	return h, flags, rest, nil
}

// UnpackLane reads a job's lane and priority from a record, or from a prefix that includes them. The error wraps
// ErrCorrupt.
func UnpackLane(b []byte) (key string, priority int, err error) {
	h, flags, r, err := unpackHead(b)
	if err != nil || flags&flagLane == 0 {
		return "", h.Priority, err
	}
	if flags&flagContentType != 0 {
		r.Text(queue.MaxContentTypeBytes)
	}
	if key = r.Text(queue.MaxLaneBytes); r.Bad {
		return "", 0, fmt.Errorf("%w: a record cut short", queue.ErrCorrupt)
	}
	return key, h.Priority, nil
}

// WithBatch returns a copy of a record with another batch, or without one if label is empty. A record that cannot be
// read is returned as it is.
func WithBatch(b []byte, label string) []byte {
	h, flags, rest, err := unpackHead(b)
	if err != nil || h.Batch == label {
		return b
	}
	end := len(b) - len(rest.Rest)
	if flags&flagCosts != 0 {
		end -= 2 + len(h.Costs)
	}
	at := end
	if flags&flagBatch != 0 {
		at -= 1 + len(h.Batch)
	}
	out := append(make([]byte, 0, len(b)+1+len(label)), b[:at]...)
	out[flagsAt] &^= flagBatch
	if label != "" {
		out[flagsAt] |= flagBatch
		out = append(append(out, byte(len(label))), label...)
	}
	return append(out, b[end:]...)
}

// UnpackInfo sets Lane, Batch, Priority, Costs and ExpiresAt of i from a record. It accepts the same prefixes as
// UnpackLane. After an error i is unchanged.
func UnpackInfo(b []byte, i *queue.JobInfo) error {
	key, priority, err := UnpackLane(b)
	if err != nil {
		return err
	}
	h, _ := UnpackHead(b) // cannot fail: UnpackLane read it
	i.Lane, i.Batch, i.Priority, i.Costs = key, h.Batch, priority, UnpackCosts(h.Costs)
	if !h.ExpiresAt.IsZero() {
		i.ExpiresAt = h.ExpiresAt.Local()
	}
	return nil
}

// UnpackContent sets what UnpackInfo does, and the content of the job. i shares no memory with b. After an error i is
// unchanged.
func UnpackContent(b []byte, i *queue.JobInfo) error {
	var j queue.Job
	if err := Unpack(b, &j); err != nil {
		return err
	}
	i.Payload, i.ContentType, i.Headers = bytes.Clone(j.Payload), j.ContentType, j.Headers
	return UnpackInfo(b, i)
}

// Unpack reads a record into j, except Queue, ID and Overflow. The payload shares memory with b. The error wraps
// ErrCorrupt.
func Unpack(b []byte, j *queue.Job) error {
	h, flags, r, err := unpackHead(b)
	if err != nil {
		return err
	}
	j.Cost, j.ExpiresAt, j.NotBefore, j.Priority, j.Batch = h.Cost, h.ExpiresAt, h.NotBefore, h.Priority, h.Batch
	j.ContentType, j.Costs = queue.DefaultContentType, UnpackCosts(h.Costs)
	if flags&flagContentType != 0 {
		j.ContentType = r.Text(queue.MaxContentTypeBytes)
	}
	j.Lane = ""
	if flags&flagLane != 0 {
		j.Lane = r.Text(queue.MaxLaneBytes)
	}
	count := r.Uvarint(queue.MaxHeaders)
	j.Headers = nil
	if count > 0 {
		j.Headers = make(map[string]string, count)
	}
	for range count {
		name := r.Text(queue.MaxHeaderBytes)
		j.Headers[name] = r.Text(queue.MaxHeaderBytes)
	}
	if r.Bad {
		return fmt.Errorf("%w: a record cut short", queue.ErrCorrupt)
	}
	j.Payload = r.Rest
	return nil
}
