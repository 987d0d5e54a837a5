package queuecmd

// key is a key that was pressed: one of the names below, or the character itself.
type key string

// The keys with names.
const (
	keyUp     key = "up"
	keyDown   key = "down"
	keyPageUp key = "page up"
	keyPageDn key = "page down"
	keyHome   key = "home"
	keyEnd    key = "end"
	keyEnter  key = "enter"
	keyEscape key = "escape"
	keyCtrlC  key = "ctrl-c"
)

// sequences are what terminals send for keys, after the escape character.
var sequences = map[string]key{
	"[A": keyUp, "OA": keyUp, "[B": keyDown, "OB": keyDown, "[5~": keyPageUp, "[6~": keyPageDn,
	"[H": keyHome, "OH": keyHome, "[1~": keyHome, "[7~": keyHome,
	"[F": keyEnd, "OF": keyEnd, "[4~": keyEnd, "[8~": keyEnd,
}

// maxSequence is the maximum length of a sequence; longer ones come from no key.
const maxSequence = 16

// keyReader turns what a terminal sends into keys.
type keyReader struct {
	// rest is the beginning of a sequence, or the escape key. Only time tells which.
	rest string
}

// read returns the keys of a text, which may end within a sequence. Unknown sequences are dropped.
func (r *keyReader) read(text string) (keys []key) {
	text = r.rest + text
	r.rest = ""
	for text != "" {
		if text[0] != '\x1b' {
			keys = append(keys, plainKey(text[0])...)
			text = text[1:]
			continue
		}
		n := sequence(text[1:])
		switch {
		case n < 0:
			r.rest = text
			return keys
		case n == 0: // the escape key, and another key after it
			keys = append(keys, keyEscape)
		default:
			if k, known := sequences[text[1:1+n]]; known {
				keys = append(keys, k)
			}
		}
		text = text[1+n:]
	}
	return keys
}

// late returns the keys if nothing follows for a while: an incomplete sequence is the escape key.
func (r *keyReader) late() (keys []key) {
	if r.rest != "" {
		keys = []key{keyEscape}
	}
	r.rest = ""
	return keys
}

// sequence returns the length of a sequence at the start of a text, without its escape character. Without a sequence
// it returns 0, and -1 if the sequence is incomplete.
func sequence(text string) int {
	if text == "" {
		return -1
	}
	switch text[0] {
	case '[':
		for n := 1; n < min(len(text), maxSequence); n++ {
			if text[n] >= 0x40 && text[n] <= 0x7e {
				return n + 1
			}
		}
	case 'O':
		if len(text) > 1 {
			return 2
		}
	default:
		return 0
	}
	if len(text) >= maxSequence {
		return maxSequence
	}
	return -1
}

// plainKey returns the key of a byte, none for bytes of other characters than ASCII.
func plainKey(b byte) []key {
	switch {
	case b == 3:
		return []key{keyCtrlC}
	case b == '\r' || b == '\n':
		return []key{keyEnter}
	case b == 'j':
		return []key{keyDown}
	case b == 'k':
		return []key{keyUp}
	case b == ' ':
		return []key{keyPageDn}
	case b == 'b':
		return []key{keyPageUp}
	case b == 'g':
		return []key{keyHome}
	case b == 'G':
		return []key{keyEnd}
	case b > ' ' && b < 0x7f:
		return []key{key(rune(b))}
	}
	return nil
}
