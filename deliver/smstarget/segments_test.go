package smstarget

import (
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

func TestSegments(t *testing.T) {
	a, e, u, pair := strings.Repeat("a", 200), strings.Repeat("€", 200), strings.Repeat("я", 200), strings.Repeat("😀", 200)
	emoji := func(n int) string { return pair[:4*n] }
	ucs := func(n int) string { return u[:2*n] }
	euro := func(n int) string { return e[:3*n] }
	for _, c := range []struct {
		text     string
		n        int
		encoding string
	}{
		{"", 1, GSM7},
		{"hello", 1, GSM7},
		{a[:160], 1, GSM7},
		{a[:161], 2, GSM7},
		{a[:153] + a[:153], 2, GSM7},
		{a[:153] + a[:154], 3, GSM7},
		{euro(80), 1, GSM7}, // 160 septets
		{euro(80) + "a", 2, GSM7},
		{euro(152), 2, GSM7},
		{euro(153), 3, GSM7},               // 306 septets would fit in two parts if an escape could be split off
		{a[:158] + "€", 1, GSM7},           // an escape is 2
		{a[:159] + "€", 2, GSM7},           //
		{a[:152] + "€" + a[:152], 3, GSM7}, // the escape would be split at 153: it moves, and pushes one out
		{a[:151] + "€" + a[:153], 2, GSM7}, // it fits
		{a[:100] + "`", 2, UCS2},           // a backtick is not in the alphabet
		{"ç", 1, UCS2},                     // nor is a small c with a cedilla
		{"Ç\nØø\rÅå ΔΦΓΛΩΠΨΣΘΞ ¤¡§¿ àäöñü", 1, GSM7},
		{"[]{}^~|\\€", 1, GSM7},
		{"\t", 1, UCS2},
		{"\x1b", 1, UCS2}, // the escape is no character
		{ucs(70), 1, UCS2},
		{ucs(71), 2, UCS2},
		{ucs(134), 2, UCS2},
		{ucs(135), 3, UCS2},
		{emoji(35), 1, UCS2},
		{emoji(36), 2, UCS2},
		{emoji(66), 2, UCS2},               // 33 to a part: 66 of 67 units
		{emoji(67), 3, UCS2},               // 134 units would fit in two parts if a pair could be split
		{ucs(66) + "😀" + ucs(66), 3, UCS2}, // at the edge: it moves as a whole
		{ucs(65) + "😀" + ucs(67), 2, UCS2}, // it fits
		{ucs(69) + "😀", 2, UCS2},           // 71 units
		{ucs(68) + "😀", 1, UCS2},           // 70
		{strings.Repeat("👨‍👩‍👧‍👦", 7), 2, UCS2}, // 11 units each
		{a[:153], 1, GSM7},
	} {
		if n, encoding := Segments(c.text); n != c.n || encoding != c.encoding {
			t.Errorf("%.40q (%d bytes): %d %s, want %d %s", c.text, len(c.text), n, encoding, c.n, c.encoding)
		}
	}
	if n, _ := Segments(strings.Repeat("x", 153*100)); n != 100 {
		t.Errorf("a long one has %d", n)
	}
}

func TestAlphabet(t *testing.T) {
	if n := len([]rune(basic)); n != 128 {
		t.Errorf("the alphabet has %d places, 128 are right", n)
	}
	if n := len(septets); n != 127+10 {
		t.Errorf("%d characters", n)
	}
	at := func(code int) rune { return []rune(basic)[code] }
	for code, want := range map[int]rune{
		0x00: '@', 0x09: 'Ç', 0x0A: '\n', 0x10: 'Δ', 0x1A: 'Ξ', 0x1F: 'É', 0x20: ' ', 0x24: '¤', 0x40: '¡', 0x41: 'A',
		0x5B: 'Ä', 0x5F: '§', 0x60: '¿', 0x7A: 'z', 0x7F: 'à',
	} {
		if got := at(code); got != want {
			t.Errorf("%#x is %q, want %q", code, got, want)
		}
	}
}

// packed is the counter made differently: from the encoded units, it tries every place at which a part may end, and
// takes the fewest parts.
func packed(text string) int {
	var units []bool // for each unit, whether a part may begin at it
	alone, part := 160, 153
	gsm := true
	for _, r := range text {
		gsm = gsm && (strings.ContainsRune(basic, r) && r != 0x1b || strings.ContainsRune(extension, r))
	}
	if !gsm {
		alone, part = 70, 67
	}
	for _, r := range text {
		switch {
		case gsm && strings.ContainsRune(extension, r):
			units = append(units, true, false)
		case gsm:
			units = append(units, true)
		default:
			for i := range utf16.Encode([]rune{r}) {
				units = append(units, i == 0)
			}
		}
	}
	if len(units) <= alone {
		return 1
	}
	fewest := make([]int, len(units)+1) // parts for the units from i on
	for i := len(units) - 1; i >= 0; i-- {
		if !units[i] {
			continue
		}
		fewest[i] = len(units)
		for end := i + 1; end <= min(i+part, len(units)); end++ {
			if end == len(units) || units[end] {
				fewest[i] = min(fewest[i], 1+fewest[end])
			}
		}
	}
	return fewest[0]
}

func TestSegmentsAgainstAPacker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Characters of one unit in bulk, so that edges are met, with odd ones strewn in.
		odd := rapid.SampledFrom([][]rune{[]rune("€[|a"), []rune("😀aя"), []rune("€😀ab`"), []rune("\u200d👩")}).Draw(t, "odd")
		var text strings.Builder
		for range rapid.IntRange(0, 8).Draw(t, "pieces") {
			text.WriteString(strings.Repeat(
				string(rapid.SampledFrom(odd).Draw(t, "bulk")), rapid.IntRange(0, 160).Draw(t, "length"),
			))
			text.WriteString(string(rapid.SliceOfN(rapid.SampledFrom(odd), 0, 5).Draw(t, "strewn")))
		}
		if n, encoding := Segments(text.String()); n != packed(text.String()) {
			t.Fatalf("%q: %d parts in %s, the packer has %d", text.String(), n, encoding, packed(text.String()))
		}
	})
}
