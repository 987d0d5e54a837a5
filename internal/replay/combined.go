package replay

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/penstock/penstock/leaky"
)

// combined is the format of web servers: host ident user [time] "request" status bytes "referer" "user agent". Without
// the last two fields it is the common format. Further text in a line is ignored.
type combined struct {
	*clock
	asked  []int // the requested fields, in the order of their slots
	values [][]byte
}

// Fields of the combined format.
const (
	remoteAddr = iota
	user
	method
	path_
	query
	protocol
	status
	size
	referer
	userAgent
)

var combinedFields = map[string]int{
	"remote_addr": remoteAddr, "user": user, "method": method, "path": path_, "query": query, "protocol": protocol,
	"status": status,
	"bytes":  size, "header.referer": referer, "header.user-agent": userAgent,
}

func (c *combined) slot(field string) (int, error) {
	f, ok := combinedFields[strings.ToLower(field)]
	if !ok {
		return 0, fmt.Errorf(
			"{%s} is no field of a combined log: there are {remote_addr}, {user}, {method}, {path}, {query}, {protocol}, "+
				"{status}, {bytes}, {header.Referer} and {header.User-Agent}",
			field,
		)
	}
	for i, known := range c.asked {
		if known == f {
			return i, nil
		}
	}
	c.asked, c.values = append(c.asked, f), append(c.values, nil)
	return len(c.asked) - 1, nil
}

var errCombined = errors.New(`is not as HOST IDENT USER [TIME] "REQUEST" STATUS BYTES`)

func (c *combined) parse(line []byte) (leaky.Instant, [][]byte, error) {
	s, ok := splitCombined(line)
	if !ok {
		return 0, nil, errCombined
	}
	at, err := c.readCombined(s.time)
	if err != nil {
		return 0, nil, err
	}
	for i, f := range c.asked {
		c.values[i] = s.value(f)
	}
	return at, c.values, nil
}

// split is a line of the combined format, parsed as far as the requested fields need.
type split struct{ host, user, time, request, status, rest []byte }

func splitCombined(line []byte) (s split, ok bool) {
	i := bytes.IndexByte(line, ' ')
	if i <= 0 {
		return s, false
	}
	s.host = line[:i]
	line = line[i+1:]
	// A user name may contain spaces, so search for the time instead of the third word.
	if i = bytes.IndexByte(line, '['); i < 4 || line[i-1] != ' ' {
		return s, false
	}
	ident := bytes.IndexByte(line, ' ')
	if ident < 0 || ident+1 > i-1 {
		return s, false
	}
	s.user = line[ident+1 : i-1]
	line = line[i+1:]
	if i = bytes.IndexByte(line, ']'); i < 0 {
		return s, false
	}
	s.time = line[:i]
	line = line[i+1:]
	if len(line) < 2 || line[0] != ' ' || line[1] != '"' {
		return s, false
	}
	if s.request, line, ok = quoted(line[2:]); !ok {
		return s, false
	}
	if len(line) < 4 || line[0] != ' ' || len(line) > 4 && line[4] != ' ' {
		return s, false
	}
	s.status, s.rest = line[1:4], line[4:]
	_, ok = digits(s.status)
	return s, ok
}

// quoted cuts the text before the closing quote, which is the first without a backslash.
func quoted(b []byte) (text, rest []byte, ok bool) {
	for from := 0; ; {
		i := bytes.IndexByte(b[from:], '"')
		if i < 0 {
			return nil, nil, false
		}
		i += from
		escapes := 0
		for escapes < i && b[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return b[:i], b[i+1:], true
		}
		from = i + 1
	}
}

// value returns a field as written; it is nil for a dash, which stands for a missing value.
func (s *split) value(field int) (v []byte) {
	switch field {
	case remoteAddr:
		v = s.host
	case user:
		v = s.user
	case status:
		v = s.status
	case size:
		v, _, _ = bytes.Cut(bytes.TrimPrefix(s.rest, []byte{' '}), []byte{' '})
	case referer, userAgent:
		v = s.header(field)
	default:
		v = s.ofRequest(field)
	}
	if len(v) == 1 && v[0] == '-' {
		return nil
	}
	return v
}

func (s *split) header(field int) []byte {
	i := bytes.IndexByte(s.rest, '"')
	if i < 0 {
		return nil
	}
	text, rest, ok := quoted(s.rest[i+1:])
	if !ok || field == referer {
		return text
	}
	if i = bytes.IndexByte(rest, '"'); i < 0 {
		return nil
	}
	text, _, _ = quoted(rest[i+1:])
	return text
}

// ofRequest returns a field of the request line, such as GET /search?q=x HTTP/1.1. An invalid request line has no
// fields.
func (s *split) ofRequest(field int) []byte {
	verb, rest, ok := bytes.Cut(s.request, []byte{' '})
	if !ok {
		return nil
	}
	target, version, _ := bytes.Cut(rest, []byte{' '})
	switch field {
	case method:
		return verb
	case protocol:
		return version
	}
	target, behind, _ := bytes.Cut(target, []byte{'?'})
	if field == query {
		return behind
	}
	return target
}
