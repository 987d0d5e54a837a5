package pointer

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is the maximum nesting of a body.
const maxDepth = 256

// maxKeyBytes is the maximum length, as written, of a name that a pointer may have: each character may be escaped.
const maxKeyBytes = 6*MaxBytes + 2

// MaxNumberBytes is the number of bytes that are kept of a number.
const MaxNumberBytes = 32

// Scanner reads one JSON value in any number of parts, and notes the values to which pointers lead. It keeps no part of
// the text but names and numbers on the way of a pointer.
type Scanner struct {
	paths []Pointer
	found []Found // by pointer

	state   state
	word    string // the rest of true, false or null
	hex     int    // hexadecimal digits to come
	begun   bool   // more than white space was read
	stack   []level
	hits    uint64 // paths that lead to the current value or below
	key     []byte // the current name, as written; only in objects on a path
	isKey   bool   // the current string is a name
	keeping bool   // the current name may be on a path
	ends    uint64 // paths that end at the current number
	number  []byte // the current number, if a path ends there
}

// level is an object or array that is open.
type level struct {
	object bool
	index  int64  // of the current value of an array
	alive  uint64 // paths that lead here
}

// Found is the value to which a pointer leads. null counts as no value.
type Found struct {
	Times  int    // more than 1 if an object has a name more than once
	Number string // as written, at most MaxNumberBytes and one; empty if the value is not a number
}

type state uint8

const (
	atValue     state = iota // before a value
	atFirst                  // before the first value of an array, or its end
	atFirstName              // before the first name of an object, or its end
	atName                   // before a name
	atColon                  // after a name
	afterValue               // after a value
	inString                 // in a string or name
	inEscape                 // after a backslash
	inHex                    // in \u0000
	inWord                   // in true, false or null
	inMinus                  // after -
	inZero                   // after a leading 0
	inDigits                 // in the integer part
	inPoint                  // after .
	inFraction               // in the digits after .
	inE                      // after e
	inSign                   // after the sign of an exponent
	inExponent               // in the digits of an exponent
	notJSON
)

// NewScanner returns a Scanner that notes the values to which up to 64 pointers lead.
func NewScanner(pointers []Pointer) *Scanner {
	return &Scanner{paths: pointers, found: make([]Found, len(pointers))}
}

// Found returns what was found at a pointer, by its index.
func (s *Scanner) Found(i int) Found { return s.found[i] }

// Begun reports whether the text has more than white space.
func (s *Scanner) Begun() bool { return s.begun }

// Failed reports whether the text is not the beginning of a JSON value.
func (s *Scanner) Failed() bool { return s.state == notJSON }

// End ends the text, and reports whether it is one JSON value. Found then has all numbers.
func (s *Scanner) End() bool {
	s.Write([]byte{' '}) // ends a number
	return s.Complete()
}

// Reset prepares for another value.
func (s *Scanner) Reset() {
	clear(s.found)
	s.state, s.stack, s.hits, s.begun = atValue, s.stack[:0], 0, false
}

// Write reads the next part of the text.
func (s *Scanner) Write(text []byte) {
	for i := 0; i < len(text) && s.state != notJSON; i++ {
		if s.state == inString && !(s.isKey && s.keeping) { // most of a body is text
			for i < len(text)-1 && text[i] != '"' && text[i] != '\\' && text[i] >= ' ' {
				i++
			}
		}
		s.step(text[i])
	}
}

// Complete reports whether the text so far is a JSON value, after which only white space may come.
func (s *Scanner) Complete() bool {
	if len(s.stack) > 0 {
		return false
	}
	switch s.state {
	case afterValue, inZero, inDigits, inFraction, inExponent:
		return true
	}
	return false
}

func (s *Scanner) step(c byte) {
	switch s.state {
	case inString, inEscape, inHex:
		s.inText(c)
		return
	case inWord:
		if c != s.word[0] {
			s.state = notJSON
		} else if s.word = s.word[1:]; s.word == "" {
			s.state = afterValue
		}
		return
	case inMinus, inZero, inDigits, inPoint, inFraction, inE, inSign, inExponent:
		if s.inNumber(c) {
			return
		}
	}
	if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
		return
	}
	s.begun = true
	switch {
	case s.state == atFirst && c == ']', s.state == atFirstName && c == '}':
		s.close()
	case s.state == atValue, s.state == atFirst:
		s.value(c)
	case (s.state == atName || s.state == atFirstName) && c == '"':
		s.state, s.isKey = inString, true
		s.keeping = s.top().alive != 0
		if s.key = s.key[:0]; s.keeping {
			s.key = append(s.key, c)
		}
	case s.state == atColon && c == ':':
		s.state = atValue
	case s.state == afterValue:
		s.after(c)
	default:
		s.state = notJSON
	}
}

func (s *Scanner) top() *level { return &s.stack[len(s.stack)-1] }

// after reads what follows a value.
func (s *Scanner) after(c byte) {
	if len(s.stack) == 0 {
		s.state = notJSON
		return
	}
	switch l := s.top(); {
	case l.object && c == '}', !l.object && c == ']':
		s.close()
	case l.object && c == ',':
		s.state = atName
	case c == ',':
		l.index++
		s.state = atValue
	default:
		s.state = notJSON
	}
}

func (s *Scanner) close() {
	s.stack = s.stack[:len(s.stack)-1]
	s.state = afterValue
}

// value reads the first character of a value.
func (s *Scanner) value(c byte) {
	s.ends = 0
	if len(s.stack) > 0 {
		if l := s.top(); !l.object {
			if s.hits = 0; l.alive != 0 {
				s.hits = s.leading(l.alive, strconv.FormatInt(l.index, 10))
			}
		}
		s.ends = s.ending()
	}
	switch c {
	case '{', '[':
		s.note(Found{})
		alive := s.hits &^ s.ends
		if len(s.stack) == 0 {
			alive = 1<<len(s.paths) - 1
		}
		if len(s.stack) == maxDepth {
			s.state = notJSON
			return
		}
		s.stack = append(s.stack, level{object: c == '{', alive: alive})
		if s.state = atFirst; c == '{' {
			s.state = atFirstName
		}
	case '"':
		s.note(Found{})
		s.state, s.isKey = inString, false
	case 't':
		s.note(Found{})
		s.state, s.word = inWord, "true"[1:]
	case 'f':
		s.note(Found{})
		s.state, s.word = inWord, "false"[1:]
	case 'n': // as if it were not there: OpenAI's events have null where others have the usage
		s.state, s.word = inWord, "null"[1:]
	default:
		s.number = append(s.number[:0], c)
		switch {
		case c == '-':
			s.state = inMinus
		case c == '0':
			s.state = inZero
		case c >= '1' && c <= '9':
			s.state = inDigits
		default:
			s.state = notJSON
		}
	}
}

// leading returns the paths of alive that lead to the value with a name in the innermost level.
func (s *Scanner) leading(alive uint64, name string) (hits uint64) {
	depth := len(s.stack) - 1
	for i, p := range s.paths {
		if alive&(1<<i) != 0 && p[depth] == name {
			hits |= 1 << i
		}
	}
	return hits
}

// ending returns the paths that end at the current value.
func (s *Scanner) ending() (ends uint64) {
	for i, p := range s.paths {
		if s.hits&(1<<i) != 0 && len(p) == len(s.stack) {
			ends |= 1 << i
		}
	}
	return ends
}

// note notes what is where paths end.
func (s *Scanner) note(f Found) {
	for i := range s.found {
		if s.ends&(1<<i) == 0 {
			continue
		}
		f.Times = s.found[i].Times + 1
		s.found[i] = f
	}
}

// inText reads a character of a string.
func (s *Scanner) inText(c byte) {
	if s.isKey && s.keeping {
		if s.key = append(s.key, c); len(s.key) > maxKeyBytes {
			s.keeping = false
		}
	}
	switch {
	case s.state == inEscape:
		switch c {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			s.state = inString
		case 'u':
			s.state, s.hex = inHex, 4
		default:
			s.state = notJSON
		}
	case s.state == inHex:
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
			s.state = notJSON
		} else if s.hex--; s.hex == 0 {
			s.state = inString
		}
	case c == '\\':
		s.state = inEscape
	case c < ' ':
		s.state = notJSON
	case c == '"' && s.isKey:
		s.named()
	case c == '"':
		s.state = afterValue
	}
}

// named ends a name.
func (s *Scanner) named() {
	s.state, s.hits = atColon, 0
	if !s.keeping {
		return
	}
	if name, err := jsontext.AppendUnquote(nil, s.key); err == nil {
		s.hits = s.leading(s.top().alive, string(name))
	}
}

// inNumber reads a character of a number, or ends the number and returns false.
func (s *Scanner) inNumber(c byte) bool {
	digit := c >= '0' && c <= '9'
	next := notJSON
	switch s.state {
	case inMinus:
		if c == '0' {
			next = inZero
		} else if digit {
			next = inDigits
		}
	case inZero, inDigits:
		switch {
		case digit && s.state == inDigits:
			next = inDigits
		case c == '.':
			next = inPoint
		case c == 'e', c == 'E':
			next = inE
		default:
			return s.numbered()
		}
	case inPoint, inFraction:
		switch {
		case digit:
			next = inFraction
		case s.state == inPoint:
		case c == 'e', c == 'E':
			next = inE
		default:
			return s.numbered()
		}
	case inE, inSign, inExponent:
		switch {
		case digit:
			next = inExponent
		case s.state == inE && (c == '+' || c == '-'):
			next = inSign
		case s.state == inExponent:
			return s.numbered()
		}
	}
	if s.state = next; len(s.number) <= MaxNumberBytes {
		s.number = append(s.number, c)
	}
	return true
}

// numbered ends a number. It returns false: the character behind it is yet to be read.
func (s *Scanner) numbered() bool {
	s.state = afterValue
	if s.ends != 0 {
		s.note(Found{Number: string(s.number)})
	}
	return false
}
