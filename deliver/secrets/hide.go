package secrets

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// leastSecret is the minimum length of a value that is hidden: hiding shorter values would shred the text.
	leastSecret = 4
	// leastPart is the minimum length of a part of a secret that is hidden.
	leastPart = 8
)

// Hider hides secrets in answers of receivers. Some receivers echo the request, and their answers are kept and shown.
type Hider struct {
	plain []pattern // values, what they decode to as base64, and their hexadecimal digits
	coded []pattern // the values as base64, in the standard alphabet, at each of the three offsets in a group
}

// NewHider returns a Hider of secrets. It ignores white space around them, and also hides any part of at least half
// their length and 8 bytes. Secrets shorter than 4 bytes are not hidden.
func NewHider(values ...string) *Hider {
	h := &Hider{}
	for _, value := range values {
		value = strings.TrimSpace(value)
		h.secret(value)
		for _, part := range strings.FieldsFunc(value, separates) {
			if len(part) >= leastPart {
				h.secret(part)
			}
		}
		if _, credentials, ok := strings.Cut(value, " "); ok { // after Bearer or Basic
			h.secret(credentials)
		}
	}
	return h
}

// separates reports whether a character separates the parts of a header such as Cookie or Authorization.
func separates(c rune) bool { return unicode.IsSpace(c) || strings.ContainsRune(`;,=:"`, c) }

// secret adds a secret, what it decodes to as base64, and the password in that, as in credentials of Basic.
func (h *Hider) secret(value string) {
	h.add(value, max(leastPart, len(strings.TrimSpace(value))/2))
	if decoded, ok := decodeBase64(value); ok {
		h.add(decoded, max(leastPart, len(decoded)/2))
		_, password, _ := strings.Cut(decoded, ":")
		h.add(password, max(leastPart, len(password)/2))
	}
}

// Whole adds values that are hidden only as a whole, such as headers that are hardly secret.
func (h *Hider) Whole(values ...string) *Hider {
	for _, value := range values {
		h.add(value, len(value))
	}
	return h
}

// add adds a value in all its forms. least is the minimum length of a part that is hidden.
func (h *Hider) add(value string, least int) {
	value = strings.TrimSpace(value)
	if len(value) < leastSecret {
		return
	}
	least = min(least, len(value))
	h.plain = append(h.plain, newPattern(value, least), newPattern(hex.EncodeToString([]byte(value)), 2*least))
	for before := range 3 { // number of preceding bytes in the first group
		encoded := base64.RawStdEncoding.EncodeToString([]byte("\x00\x00"[:before] + value))
		first, whole := (8*before+5)/6, 8*(before+len(value))/6 // the characters that depend on the value alone
		h.coded = append(h.coded, newPattern(encoded[first:whole], 8*least/6-1))
	}
}

// decodeBase64 decodes a text if it is base64.
func decodeBase64(text string) (string, bool) {
	if len(text) < 2*leastSecret {
		return "", false
	}
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(standard(text), "="))
	return string(b), err == nil
}

// standard replaces the characters of base64's URL alphabet by the standard ones.
func standard(text string) string { return strings.NewReplacer("-", "+", "_", "/").Replace(text) }

// Hide returns a text with Hidden in place of each secret, in any case and any encoding: plain, escaped for JSON, HTML
// or URLs, in hexadecimal, in base64 of either alphabet, inside something longer, or nested. It also hides the
// beginning of a secret at the end of the text, which may have been cut there.
func (h *Hider) Hide(text string) string {
	if len(h.plain) == 0 || text == "" {
		return text
	}
	plain, coded := index(h.plain, len(text)), index(h.coded, len(text))
	var found []span
	for _, r := range readings(text) {
		r, _ = r.decode(lower)
		for _, s := range find(h.plain, plain, string(r.text)) {
			found = append(found, span{r.at[s.begin], r.at[s.end]})
		}
		text := standard(string(r.text))
		for _, s := range find(h.coded, coded, text) {
			s = s.base64(text)
			found = append(found, span{r.at[s.begin], r.at[s.end]})
		}
	}
	if len(found) == 0 {
		return text
	}
	slices.SortFunc(found, func(a, b span) int { return cmp.Compare(a.begin, b.begin) })
	var b strings.Builder
	end := 0
	for i, s := range found {
		if i == 0 || s.begin > end {
			for text[s.begin] == ' ' && s.begin+1 < s.end { // a part of a secret may begin with spaces
				s.begin++
			}
			b.WriteString(text[end:s.begin] + Hidden)
		}
		end = max(end, s.end)
	}
	return b.String() + text[end:]
}

// lower is a decoder that decodes upper case to lower case.
func lower(text []byte) (string, int) {
	c, n := utf8.DecodeRune(text)
	if c == utf8.RuneError || unicode.ToLower(c) == c {
		return "", 0
	}
	return string(unicode.ToLower(c)), n
}

// span is a part of a text.
type span struct{ begin, end int }

// base64 returns the span extended by the base64 around it: the adjacent characters contain some bits of the secret.
func (s span) base64(text string) span {
	for s.begin > 0 && isBase64(text[s.begin-1]) {
		s.begin--
	}
	for s.end < len(text) && (isBase64(text[s.end]) || text[s.end] == '=') {
		s.end++
	}
	return s
}

func isBase64(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/'
}

// pattern is a lower-case text. Every part of it that has at least least bytes is hidden.
type pattern struct {
	text  string
	least int
}

func newPattern(text string, least int) pattern {
	r := reading{text: []byte(text), at: make([]int, len(text)+1)}
	r, _ = r.decode(lower)
	return pattern{string(r.text), min(least, len(r.text))}
}

// index returns the parts of patterns that are hidden, by length. longest is the length of the text to search.
func index(patterns []pattern, longest int) map[int]map[string]bool {
	parts := map[int]map[string]bool{}
	for _, p := range patterns {
		if p.least > longest {
			continue
		}
		if parts[p.least] == nil {
			parts[p.least] = map[string]bool{}
		}
		for i := range len(p.text) - p.least + 1 {
			parts[p.least][p.text[i:i+p.least]] = true
		}
	}
	return parts
}

// find returns the places of parts of patterns in a text, and of the beginning of a pattern at its end.
func find(patterns []pattern, parts map[int]map[string]bool, text string) (found []span) {
	for n, of := range parts {
		for i := range len(text) - n + 1 {
			if !of[text[i:i+n]] {
				continue
			}
			if last := len(found) - 1; last >= 0 && found[last].begin <= i && i <= found[last].end {
				found[last].end = max(found[last].end, i+n)
			} else {
				found = append(found, span{i, i + n})
			}
		}
	}
	for _, p := range patterns {
		for n := min(len(p.text)-1, len(text)); n >= leastPart; n-- {
			if strings.HasSuffix(text, p.text[:n]) {
				found = append(found, span{len(text) - n, len(text)})
				break
			}
		}
	}
	return found
}
