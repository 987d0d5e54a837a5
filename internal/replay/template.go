package replay

import (
	"errors"
	"fmt"
	"strings"

	"github.com/penstock/penstock/queue/rules"
)

// template makes keys from the fields of a log's lines, as rules.Template does from those of jobs: literal text and
// fields in braces. A text without braces is the name of one field. The empty template makes one key for all.
type template []part

// part is literal text, or a field.
type part struct {
	literal string
	field   string
	slot    int  // the slot of the field in a line's values
	stop    byte // the character after the field, or 0
}

func parseTemplate(text string) (template, error) {
	if len(text) > rules.MaxTemplateBytes {
		return nil, fmt.Errorf("the key has %d bytes, the limit is %d", len(text), rules.MaxTemplateBytes)
	}
	if text == "" {
		return nil, nil
	}
	if !strings.ContainsAny(text, "{}") {
		return template{{field: text}}, nil
	}
	var t template
	for rest := text; rest != ""; {
		literal, after, found := strings.Cut(rest, "{")
		if strings.ContainsAny(literal, "}%") {
			return nil, fmt.Errorf(
				"the key %q has a } without a {, or a %% between its fields, which marks what is encoded", text,
			)
		}
		followsField := len(t) > 0 && t[len(t)-1].field != ""
		switch {
		case literal != "":
			if followsField {
				t[len(t)-1].stop = literal[0]
			}
			t = append(t, part{literal: literal})
		case followsField:
			return nil, fmt.Errorf("the key %q has two fields with nothing between them; put a : between them", text)
		}
		if !found {
			break
		}
		field, behind, closed := strings.Cut(after, "}")
		if !closed || field == "" {
			return nil, fmt.Errorf("the key %q has a { without a field and a } behind it", text)
		}
		t, rest = append(t, part{field: field}), behind
	}
	return t, nil
}

var errKeyLong = fmt.Errorf("has a key of more than %d bytes", rules.MaxKeyBytes)

// verbatim reports whether a key is the unchanged value of one field.
func (t template) verbatim() bool { return len(t) == 1 && t[0].field != "" }

// expand returns a line's key, which is one of the fields or in buf. It returns buf even with an error, so that no line
// allocates a new one.
func (t template) expand(buf []byte, fields [][]byte) ([]byte, error) {
	if t.verbatim() {
		v := fields[t[0].slot]
		if len(v) == 0 {
			return nil, t[0].missing()
		}
		if len(v) > rules.MaxKeyBytes {
			return nil, errKeyLong
		}
		return v, nil
	}
	buf = buf[:0]
	for i := range t {
		p := &t[i]
		if p.field == "" {
			buf = append(buf, p.literal...)
			continue
		}
		v := fields[p.slot]
		if len(v) == 0 {
			return buf, p.missing()
		}
		if len(buf)+len(v) > rules.MaxKeyBytes { // a template may repeat a large value
			return buf, errKeyLong
		}
		buf = encode(buf, v, p.stop)
	}
	if len(buf) > rules.MaxKeyBytes {
		return buf, errKeyLong
	}
	return buf, nil
}

func (p *part) missing() error { return errors.New("has no " + p.field) }

// encode writes a value so that its end is unambiguous.
func encode(buf, v []byte, stop byte) []byte {
	const hex = "0123456789ABCDEF"
	for _, c := range v {
		if c == '%' || c == stop && stop != 0 {
			buf = append(buf, '%', hex[c>>4], hex[c&15])
		} else {
			buf = append(buf, c)
		}
	}
	return buf
}
