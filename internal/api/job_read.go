package api

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/internal/jsondepth"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// MaxEnvelopeBytes has room for the largest payload in base64 and all else.
const MaxEnvelopeBytes = 3 << 19

const octetStream = "application/octet-stream"

// The fields of an envelope, each a bit so that a second one is noticed.
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
)

// envelope reads jobs out of JSON text. It is reused: a decoder costs more than
// the job that it reads.
type envelope struct {
	src bytes.Buffer
	dec *jsontext.Decoder
	// raw is what is being read. Payloads are cut out of it, byte for byte.
	raw []byte
}

func newEnvelope() *envelope {
	e := &envelope{}
	e.dec = jsontext.NewDecoder(&e.src)
	return e
}

// decoding allows duplicate names, because a payload is opaque and none of our
// business; those of the envelope itself are checked here.
var decoding = []jsontext.Options{jsontext.AllowDuplicateNames(true)}

// read parses raw, which must stay unchanged for as long as the job is used: its
// payload is a part of it, byte for byte. The queue is left as it is in job, all
// else is overwritten.
func (e *envelope) read(raw []byte, job *queue.Job) *Problem {
	e.raw = raw
	e.src = *bytes.NewBuffer(raw)
	e.dec.Reset(&e.src, decoding...)
	defer func() { e.raw, e.src = nil, bytes.Buffer{} }()

	*job = queue.Job{Queue: job.Queue, App: job.App}
	var deep *jsondepth.Error
	if err := jsondepth.Check(raw, jsondepth.Max); errors.As(err, &deep) {
		field, _, _ := strings.Cut(deep.Field, ".")
		return &Problem{Reason: ReasonInvalidJSON, Field: field, Detail: deep.Error()}
	}
	if e.dec.PeekKind() != '{' {
		return e.notObject()
	}
	if _, err := e.dec.ReadToken(); err != nil {
		return e.syntax(err)
	}
	seen := 0
	for e.dec.PeekKind() == '"' {
		name, err := e.dec.ReadValue()
		if err != nil {
			return e.syntax(err)
		}
		bit, p := e.field(name)
		if p != nil {
			return p
		}
		if seen&bit != 0 {
			return &Problem{Reason: ReasonDuplicateField, Field: shorten(text(name)), Detail: "is given twice"}
		}
		seen |= bit
		if p := e.value(bit, job); p != nil {
			return p
		}
	}
	if _, err := e.dec.ReadToken(); err != nil {
		return e.syntax(err)
	}
	if _, err := e.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return &Problem{
			Reason: ReasonInvalidJSON,
			Detail: "there is something behind the job's closing brace; many jobs are sent as application/x-ndjson, one a line",
		}
	}
	return complete(seen, job)
}

func complete(seen int, job *queue.Job) *Problem {
	switch seen & (hasPayload | hasPayloadBase64) {
	case 0:
		return badField("payload", "is missing; give any JSON value as payload, or bytes as payload_base64")
	case hasPayload | hasPayloadBase64:
		return badField("payload_base64", "cannot be given together with payload")
	case hasPayloadBase64:
		if seen&hasContentType == 0 {
			job.ContentType = octetStream
		}
	}
	if len(job.Payload) > queue.MaxPayloadBytes {
		return tooLarge("payload", "the payload", queue.MaxPayloadBytes)
	}
	return nil
}

// field tells which field a name is. The usual ones cost no allocation.
func (e *envelope) field(name jsontext.Value) (int, *Problem) {
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
	case "payload_base64":
		return hasPayloadBase64, nil
	case "lane":
		return hasLane, nil
	case "priority":
		return hasPriority, nil
	case "not_before":
		return hasNotBefore, nil
	case "expires_at":
		return hasExpiresAt, nil
	case "overflow":
		return hasOverflow, nil
	case "queue":
		return 0, &Problem{Reason: ReasonUnknownField, Field: "queue", Detail: "is not a field: the queue stands in the URL"}
	}
	return 0, &Problem{
		Reason: ReasonUnknownField, Field: shorten(string(plain)),
		Detail: "is not a field of a job; those are payload, payload_base64, content_type, id, headers, cost, lane, " +
			"priority, not_before, expires_at, overflow",
	}
}

func (e *envelope) value(field int, job *queue.Job) *Problem {
	switch field {
	case hasPayload:
		v, err := e.dec.ReadValue()
		if err != nil {
			return e.syntax(err)
		}
		end := e.dec.InputOffset()
		job.Payload = e.raw[end-int64(len(v)) : end : end]
	case hasPayloadBase64:
		s, p := e.bytes("payload_base64")
		if p != nil {
			return p
		}
		payload := make([]byte, base64.StdEncoding.DecodedLen(len(s)))
		n, err := base64.StdEncoding.Strict().Decode(payload, s)
		if err != nil {
			return badField("payload_base64", "is not standard base64 with padding: "+err.Error())
		}
		job.Payload = payload[:n]
	case hasContentType:
		s, p := e.bytes("content_type")
		if p != nil {
			return p
		}
		if len(s) == 0 {
			return badField("content_type", "is empty; leave it out for application/json")
		}
		job.ContentType = contentType(s)
	case hasID:
		s, p := e.bytes("id")
		if p != nil {
			return p
		}
		if err := names.ValidateID(view(s)); err != nil {
			return refused(err)
		}
		job.ID = string(s)
	case hasCost:
		return e.cost(job)
	case hasHeaders:
		return e.headers(job)
	case hasLane:
		return e.lane(job)
	case hasPriority:
		return e.priority(job)
	case hasNotBefore:
		at, p := e.instant("not_before", "leave it out for at once")
		job.NotBefore = at
		return p
	case hasExpiresAt:
		at, p := e.instant("expires_at", "leave it out for never")
		job.ExpiresAt = at
		return p
	case hasOverflow:
		return e.overflow(job)
	}
	return nil
}

// bytes reads a JSON string. The result is a part of raw when the string has no
// escapes, and fresh otherwise.
func (e *envelope) bytes(field string) ([]byte, *Problem) {
	if k := e.dec.PeekKind(); k != '"' && k > 0 {
		return nil, e.wrongKind(field, "a string")
	}
	v, err := e.dec.ReadValue()
	if err != nil {
		return nil, e.syntax(err)
	}
	if bytes.IndexByte(v, '\\') < 0 {
		end := e.dec.InputOffset()
		return e.raw[end-int64(len(v))+1 : end-1], nil
	}
	s, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return nil, badField(field, "is not a JSON string: "+err.Error())
	}
	return s, nil
}

func (e *envelope) wrongKind(field, want string) *Problem {
	if _, err := e.dec.ReadValue(); err != nil {
		return e.syntax(err)
	}
	return badField(field, "must be "+want)
}
