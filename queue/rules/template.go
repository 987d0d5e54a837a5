package rules

import (
	"cmp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// Template says what a rule counts by. It is literal text with fields of the job in braces: {lane}, {queue}, {app},
// {content_type}, {header.NAME} in any case, and {payload/POINTER}, a value in a JSON payload by RFC 6901:
// {payload/to}, {payload/recipients/0}. {payload./to} means {payload/to}. {app} is the app that the caller has proven
// to be, not what the job says; for the operator it is OperatorApp.
//
// A template of a single field expands to the field's value. Otherwise % and the character that follows a field are
// percent-encoded within its value, so that different values never make the same key: {lane}:{header.X} expands a:b
// and c to a%3Ab:c.
type Template struct{ parts []keyPart }

// keyPart is literal text or a field.
type keyPart struct {
	literal string
	field   string // as errors name it; empty for a literal
	header  string
	pointer []string // of a value in the payload
	stop    byte     // the character after the field, or 0
}

// OperatorApp is the value of {app} for a job of the operator. No app has this name.
const OperatorApp = "-"

// MaxTemplateBytes is the maximum length of a template.
const MaxTemplateBytes = 512

// ParseTemplate parses a template. Its error is an *invalid.Error.
func ParseTemplate(text string) (Template, error) {
	var t Template
	if len(text) > MaxTemplateBytes {
		return t, invalid.Errorf("key", text, "has %d bytes, the limit is %d", len(text), MaxTemplateBytes)
	}
	fields := 0
	for rest := text; rest != ""; {
		literal, after, found := strings.Cut(rest, "{")
		if err := checkLiteral(text, literal); err != nil {
			return t, err
		}
		n := len(t.parts)
		switch afterField := n > 0 && t.parts[n-1].field != ""; {
		case literal != "" && afterField:
			t.parts[n-1].stop = literal[0]
		case afterField:
			return t, invalid.Errorf(
				"key", text,
				"has two fields with nothing between them, so different values could make the same key; put a : between "+
					"them",
			)
		}
		if literal != "" {
			t.parts = append(t.parts, keyPart{literal: literal})
		}
		if !found {
			break
		}
		field, behind, closed := strings.Cut(after, "}")
		if !closed {
			return t, invalid.Errorf("key", text, "has a { without a }")
		}
		p, err := parseKeyField(text, field)
		if err != nil {
			return t, err
		}
		t.parts, rest = append(t.parts, p), behind
		fields++
	}
	if text != "" && fields == 0 {
		return t, invalid.Errorf(
			"key", text,
			"has no field in braces, such as {lane} or {payload/to}; leave it out to count all under one key",
		)
	}
	return t, nil
}

func checkLiteral(text, literal string) error {
	for i := 0; i < len(literal); i++ {
		switch c := literal[i]; {
		case c == '}':
			return invalid.Errorf("key", text, "has a } without a {")
		case c == '%': // it would look like an encoded character
			return invalid.Errorf(
				"key", text,
				"has a %% between its fields, which is reserved for encoding their values; use another character",
			)
		case c <= ' ' || c > '~':
			return invalid.Errorf("key", text, "has a character between its fields that is not visible ASCII")
		}
	}
	return nil
}

func parseKeyField(text, field string) (keyPart, error) {
	p := keyPart{field: field}
	if field == "lane" || field == "queue" || field == "app" || field == "content_type" {
		return p, nil
	}
	if name, ok := strings.CutPrefix(field, "header."); ok && names.IsToken(name) {
		p.field, p.header = "headers."+name, name
		return p, nil
	}
	if path, ok := strings.CutPrefix(field, "payload"); ok {
		pointer := jsontext.Pointer(strings.TrimPrefix(path, "."))
		if pointer != "" && pointer.IsValid() {
			p.field = "payload" + string(pointer)
			for token := range pointer.Tokens() {
				p.pointer = append(p.pointer, token)
			}
			return p, nil
		}
	}
	return p, invalid.Errorf(
		"key", text,
		"{%s} is not a field of a job; the fields are {lane}, {queue}, {app}, {content_type}, {header.NAME} and "+
			"{payload/POINTER}, such as {payload/to}",
		field,
	)
}

// Fields has the parts of a job that rules can count by.
type Fields struct {
	Queue, Lane, App, ContentType string
	Headers                       map[string]string
	Payload                       []byte
}

// Expand returns the key of a normalized job. Its error is an *invalid.Error with the field that is missing, empty or
// too long.
func (t Template) Expand(j *Fields) (string, error) {
	if len(t.parts) == 1 { // a single field
		return t.parts[0].value(j)
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
		encode(&key, v, p.stop)
	}
	if err := ValidateKey("key", key.String()); err != nil {
		return "", err
	}
	return key.String(), nil
}

// encode writes a value without the character stop, so that the value clearly ends where stop follows it.
func encode(key *strings.Builder, v string, stop byte) {
	const digits = "0123456789ABCDEF"
	for i := 0; i < len(v); i++ {
		if c := v[i]; c == '%' || c == stop && stop != 0 {
			key.Write([]byte{'%', digits[c>>4], digits[c&15]})
		} else {
			key.WriteByte(c)
		}
	}
}

// value returns the job's value of a field: not empty, and no longer than a key.
func (p keyPart) value(j *Fields) (v string, err error) {
	switch {
	case p.field == "lane":
		v = j.Lane
	case p.field == "queue":
		v = j.Queue
	case p.field == "app":
		v = cmp.Or(j.App, OperatorApp)
	case p.field == "content_type":
		v = j.ContentType
	case p.header != "":
		v, err = p.ofHeaders(j.Headers)
	default:
		v, err = p.ofPayload(j.Payload)
	}
	if err != nil {
		return "", err
	}
	if v == "" {
		return "", invalid.Errorf(p.field, "", "is missing or empty, and a rule counts by it")
	}
	if err := ValidateKey(p.field, v); err != nil {
		return "", err
	}
	return v, nil
}

func (p keyPart) ofHeaders(headers map[string]string) (v string, err error) {
	found := false
	for name, value := range headers {
		if !strings.EqualFold(name, p.header) {
			continue
		}
		if found { // targets differ in which of them they use
			return "", invalid.Errorf(p.field, "", "is given twice, in different case, and a rule counts by it; use it once")
		}
		v, found = value, true
	}
	return v, nil
}
