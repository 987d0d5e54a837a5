package rules

import (
	"cmp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// Template says by what of a job a rule counts: literal text and, in braces, fields of the job: {lane}, {queue},
// {app}, {content_type}, {header.NAME} whatever the case of the name, and {payload/POINTER}, a value within a JSON
// payload by RFC 6901: {payload/to}, {payload/recipients/0}. {payload./to} is read as {payload/to}. {app} is whoever
// appends has proven to be, and not what the job says; of the operator it is OperatorApp.
//
// A template that is one field expands to its value as it stands. In others, % and the character that follows a field
// are percent-encoded within its value, so that no two lists of values make the same key: {lane}:{header.X} makes
// a%3Ab:c of a:b and c.
type Template struct{ parts []keyPart }

// keyPart is literal text, or a field.
type keyPart struct {
	literal string
	field   string // as errors name it; empty of a literal
	header  string
	pointer []string // of a value in the payload
	stop    byte     // the character that follows the field, 0 if none does
}

// OperatorApp is what {app} makes of a job that is no app's. No app has this name.
const OperatorApp = "-"

// MaxTemplateBytes is the longest template.
const MaxTemplateBytes = 512

// ParseTemplate reads a template. Its error is an *invalid.Error.
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
				"has two fields with nothing between them, so that different values could make one key; put a : "+
					"between them",
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
		case c == '%': // it would be taken for one that encodes
			return invalid.Errorf(
				"key", text,
				"has a %% between its fields, which marks what is encoded in their values; use another character",
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
		"{%s} is no field of a job: there are {lane}, {queue}, {app}, {content_type}, {header.NAME} and "+
			"{payload/POINTER}, such as {payload/to}",
		field,
	)
}

// Fields is what of a job rules can count by.
type Fields struct {
	Queue, Lane, App, ContentType string
	Headers                       map[string]string
	Payload                       []byte
}

// Expand returns the key of a normalized job. Its error is an *invalid.Error with the field that the job does not have,
// or that is empty, or of which too much came out.
func (t Template) Expand(j *Fields) (string, error) {
	if len(t.parts) == 1 { // it is a field
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

// encode writes a value so that it does not seem to end earlier.
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

// value is what the job has in a field: some text that is not empty and no longer than a key.
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
		return "", invalid.Errorf(p.field, "", "is missing or empty, and a rule counts by it; give it")
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
		if found { // which of them a target goes by is its own affair
			return "", invalid.Errorf(p.field, "", "is given twice, in different case, and a rule counts by it; give it once")
		}
		v, found = value, true
	}
	return v, nil
}
