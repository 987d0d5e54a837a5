package secrets

import (
	"bytes"
	stdjson "encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/internal/jsondepth"
)

// swap says what shall stand for the secret in a place.
type swap func(place, jsontext.Value) (jsontext.Value, error)

// rewrite copies a deliver setting, without spaces, with every secret in it swapped. To be strict about it is
// Parse's business.
func rewrite(raw stdjson.RawMessage, s swap) (stdjson.RawMessage, error) {
	if len(raw) == 0 {
		return raw, nil
	}
	if err := jsondepth.Check(raw, jsondepth.Max); err != nil {
		return nil, err
	}
	lenient := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	var copied bytes.Buffer
	r := rewriter{jsontext.NewDecoder(bytes.NewReader(raw), lenient...), jsontext.NewEncoder(&copied, lenient...), s}
	if err := r.value(""); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(copied.Bytes()), nil
}

type rewriter struct {
	in   *jsontext.Decoder
	out  *jsontext.Encoder
	swap swap
}

// value copies the next value, which a member of that name has.
func (r *rewriter) value(name string) error {
	kind := r.in.PeekKind()
	if IsSensitive(name) {
		return r.leaf(func(v jsontext.Value) (jsontext.Value, error) { return r.swap(r.place(), v) })
	}
	switch kind {
	case '{', '[':
		return r.inside(kind)
	case '"':
		return r.leaf(func(v jsontext.Value) (jsontext.Value, error) {
			text := unquote(v)
			if !isURL(text) && !strings.EqualFold(name, "url") {
				return v, nil
			}
			text, err := rewriteURL(text, r.place(), func(p place, secret string) (string, error) {
				v, err := r.swap(p, quote(secret))
				return unquote(v), err
			})
			return quote(text), err
		})
	}
	return r.leaf(func(v jsontext.Value) (jsontext.Value, error) { return v, nil })
}

// place is that of the value just read. It is as long as the names on the way there, so it is made for what may be
// secret only.
func (r *rewriter) place() place { return place{value: r.in.StackPointer()} }

// leaf copies the next value as what s makes of it.
func (r *rewriter) leaf(s func(jsontext.Value) (jsontext.Value, error)) error {
	v, err := r.in.ReadValue()
	if err != nil {
		return err
	}
	if v, err = s(v); err != nil {
		return err
	}
	return r.out.WriteValue(v)
}

// inside copies the next value, an object or a list, and what is in it.
func (r *rewriter) inside(kind jsontext.Kind) error {
	if _, err := r.token(); err != nil {
		return err
	}
	for next := r.in.PeekKind(); next != '}' && next != ']'; next = r.in.PeekKind() {
		name := ""
		if kind == '{' {
			var err error
			if name, err = r.token(); err != nil {
				return err
			}
		}
		if err := r.value(name); err != nil {
			return err
		}
	}
	_, err := r.token()
	return err
}

// token copies the next token and returns its text, if it has one.
func (r *rewriter) token() (string, error) {
	t, err := r.in.ReadToken()
	if err != nil {
		return "", err
	}
	text := t.String() // the token is good only until the next is read
	return text, r.out.WriteToken(t)
}

// The parts of a URL that are secret.
const (
	partUser     = "user and password"
	partQuery    = "query"
	partFragment = "fragment"
)

// isURL goes by what is shown of a text, so that what was masked is still taken for one.
func isURL(text string) bool {
	end := strings.IndexAny(text, "?#")
	if end < 0 {
		end = len(text)
	}
	return strings.Contains(text[:end], "://")
}

// rewriteURL copies a URL with every secret in it swapped. It cuts the text and does not parse it: what is no
// good URL may have a secret in it all the same.
func rewriteURL(text string, at place, swap func(place, string) (string, error)) (string, error) {
	text, end, hasEnd := strings.Cut(text, "#")
	text, values, hasValues := strings.Cut(text, "?")
	host := 0
	if i := strings.Index(text, "://"); i >= 0 {
		host = i + len("://")
	}
	authority, _, _ := strings.Cut(text[host:], "/")
	var err error
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		at.part = partUser
		if authority, err = swap(at, authority[:i]); err != nil {
			return "", err
		}
		text = text[:host] + authority + text[host+i:]
	}
	if hasValues {
		at.part = partQuery
		if values, err = rewriteQuery(values, at, swap); err != nil {
			return "", err
		}
		text += "?" + values
	}
	if hasEnd {
		at.part = partFragment
		if end, err = swap(at, end); err != nil {
			return "", err
		}
		text += "#" + end
	}
	return text, nil
}

// rewriteQuery copies a query. What has no name is all value.
func rewriteQuery(text string, at place, swap func(place, string) (string, error)) (string, error) {
	items := strings.Split(text, "&")
	seen := map[string]int{}
	for i, item := range items {
		name, value, named := strings.Cut(item, "=")
		if !named {
			name, value = "", item
		}
		if item == "" {
			continue
		}
		seen[name]++
		at.name, at.nth = name, seen[name]
		value, err := swap(at, value)
		if err != nil {
			return "", err
		}
		if named {
			value = name + "=" + value
		}
		items[i] = value
	}
	return strings.Join(items, "&"), nil
}
