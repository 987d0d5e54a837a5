package secrets

import (
	"bytes"
	"html"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// reading is a decoded text, with the place of each byte in the original.
type reading struct {
	text []byte
	at   []int // one longer than text: the last item is the end
}

// depth is the maximum nesting of encodings.
const depth = 2

// maxReference is the maximum length of a character reference of HTML that is decoded.
const maxReference = 12

// readings returns a text as it is, and with the escapes of JSON, HTML or URLs decoded, also nested.
func readings(text string) []reading {
	plain := reading{text: []byte(text), at: make([]int, len(text)+1)}
	for i := range plain.at {
		plain.at[i] = i
	}
	all := []reading{plain}
	for level, from := 0, 0; level < depth; level++ {
		to := len(all)
		for _, r := range all[from:to] {
			for _, d := range []decoder{escapeOfJSON, escapeOfHTML, escapeOfURL, escapeOfForm} {
				if decoded, changed := r.decode(d); changed {
					all = append(all, decoded)
				}
			}
		}
		from = to
	}
	return all
}

// decoder decodes the escape at the beginning of a text. length is the escape's length, 0 if the text does not begin
// with one.
type decoder func(text []byte) (decoded string, length int)

func (r reading) decode(d decoder) (decoded reading, changed bool) {
	for i := 0; i < len(r.text); {
		text, n := d(r.text[i:])
		if n == 0 {
			text, n = string(r.text[i:i+1]), 1
		} else {
			changed = true
		}
		for range len(text) {
			decoded.at = append(decoded.at, r.at[i])
		}
		decoded.text = append(decoded.text, text...)
		i += n
	}
	decoded.at = append(decoded.at, r.at[len(r.text)])
	return decoded, changed
}

// escapeOfJSON decodes escapes of RFC 8259, 7, and any other character behind a backslash.
func escapeOfJSON(text []byte) (string, int) {
	if len(text) < 2 || text[0] != '\\' {
		return "", 0
	}
	if text[1] != 'u' {
		if i := strings.IndexByte("bfnrt", text[1]); i >= 0 {
			return "\b\f\n\r\t"[i : i+1], 2
		}
		return string(text[1:2]), 2
	}
	first, ok := unit(text)
	if !ok {
		return "", 0
	}
	if utf16.IsSurrogate(first) && len(text) > 6 {
		if second, ok := unit(text[6:]); ok {
			if r := utf16.DecodeRune(first, second); r != utf8.RuneError {
				return string(r), 12
			}
		}
	}
	return string(first), 6
}

// unit decodes \uXXXX.
func unit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil
}

// escapeOfHTML decodes a character reference, such as &amp; or &#x68;.
func escapeOfHTML(text []byte) (string, int) {
	if text[0] != '&' {
		return "", 0
	}
	end := bytes.IndexByte(text[:min(len(text), maxReference)], ';')
	if end < 0 {
		return "", 0
	}
	reference := string(text[:end+1])
	if plain := html.UnescapeString(reference); plain != reference && len(plain) <= len(reference) {
		return plain, len(reference)
	}
	return "", 0
}

// escapeOfURL decodes a percent-encoded byte (RFC 3986, 2.1).
func escapeOfURL(text []byte) (string, int) {
	if len(text) < 3 || text[0] != '%' {
		return "", 0
	}
	n, err := strconv.ParseUint(string(text[1:3]), 16, 8)
	if err != nil {
		return "", 0
	}
	return string([]byte{byte(n)}), 3
}

// escapeOfForm decodes an escape of a query, in which + is a space.
func escapeOfForm(text []byte) (string, int) {
	if text[0] == '+' {
		return " ", 1
	}
	return escapeOfURL(text)
}
