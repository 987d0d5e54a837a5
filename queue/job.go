package queue

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/rules"
)

// Limits of a job.
const (
	MaxPayloadBytes     = 1 << 20
	MaxContentTypeBytes = 256
	MaxHeaders          = 32
	MaxHeaderBytes      = 8 << 10 // names and values of all headers together

	MaxLaneBytes = 256
	MaxPriority  = 9
	// MaxAhead is how far in the future a NotBefore may be.
	MaxAhead = 366 * 24 * time.Hour

	DefaultContentType = "application/json"
)

// Job is a message to deliver. (Queue, ID) identifies it everywhere.
type Job struct {
	Queue       string
	ID          string
	Payload     []byte // opaque
	ContentType string // empty means DefaultContentType
	// Headers go with the payload if the target supports headers.
	Headers map[string]string
	// Cost is how many intervals the job uses up; 0 means 1.
	Cost int64
	// Costs is what the job uses of units that limits count, such as tokens. What it leaves out is estimated, see
	// Spec.Estimate. An accepted job has its costs in all units.
	Costs map[string]int64
	// Lane is the key of the job's lane, such as its tenant or its recipient's domain. Jobs without a key share a
	// lane.
	Lane string
	// Batch is the label of the batch to which the job belongs, such as a campaign; see Batch. Empty means none.
	Batch string
	// Priority orders the jobs of a lane: jobs with a higher priority leave first. 0 to MaxPriority.
	Priority int
	// NotBefore schedules the job: it does not depart earlier. Zero or a past time means at once. It has microsecond
	// precision.
	NotBefore time.Time
	// ExpiresAt is when the job becomes worthless: it does not depart later and gives up its place. Zero means never.
	// It has microsecond precision.
	ExpiresAt time.Time
	// App is the app that owns the job, as the caller has proven; empty means the operator. Rules may count by it. It
	// is not part of the job's record.
	App string
	// Overflow says what to do if there is no room: Reject, Defer, or empty for the queue's default. It is not part of
	// the job's record.
	Overflow string
	// Limited says that a rule of another group refuses the job with the action Defer, and how long that rule asks it to
	// wait. Of several rules the longest time counts. Zero means that no rule does. The caller that asks these rules sets
	// it, and an engine treats it like a refusal by the queue's own rules. It is not part of the job's record.
	Limited time.Duration
}

// What to do with a job that finds no room.
const (
	Reject = "reject" // refuse it
	Defer  = "defer"  // put it on the overflow, if there is one
)

// IsJSON reports whether a content type means JSON.
func IsJSON(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == DefaultContentType || strings.HasSuffix(kind, "+json")
}

// Normalize fills in the documented defaults.
func (j *Job) Normalize() {
	if j.ContentType == "" {
		j.ContentType = DefaultContentType
	}
	if j.Cost == 0 {
		j.Cost = 1
	}
}

// Fields returns the parts of the job that rules can count by.
func (j *Job) Fields() *rules.Fields {
	return &rules.Fields{
		Queue: j.Queue, Lane: j.Lane, App: j.App, ContentType: j.ContentType, Headers: j.Headers, Payload: j.Payload,
	}
}

// Deferrable reports whether the job may be put on the overflow, given the overflow setting of its queue.
func (j *Job) Deferrable(overflow string) bool {
	return j.Overflow == Defer || j.Overflow == "" && (overflow == Defer || j.Limited > 0)
}

// Validate checks a normalized job. Its error is an *invalid.Error.
func (j *Job) Validate() error {
	if err := names.Validate(j.Queue); err != nil {
		return invalid.Errorf("queue", j.Queue, "is not a queue name")
	}
	if err := names.ValidateID(j.ID); err != nil {
		return err
	}
	if len(j.Payload) > MaxPayloadBytes {
		return invalid.Errorf("payload", "", "has %d bytes, the limit is %d", len(j.Payload), MaxPayloadBytes)
	}
	if len(j.ContentType) > MaxContentTypeBytes || strings.IndexFunc(j.ContentType, notFieldValue) >= 0 {
		return invalid.Errorf(
			"content_type", j.ContentType, "must be a media type of at most %d printable ASCII characters",
			MaxContentTypeBytes,
		)
	}
	if j.Cost < 1 || j.Cost > leaky.MaxCost {
		return invalid.Errorf("cost", "", "is %d, must be from 1 to %d", j.Cost, leaky.MaxCost)
	}
	if err := ValidateCosts("costs", j.Costs); err != nil {
		return err
	}
	if err := ValidateLane(j.Lane); err != nil {
		return err
	}
	if j.Batch != "" {
		if err := ValidateBatch(j.Batch); err != nil {
			return err
		}
	}
	if j.Priority < 0 || j.Priority > MaxPriority {
		return invalid.Errorf("priority", "", "is %d, must be from 0 to %d", j.Priority, MaxPriority)
	}
	if err := validateInstant("expires_at", j.ExpiresAt); err != nil {
		return err
	}
	if err := validateInstant("not_before", j.NotBefore); err != nil {
		return err
	}
	if !j.ExpiresAt.IsZero() && !j.NotBefore.IsZero() && !j.NotBefore.Before(j.ExpiresAt) {
		return invalid.Errorf(
			"expires_at", j.ExpiresAt.Format(time.RFC3339), "must be after not_before, which is %s",
			j.NotBefore.Format(time.RFC3339),
		)
	}
	if j.Overflow != "" && j.Overflow != Reject && j.Overflow != Defer {
		return invalid.Errorf("overflow", j.Overflow, "must be reject or defer; leave it out for the queue's default")
	}
	return validateHeaders(j.Headers)
}

// ValidateAhead checks that NotBefore is not too far in the future, by the clock of the process that accepts the job.
// Its error is an *invalid.Error.
func (j *Job) ValidateAhead(now time.Time) error {
	if j.NotBefore.Sub(now) > MaxAhead {
		return invalid.Errorf(
			"not_before", j.NotBefore.UTC().Format(time.RFC3339), "is more than %d days ahead", MaxAhead/(24*time.Hour),
		)
	}
	return nil
}

// ValidateLane checks the key of a lane. Its error is an *invalid.Error.
func ValidateLane(key string) error {
	if len(key) > MaxLaneBytes {
		return invalid.Errorf("lane", key, "has %d bytes, the limit is %d", len(key), MaxLaneBytes)
	}
	if !utf8.ValidString(key) {
		return invalid.Errorf("lane", key, "is not valid UTF-8")
	}
	return nil
}

func validateInstant(field string, at time.Time) error {
	if !at.IsZero() && (at.Year() < 2000 || at.Year() >= 2200) {
		return invalid.Errorf(field, at.Format(time.RFC3339), "must be between the years 2000 and 2200")
	}
	return nil
}

// Headers that would change how a message is framed or routed belong to the target, never to a job.
var reservedHeaders = map[string]bool{
	"host": true, "connection": true, "content-length": true, "content-type": true, "transfer-encoding": true,
	"te": true, "trailer": true, "upgrade": true, "keep-alive": true, "proxy-connection": true,
	"proxy-authorization": true,
	"expect":              true, "accept-encoding": true,
	// Receivers identify and authenticate jobs by these: a job that could set them could pass for another, or for a
	// signed one.
	"idempotency-key": true, "penstock-id": true, "penstock-queue": true, "penstock-attempt": true,
	"webhook-id": true, "webhook-timestamp": true, "webhook-signature": true,
}

func validateHeaders(h map[string]string) error {
	if len(h) > MaxHeaders {
		return invalid.Errorf("headers", "", "has %d entries, the limit is %d", len(h), MaxHeaders)
	}
	size := 0
	for name, value := range h {
		field := "headers." + name
		if len(field) > 80 {
			field = field[:80]
		}
		size += len(name) + len(value)
		if !names.IsToken(name) {
			return invalid.Errorf("headers", name, "is not a header name")
		}
		if reservedHeaders[strings.ToLower(name)] {
			return invalid.Errorf(field, "", "is set by the target and cannot be set by a job")
		}
		if strings.IndexFunc(value, notFieldValue) >= 0 {
			return invalid.Errorf(field, value, "has a control or non-ASCII character")
		}
	}
	if size > MaxHeaderBytes {
		return invalid.Errorf("headers", "", "has %d bytes in total, the limit is %d", size, MaxHeaderBytes)
	}
	return nil
}

func notFieldValue(r rune) bool { return r < ' ' && r != '\t' || r > '~' }

// Fingerprint returns a hash of payload, content type, lane and cost. Costs in other units are not part of it: they may
// be estimates, which differ when a client tries again. It distinguishes a repeated job from another job
// with the same id. It guards against mistakes, not against an attacker who searches for collisions among their own
// jobs.
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
	if j.Lane != "" {
		digest := DigestLane(j.Lane)
		_, _ = d.Write(digest[:])
	}
	_, _ = d.Write(j.Payload)
	return d.Sum64()
}

var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewID returns a new job id of 26 characters. Like ULIDs, ids sort by time.
func NewID() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(time.Now().UnixMilli())<<16)
	_, _ = rand.Read(b[6:]) // never fails; see crypto/rand
	return idEncoding.EncodeToString(b[:])
}
