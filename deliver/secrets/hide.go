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
	// leastSecret is the length of the shortest value that is hidden: shorter ones would shred the text.
	leastSecret = 4
	// leastPart is the length of the shortest part of a secret that is hidden.
	leastPart = 8
)

// Hider hides secrets in answers: some receivers echo the request, and their answers are kept and shown.
type Hider struct {
	plain []pattern // values, what they are base64 of, and their hexadecimal digits
	coded []pattern // parts of base64, in the standard alphabet, at each of the three places in a group
}

// NewHider returns a Hider of secrets. It ignores white space around them, and hides any half of them of at least
// 8 bytes. Secrets of fewer than 4 bytes are not hidden.
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
		if _, credentials, ok := strings.Cut(value, " "); ok { // behind Bearer or Basic
			h.secret(credentials)
		}
	}
	return h
}

// separates reports whether a character stands between the parts of a header such as Cookie or Authorization.
func separates(c rune) bool { return unicode.IsSpace(c) || strings.ContainsRune(`;,=:"`, c) }

// secret adds a secret, and what it is base64 of: of the login of Basic, the password too.
func (h *Hider) secret(value string) {
	h.add(value, max(leastPart, len(strings.TrimSpace(value))/2))
	if decoded, ok := undone(value); ok {
		h.add(decoded, max(leastPart, len(decoded)/2))
		_, password, _ := strings.Cut(decoded, ":")
		h.add(password, max(leastPart, len(password)/2))
	}
}

// Whole adds values that are hidden only where all of one stands, such as headers that hardly are secrets.
func (h *Hider) Whole(values ...string) *Hider {
	for _, value := range values {
		h.add(value, len(value))
	}
	return h
}

// add adds a value in all its forms. least is how many bytes of it are hidden.
func (h *Hider) add(value string, least int) {
	value = strings.TrimSpace(value)
	if len(value) < leastSecret {
		return
	}
	least = min(least, len(value))
	h.plain = append(h.plain, newPattern(value, least), newPattern(hex.EncodeToString([]byte(value)), 2*least))
	for before := range 3 { // bytes of others in the first group
		encoded := base64.RawStdEncoding.EncodeToString([]byte("\x00\x00"[:before] + value))
		first, whole := (8*before+5)/6, 8*(before+len(value))/6 // characters that are of nothing but the value
		h.coded = append(h.coded, newPattern(encoded[first:whole], 8*least/6-1))
	}
}

// undone is what a text is base64 of, if it is.
func undone(text string) (string, bool) {
	if len(text) < 2*leastSecret {
		return "", false
	}
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(standard(text), "="))
	return string(b), err == nil
}

// standard is a text with the characters of base64's alphabet for URLs as those of the standard one.
func standard(text string) string { return strings.NewReplacer("-", "+", "_", "/").Replace(text) }

// Hide returns a text with Hidden in place of the secrets in it, in upper or lower case, and however they are written:
// as they are, escaped as in JSON or HTML, encoded as in a URL, in hexadecimal digits, in base64 of either alphabet,
// alone or in the middle of something longer, or one of these within another. So is the beginning of one at the end of
// a text, which may have been cut there.
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
			for text[s.begin] == ' ' && s.begin+1 < s.end { // it may stand before the half of a value
				s.begin++
			}
			b.WriteString(text[end:s.begin] + Hidden)
		}
		end = max(end, s.end)
	}
	return b.String() + text[end:]
}

// lower is the decoder of a text in which upper case is the same as lower case.
func lower(text []byte) (string, int) {
	c, n := utf8.DecodeRune(text)
	if c == utf8.RuneError || unicode.ToLower(c) == c {
		return "", 0
	}
	return string(unicode.ToLower(c)), n
}

// span is a part of a text.
type span struct{ begin, end int }

// base64 is a span with all of the base64 around it: what stands right beside a secret has some bits of it.
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

// pattern is a lower-case text. Every part of it with at least that many bytes is hidden.
type pattern struct {
	text  string
	least int
}

func newPattern(text string, least int) pattern {
	r := reading{text: []byte(text), at: make([]int, len(text)+1)}
	r, _ = r.decode(lower)
	return pattern{string(r.text), min(least, len(r.text))}
}

// index returns the parts of patterns that are hidden, by their lengths, as far as a text of so many bytes can have
// them.
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

// find returns where parts of patterns stand in a text, and where the beginning of one is at its end.
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
