package queue

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock/penstock/leaky"
)

// Limits of a job.
const (
	MaxPayloadBytes     = 1 << 20
	MaxContentTypeBytes = 256
	MaxHeaders          = 32
	MaxHeaderBytes      = 8 << 10 // names and values of all headers together

	DefaultContentType = "application/json"
)

// Job is what a producer hands in. (Queue, ID) identifies it everywhere.
type Job struct {
	Queue       string
	ID          string
	Payload     []byte // opaque
	ContentType string // empty means DefaultContentType
	// Headers go with the payload to targets that have such a thing.
	Headers map[string]string
	// Cost is how many intervals the job uses up; 0 means 1.
	Cost int64
	// ExpiresAt is when the job becomes worthless: it does not depart later. Zero
	// means never. It is kept to the microsecond.
	ExpiresAt time.Time
	// Overflow says what becomes of the job when there is no room: Reject, Defer,
	// or empty for what the queue's spec says. It is no part of the job's record.
	Overflow string
}

// What becomes of a job that finds no room.
const (
	Reject = "reject" // it is refused
	Defer  = "defer"  // it is put on the overflow, if there is one
)

// Normalize fills in the documented defaults.
func (j *Job) Normalize() {
	if j.ContentType == "" {
		j.ContentType = DefaultContentType
	}
	if j.Cost == 0 {
		j.Cost = 1
	}
}

// Deferrable reports whether the job may be put on the overflow, in a queue whose
// spec says overflow.
func (j *Job) Deferrable(overflow string) bool {
	return j.Overflow == Defer || j.Overflow == "" && overflow == Defer
}

// Validate checks a normalized job. Its error is a *FieldError.
func (j *Job) Validate() error {
	if err := ValidateName(j.Queue); err != nil {
		return fieldErr("queue", j.Queue, "is not a queue name")
	}
	if err := ValidateID(j.ID); err != nil {
		return err
	}
	if len(j.Payload) > MaxPayloadBytes {
		return fieldErr("payload", "", "has %d bytes, the limit is %d", len(j.Payload), MaxPayloadBytes)
	}
	if len(j.ContentType) > MaxContentTypeBytes || strings.IndexFunc(j.ContentType, notFieldValue) >= 0 {
		return fieldErr("content_type", j.ContentType, "must be a media type of at most %d printable ASCII characters", MaxContentTypeBytes)
	}
	if j.Cost < 1 || j.Cost > leaky.MaxCost {
		return fieldErr("cost", "", "is %d, must be from 1 to %d", j.Cost, leaky.MaxCost)
	}
	if at := j.ExpiresAt; !at.IsZero() && (at.Year() < 2000 || at.Year() >= 2200) {
		return fieldErr("expires_at", at.Format(time.RFC3339), "must be between the years 2000 and 2200")
	}
	if j.Overflow != "" && j.Overflow != Reject && j.Overflow != Defer {
		return fieldErr("overflow", j.Overflow, "must be reject or defer, or be left out for what the queue says")
	}
	return validateHeaders(j.Headers)
}

// Headers that would change how a message is framed or routed belong to the
// target, never to a job.
var reservedHeaders = map[string]bool{
	"host": true, "connection": true, "content-length": true, "content-type": true, "transfer-encoding": true,
	"te": true, "trailer": true, "upgrade": true, "keep-alive": true, "proxy-connection": true, "proxy-authorization": true,
	"expect": true,
}

func validateHeaders(h map[string]string) error {
	if len(h) > MaxHeaders {
		return fieldErr("headers", "", "are %d, the limit is %d", len(h), MaxHeaders)
	}
	size := 0
	for name, value := range h {
		field := "headers." + name
		if len(field) > 80 {
			field = field[:80]
		}
		size += len(name) + len(value)
		if name == "" || strings.IndexFunc(name, notToken) >= 0 {
			return fieldErr("headers", name, "is not a header name")
		}
		if reservedHeaders[strings.ToLower(name)] {
			return fieldErr(field, "", "is set by the target and cannot be set by a job")
		}
		if strings.IndexFunc(value, notFieldValue) >= 0 {
			return fieldErr(field, value, "has a control or non-ASCII character")
		}
	}
	if size > MaxHeaderBytes {
		return fieldErr("headers", "", "have %d bytes together, the limit is %d", size, MaxHeaderBytes)
	}
	return nil
}

func notToken(r rune) bool { // RFC 9110, 5.6.2
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
}

func notFieldValue(r rune) bool { return r < ' ' && r != '\t' || r > '~' }

// Fingerprint is what tells a repeated job from another one under the same id:
// a hash of payload, content type and cost. It guards against mistakes, not
// against somebody who looks for collisions with a job of his own.
func (j *Job) Fingerprint() uint64 {
	var d xxhash.Digest
	d.Reset()
	var head [9]byte
	binary.BigEndian.PutUint64(head[:], uint64(j.Cost))
	_, _ = d.Write(head[:8])
	if j.ContentType != DefaultContentType {
		_, _ = d.WriteString(j.ContentType)
	}
	_, _ = d.Write(head[8:]) // no content type has a zero byte
	_, _ = d.Write(j.Payload)
	return d.Sum64()
}

var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewID returns a fresh job id of 26 characters that sorts by time, like a ULID.
func NewID() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(time.Now().UnixMilli())<<16)
	_, _ = rand.Read(b[6:]) // never fails; see crypto/rand
	return idEncoding.EncodeToString(b[:])
}
