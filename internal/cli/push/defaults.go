package push

import (
	"encoding/json"
	"strconv"
	"time"
)

// Defaults are members for lines that lack them. They do not change ids: the same file with other defaults is the same
// jobs.
type Defaults struct {
	Lane      string    // empty is the lane of jobs without a key
	Batch     string    // empty is none
	Priority  int       // 0 is the lowest
	NotBefore time.Time // zero is now
	Overflow  string    // reject or defer; empty leaves it to the queue
	ExpiresAt time.Time // zero is never
}

// Of returns a source of the same lines with the defaults.
func (d Defaults) Of(src Source) Source {
	s := &filled{Source: src}
	if d.Lane != "" {
		s.add("lane", appendQuoted(nil, d.Lane))
	}
	if d.Batch != "" {
		s.add("batch", appendQuoted(nil, d.Batch))
	}
	if d.Priority != 0 {
		s.add("priority", strconv.AppendInt(nil, int64(d.Priority), 10))
	}
	if !d.NotBefore.IsZero() {
		s.add("not_before", instant(d.NotBefore))
	}
	if d.Overflow != "" {
		s.add("overflow", appendQuoted(nil, d.Overflow))
	}
	if !d.ExpiresAt.IsZero() {
		s.add("expires_at", instant(d.ExpiresAt))
	}
	if len(s.members) == 0 {
		return src
	}
	return s
}

func instant(t time.Time) []byte { return appendQuoted(nil, t.UTC().Format(time.RFC3339Nano)) }

// filled is a Source that adds members to lines.
type filled struct {
	Source
	members []member
}

// member is a member to add: "name":value, with a comma.
type member struct {
	name string
	text []byte
}

func (f *filled) add(name string, value []byte) {
	text := append(append(appendQuoted(nil, name), ':'), value...)
	f.members = append(f.members, member{name, append(text, ',')})
}

// Next implements Source. A valid line is an object with at least an id, so another member follows the added ones.
func (f *filled) Next() (Line, error) {
	line, err := f.Source.Next()
	if err != nil || line.Err != nil {
		return line, err
	}
	given := map[string]bool{}
	if line.Err = members(line.Body, func(name string, _ json.RawMessage) { given[name] = true }); line.Err != nil {
		return line, nil
	}
	body := []byte{'{'}
	for _, m := range f.members {
		if !given[m.name] {
			body = append(body, m.text...)
		}
	}
	line.Body = append(body, line.Body[1:]...)
	return line, nil
}
