package secrets

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"
)

// leastSecret is how long a value is that is looked for: shorter ones would shred what is told.
const leastSecret = 4

// Hider hides secrets in what others say: some receivers send back what they were sent, and what they say is kept and
// shown.
type Hider struct {
	plain []string // as they are, and as they are once base64 of them is undone
	coded []string // parts of base64 that tell them, in the standard alphabet, at each of the three places in a group
}

// NewHider returns a Hider of values that are sent. Those of fewer than 4 bytes are not looked for.
func NewHider(values ...string) *Hider {
	h := &Hider{}
	for _, value := range values {
		h.add(value)
		if decoded, ok := undone(value); ok {
			h.add(decoded)
		}
		// What is behind Bearer is looked for by itself, and of Basic what was encoded, and its password.
		_, credentials, two := strings.Cut(value, " ")
		if !two {
			continue
		}
		h.add(credentials)
		if decoded, ok := undone(credentials); ok {
			h.add(decoded)
			_, password, _ := strings.Cut(decoded, ":")
			h.add(password)
		}
	}
	return h
}

func (h *Hider) add(value string) {
	if len(value) < leastSecret || slices.Contains(h.plain, value) {
		return
	}
	h.plain = append(h.plain, value)
	for before := range 3 { // bytes of others in the first group
		encoded := base64.RawStdEncoding.EncodeToString([]byte("\x00\x00"[:before] + value))
		first, whole := (8*before+5)/6, 8*(before+len(value))/6 // characters that are of nothing but the value
		h.coded = append(h.coded, encoded[first:whole])
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

// Hide returns a text with Hidden in place of the secrets in it, in whatever way they are written there: as they are,
// escaped as in JSON, encoded as in a URL, in base64 of either alphabet, alone or in the middle of something longer,
// or one of these within another. So is the beginning of one at the end of a text, which may have been cut there.
func (h *Hider) Hide(text string) string {
	if len(h.plain) == 0 || text == "" {
		return text
	}
	var found []span
	for _, r := range readings(text) {
		found = h.find(found, r)
	}
	if len(found) == 0 {
		return text
	}
	slices.SortFunc(found, func(a, b span) int { return cmp.Compare(a.begin, b.begin) })
	var b strings.Builder
	end := 0
	for _, s := range found {
		if s.begin >= end {
			b.WriteString(text[end:s.begin] + Hidden)
		}
		end = max(end, s.end)
	}
	return b.String() + text[end:]
}

// span is a part of a text.
type span struct{ begin, end int }

func (h *Hider) find(found []span, r reading) []span {
	text := string(r.text)
	for _, s := range h.plain {
		found = r.spans(found, text, s, false)
	}
	text = standard(text)
	for _, s := range h.coded {
		found = r.spans(found, text, s, true)
	}
	return found
}

// spans adds where s stands in a reading of a text; of base64 all that it is in the middle of, for what stands right
// beside it has some bits of it.
func (r reading) spans(found []span, text, s string, coded bool) []span {
	add := func(begin, end int) {
		for coded && begin > 0 && isBase64(text[begin-1]) {
			begin--
		}
		for coded && end < len(text) && (isBase64(text[end]) || text[end] == '=') {
			end++
		}
		found = append(found, span{r.at[begin], r.at[end]})
	}
	for i := 0; ; {
		n := strings.Index(text[i:], s)
		if n < 0 {
			break
		}
		add(i+n, i+n+len(s))
		i += n + len(s)
	}
	for n := min(len(s)-1, len(text)); n >= 2*leastSecret; n-- {
		if strings.HasSuffix(text, s[:n]) {
			add(len(text)-n, len(text))
			break
		}
	}
	return found
}

func isBase64(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/'
}
