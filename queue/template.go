package queue

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// KeyTemplate says by what of a job a rule counts: literal text and, in braces, fields of the job: {lane}, {queue},
// {content_type}, {header.NAME} whatever the case of the name, and {payload/POINTER}, a value within a JSON payload
// by RFC 6901: {payload/to}, {payload/recipients/0}. {payload./to} is read as {payload/to}.
//
// A template of one field expands to its value as it stands. In one of several parts, % and the characters of the
// literal text are percent-encoded within the values, so that no two lists of values make the same key.
type KeyTemplate struct {
	text  string
	parts []keyPart
}

type keyPart struct {
	literal string
	field   string // as written, for errors; empty of a literal
	header  string
	pointer jsontext.Pointer
}

// MaxKeyTemplateBytes is the longest template.
const MaxKeyTemplateBytes = 512

// ParseKeyTemplate reads a template. Its error is a *FieldError.
func ParseKeyTemplate(text string) (KeyTemplate, error) {
	t := KeyTemplate{text: text}
	if len(text) > MaxKeyTemplateBytes {
		return t, fieldErr("key", text, "has %d bytes, the limit is %d", len(text), MaxKeyTemplateBytes)
	}
	fields := 0
	for rest := text; rest != ""; {
		literal, after, found := strings.Cut(rest, "{")
		if strings.Contains(literal, "}") {
			return t, fieldErr("key", text, "has a } without a {")
		}
		if i := strings.IndexFunc(literal, func(c rune) bool { return c <= ' ' || c > '~' }); i >= 0 {
			return t, fieldErr("key", text, "has a character between its fields that is not visible ASCII")
		}
		if literal != "" {
			t.parts = append(t.parts, keyPart{literal: literal})
		}
		if !found {
			break
		}
		field, behind, closed := strings.Cut(after, "}")
		if !closed {
			return t, fieldErr("key", text, "has a { without a }")
		}
		if n := len(t.parts); n > 0 && t.parts[n-1].field != "" {
			return t, fieldErr("key", text, "has two fields with nothing between them, so that different values could make one key; put a : between them")
		}
		p, err := parseKeyField(text, field)
		if err != nil {
			return t, err
		}
		t.parts, rest = append(t.parts, p), behind
		fields++
	}
	if text != "" && fields == 0 {
		return t, fieldErr("key", text, "has no field in braces, such as {lane} or {payload/to}; leave it out to count all under one key")
	}
	return t, nil
}

func parseKeyField(text, field string) (keyPart, error) {
	p := keyPart{field: field}
	switch {
	case field == "lane", field == "queue", field == "content_type":
		return p, nil
	case strings.HasPrefix(field, "header.") && len(field) > len("header."):
		p.header = strings.ToLower(field[len("header."):])
		return p, nil
	case strings.HasPrefix(field, "payload"):
		p.pointer = jsontext.Pointer(strings.TrimPrefix(strings.TrimPrefix(field, "payload"), "."))
		if len(p.pointer) > 1 && p.pointer.IsValid() {
			return p, nil
		}
	}
	return p, fieldErr("key", text, "{%s} is no field of a job: there are {lane}, {queue}, {content_type}, {header.NAME} and {payload/POINTER}", field)
}

// Expand returns the key of a job. Its error is a *FieldError with the field that the job does not have, or that is
// empty, or of which too much came out.
func (t KeyTemplate) Expand(j *Job) (string, error) {
	if len(t.parts) == 0 {
		return "", nil
	}
	if len(t.parts) == 1 {
		v, err := t.parts[0].value(j)
		if err != nil {
			return "", err
		}
		return v, ValidateRuleKey(t.parts[0].field, v)
	}
	var key strings.Builder
	for _, p := range t.parts {
		if p.field == "" {
			key.WriteString(p.literal)
			continue
		}
		v, err := p.value(j)
		if err != nil {
			return "", err
		}
		t.encode(&key, v)
	}
	return key.String(), ValidateRuleKey("key", key.String())
}

// encode writes a value so that it cannot be taken for what stands beside it.
func (t KeyTemplate) encode(key *strings.Builder, v string) {
	const digits = "0123456789ABCDEF"
	for i := 0; i < len(v); i++ {
		c := v[i]
		if c == '%' || t.separates(c) {
			key.WriteByte('%')
			key.WriteByte(digits[c>>4])
			key.WriteByte(digits[c&15])
			continue
		}
		key.WriteByte(c)
	}
}

func (t KeyTemplate) separates(c byte) bool {
	return slices.ContainsFunc(t.parts, func(p keyPart) bool { return strings.IndexByte(p.literal, c) >= 0 })
}

func (p keyPart) value(j *Job) (string, error) {
	var v string
	switch {
	case p.field == "lane":
		v = j.Lane
	case p.field == "queue":
		v = j.Queue
	case p.field == "content_type":
		v = j.ContentType
	case p.header != "":
		for name, value := range j.Headers {
			if strings.EqualFold(name, p.header) {
				v = value
			}
		}
	default:
		v = p.fromPayload(j.Payload)
	}
	if v == "" {
		return "", fieldErr(p.field, "", "is missing or empty, and a rule counts by it; give it")
	}
	return v, nil
}

// fromPayload is the text, number or truth at the pointer; "" if there is none such.
func (p keyPart) fromPayload(payload []byte) string {
	d := jsontext.NewDecoder(bytes.NewBuffer(payload))
	for {
		t, err := d.ReadToken()
		if err != nil {
			return ""
		}
		if isName(d) || d.StackPointer() != p.pointer {
			continue
		}
		switch t.Kind() {
		case '"', '0', 't', 'f':
			return t.String()
		}
		return ""
	}
}
