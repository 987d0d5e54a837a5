package httpio

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/internal/jsondepth"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// MaxJobBytes is the limit of a job as JSON. It has room for the largest payload in base64.
const MaxJobBytes = 3 << 19

const octetStream = "application/octet-stream"

// The fields of a job, one bit each, to detect duplicates.
const (
	hasPayload = 1 << iota
	hasPayloadBase64
	hasContentType
	hasID
	hasHeaders
	hasCost
	hasLane
	hasPriority
	hasNotBefore
	hasExpiresAt
	hasOverflow
	hasBatch
	hasCosts
)

// JobReader reads jobs from JSON. Reuse it: a decoder costs more than the job that it reads.
type JobReader struct {
	src bytes.Buffer
	dec *jsontext.Decoder
	raw []byte // the text under way; payloads are slices of it
}

// NewJobReader returns a JobReader.
func NewJobReader() *JobReader {
	j := &JobReader{}
	j.dec = jsontext.NewDecoder(&j.src)
	return j
}

// decoding allows duplicate names, since payloads are opaque. Read checks the names of the job itself.
var decoding = []jsontext.Options{jsontext.AllowDuplicateNames(true)}

// Read parses a job. Its Queue and App stay as they are; everything else is overwritten. raw must not change while the
// job is in use: the payload is a slice of it.
func (j *JobReader) Read(raw []byte, job *queue.Job) *Problem {
	j.raw = raw
	j.src = *bytes.NewBuffer(raw)
	j.dec.Reset(&j.src, decoding...)
	defer func() { j.raw, j.src = nil, bytes.Buffer{} }()

	*job = queue.Job{Queue: job.Queue, App: job.App}
	var deep *jsondepth.Error
	if err := jsondepth.Check(raw, jsondepth.Max); errors.As(err, &deep) {
		field, _, _ := strings.Cut(deep.Field, ".")
		return &Problem{Reason: ReasonInvalidJSON, Field: field, Detail: deep.Error()}
	}
	if j.dec.PeekKind() != '{' {
		return j.notObject()
	}
	if _, err := j.dec.ReadToken(); err != nil {
		return j.syntax(err)
	}
	seen := 0
	for j.dec.PeekKind() == '"' {
		name, err := j.dec.ReadValue()
		if err != nil {
			return j.syntax(err)
		}
		bit, p := j.field(name)
		if p != nil {
			return p
		}
		if seen&bit != 0 {
			return Duplicate(Shorten(text(name)))
		}
		seen |= bit
		if p := j.value(bit, job); p != nil {
			return p
		}
	}
	if _, err := j.dec.ReadToken(); err != nil {
		return j.syntax(err)
	}
	if _, err := j.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return &Problem{
			Reason: ReasonInvalidJSON,
			Detail: "there is text after the job's closing brace; to send many jobs use application/x-ndjson, one per line",
		}
	}
	return complete(seen, job)
}

func complete(seen int, job *queue.Job) *Problem {
	switch seen & (hasPayload | hasPayloadBase64) {
	case 0:
		return BadField("payload", "is missing; give any JSON value as payload, or bytes as payload_base64")
	case hasPayload | hasPayloadBase64:
		return BadField("payload_base64", "cannot be given together with payload")
	case hasPayloadBase64:
		if seen&hasContentType == 0 {
			job.ContentType = octetStream
		}
	}
	if len(job.Payload) > queue.MaxPayloadBytes {
		return TooLarge("payload", "the payload", queue.MaxPayloadBytes)
	}
	return nil
}

// field returns the field of a name. The usual spellings allocate nothing.
func (j *JobReader) field(name jsontext.Value) (int, *Problem) {
	plain := name[1 : len(name)-1]
	if bytes.IndexByte(plain, '\\') >= 0 { // a name may be written with escapes
		plain = []byte(text(name))
	}
	switch string(plain) {
	case "payload":
		return hasPayload, nil
	case "id":
		return hasID, nil
	case "headers":
		return hasHeaders, nil
	case "content_type":
		return hasContentType, nil
	case "cost":
		return hasCost, nil
	case "costs":
		return hasCosts, nil
	case "payload_base64":
		return hasPayloadBase64, nil
	case "lane":
		return hasLane, nil
	case "batch":
		return hasBatch, nil
	case "priority":
		return hasPriority, nil
	case "not_before":
		return hasNotBefore, nil
	case "expires_at":
		return hasExpiresAt, nil
	case "overflow":
		return hasOverflow, nil
	case "queue":
		return 0, &Problem{Reason: ReasonUnknownField, Field: "queue", Detail: "is not a field: the URL names the queue"}
	}
	return 0, &Problem{
		Reason: ReasonUnknownField, Field: Shorten(string(plain)),
		Detail: "is not a field of a job; the fields are payload, payload_base64, content_type, id, headers, cost, costs, " +
			"lane, batch, priority, not_before, expires_at, overflow",
	}
}

func (j *JobReader) value(field int, job *queue.Job) *Problem {
	switch field {
	case hasPayload:
		v, err := j.dec.ReadValue()
		if err != nil {
			return j.syntax(err)
		}
		end := j.dec.InputOffset()
		job.Payload = j.raw[end-int64(len(v)) : end : end]
	case hasPayloadBase64:
		s, p := j.bytes("payload_base64")
		if p != nil {
			return p
		}
		payload := make([]byte, base64.StdEncoding.DecodedLen(len(s)))
		n, err := base64.StdEncoding.Strict().Decode(payload, s)
		if err != nil {
			return BadField("payload_base64", "is not standard base64 with padding: "+err.Error())
		}
		job.Payload = payload[:n]
	case hasContentType:
		s, p := j.bytes("content_type")
		if p != nil {
			return p
		}
		if len(s) == 0 {
			return BadField("content_type", "is empty; omit it for application/json")
		}
		job.ContentType = contentType(s)
	case hasID:
		s, p := j.bytes("id")
		if p != nil {
			return p
		}
		if err := names.ValidateID(view(s)); err != nil {
			return ProblemOf(err)
		}
		job.ID = string(s)
	case hasCost:
		return j.cost(job)
	case hasCosts:
		return j.costs(job)
	case hasHeaders:
		return j.headers(job)
	case hasLane:
		return j.lane(job)
	case hasBatch:
		return j.batch(job)
	case hasPriority:
		return j.priority(job)
	case hasNotBefore:
		at, p := j.instant("not_before", "omit it to start immediately")
		job.NotBefore = at
		return p
	case hasExpiresAt:
		at, p := j.instant("expires_at", "omit it for no expiry")
		job.ExpiresAt = at
		return p
	case hasOverflow:
		return j.overflow(job)
	}
	return nil
}

// bytes reads a JSON string. The result is a slice of raw, unless the string has escapes.
func (j *JobReader) bytes(field string) ([]byte, *Problem) {
	if k := j.dec.PeekKind(); k != '"' && k > 0 {
		return nil, j.wrongKind(field, "a string")
	}
	v, err := j.dec.ReadValue()
	if err != nil {
		return nil, j.syntax(err)
	}
	if bytes.IndexByte(v, '\\') < 0 {
		end := j.dec.InputOffset()
		return j.raw[end-int64(len(v))+1 : end-1], nil
	}
	s, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return nil, BadField(field, "is not a JSON string: "+err.Error())
	}
	return s, nil
}

func (j *JobReader) wrongKind(field, want string) *Problem {
	if _, err := j.dec.ReadValue(); err != nil {
		return j.syntax(err)
	}
	return BadField(field, "must be "+want)
}

// syntax returns the problem for invalid JSON, with its field and position.
func (j *JobReader) syntax(err error) *Problem {
	p := &Problem{Reason: ReasonInvalidJSON}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		p.Detail = fmt.Sprintf("the JSON ends in the middle, after %d bytes", len(j.raw))
		return p
	}
	var s *jsontext.SyntacticError
	if !errors.As(err, &s) {
		p.Detail = Shorten(err.Error())
		return p
	}
	p.Field = fieldPath(s.JSONPointer)
	what := "is not valid JSON"
	if s.Err != nil {
		what = Shorten(s.Err.Error())
	}
	p.Detail = fmt.Sprintf("%s, at byte %d", what, s.ByteOffset)
	return p
}

func (j *JobReader) notObject() *Problem {
	if _, err := j.dec.ReadValue(); err != nil {
		if len(strings.TrimSpace(view(j.raw))) == 0 {
			return &Problem{Reason: ReasonInvalidJSON, Detail: "the body is empty; send a job such as {\"payload\": ...}"}
		}
		return j.syntax(err)
	}
	return &Problem{
		Reason: ReasonInvalidJSON, Detail: "a job is an object such as {\"payload\": ...}, not another JSON value",
	}
}

// text returns the value of a JSON string, for messages.
func text(v jsontext.Value) string {
	b, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return string(v)
	}
	return string(b)
}
