package client

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
)

// parseLine decodes a line. It reads lines of accepted jobs itself, in the form that the server writes, because a JSON
// decoder would take most of the time of a stream.
func parseLine(text []byte, l *Line) error {
	s := lineScanner{bytes.TrimSpace(text), true}
	eta := ETA{}
	l.Line, l.Status = int(s.number(`{"line":`)), int(s.number(`,"status":`))
	l.ID, l.State = s.text(`,"id":"`), State(s.text(`,"state":"`))
	if s.starts(`,"position":`) {
		l.Position = s.number(`,"position":`)
	}
	if s.starts(`,"eta":`) {
		at, err := time.Parse(time.RFC3339Nano, s.text(`,"eta":{"at":"`))
		eta.At, eta.Exact = at, s.starts(`,"exact":true}`)
		l.ETA = &eta
		s.ok = s.ok && err == nil && (s.skip(`,"exact":true}`) || s.skip(`,"exact":false}`))
	}
	if s.ok && string(s.rest) == "}" {
		return nil
	}
	*l = Line{}
	return json.Unmarshal(text, l)
}

type lineScanner struct {
	rest []byte
	ok   bool
}

func (s *lineScanner) starts(prefix string) bool { return bytes.HasPrefix(s.rest, []byte(prefix)) }

func (s *lineScanner) skip(prefix string) bool {
	found := s.starts(prefix)
	if found {
		s.rest = s.rest[len(prefix):]
	}
	return found
}

// number reads a number of digits behind a prefix.
func (s *lineScanner) number(prefix string) int64 {
	s.ok = s.ok && s.skip(prefix)
	n := 0
	for n < len(s.rest) && '0' <= s.rest[n] && s.rest[n] <= '9' {
		n++
	}
	v, err := strconv.ParseInt(string(s.rest[:n]), 10, 64)
	s.ok, s.rest = s.ok && err == nil, s.rest[n:]
	return v
}

// text reads a string without escapes behind a prefix that ends with its quote.
func (s *lineScanner) text(prefix string) string {
	s.ok = s.ok && s.skip(prefix)
	n := bytes.IndexAny(s.rest, `"\`)
	if n < 0 || s.rest[n] != '"' {
		s.ok = false
		return ""
	}
	text := string(s.rest[:n])
	s.rest = s.rest[n+1:]
	return text
}
