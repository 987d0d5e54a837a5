package secrets

import (
	"bytes"
	stdjson "encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/internal/jsondepth"
)

// swap returns the replacement of the secret in a place.
type swap func(place, jsontext.Value) (jsontext.Value, error)

// rewrite copies a deliver setting, without spaces, with every secret swapped. It is lenient; Parse is strict.
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

// namesUnit reports whether the member is a unit of the setting actual, such as tokens, which is no secret.
func (r *rewriter) namesUnit() bool {
	in := string(r.in.StackPointer())
	return strings.HasSuffix(in[:max(0, strings.LastIndexByte(in, '/'))], "/actual")
}

// value copies the next value. name is the name of the member that it belongs to.
func (r *rewriter) value(name string) error {
	kind := r.in.PeekKind()
	if IsSensitive(name) && !(kind == '{' && r.namesUnit()) {
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

// place returns the place of the value just read. It allocates, so it is called only for possible secrets.
func (r *rewriter) place() place { return place{value: r.in.StackPointer()} }

// leaf copies the next value, replaced by s.
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

// inside copies the next value, an object or array, and its members.
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
	text := t.String() // the token is valid only until the next read
	return text, r.out.WriteToken(t)
}

// The parts of a URL that are secret.
const (
	partUser     = "user and password"
	partQuery    = "query"
	partFragment = "fragment"
)

// isURL reports whether a text is a URL. It considers only the part that Mask shows, so that a masked URL is still one.
func isURL(text string) bool {
	end := strings.IndexAny(text, "?#")
	if end < 0 {
		end = len(text)
	}
	return strings.Contains(text[:end], "://")
}

// rewriteURL copies a URL with every secret swapped. It does not parse the URL, because an invalid URL may contain a
// secret, too.
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

// rewriteQuery copies a query with every value swapped. An item without = is all value.
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
