package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/internal/jsondepth"
	"github.com/penstock/penstock/leaky"
)

// ndjson is one JSON object a line. JSON pointers (RFC 6901) name its fields.
type ndjson struct {
	*clock
	time   int // the slot of the time
	wanted node
	slots  map[string]int
	in     jsontext.Decoder
	buffer bytes.Buffer
	text   []byte   // the values of a line
	found  [][2]int // the position of each value in text
	values [][]byte
}

// node is the requested part of a value: itself, members, or both.
type node struct {
	slot int // -1 for none
	in   map[string]*node
}

// timeNames are the usual names of the time, tried unless --time is given.
var timeNames = []string{"time", "timestamp", "@timestamp", "ts", "date", "at"}

func newNDJSON(c *clock, timeField string, first []byte) (*ndjson, error) {
	n := &ndjson{clock: c, wanted: node{slot: -1}, slots: map[string]int{}}
	if timeField == "" {
		for _, name := range timeNames {
			probe := &ndjson{clock: c, wanted: node{slot: -1}, slots: map[string]int{}}
			if _, err := probe.slot("/" + name); err != nil {
				return nil, err
			}
			if err := probe.read(first); err == nil && probe.values[0] != nil {
				timeField = "/" + name
				break
			}
		}
	}
	if timeField == "" {
		return nil, fmt.Errorf(
			"its first line has none of the fields %v, so --time must say which is the time, such as /when", timeNames,
		)
	}
	var err error
	n.time, err = n.slot(timeField)
	return n, err
}

func (n *ndjson) slot(field string) (int, error) {
	pointer := jsontext.Pointer(field)
	if field == "" || !pointer.IsValid() {
		return 0, fmt.Errorf("{%s} is no JSON pointer, such as /user/id", field)
	}
	if slot, ok := n.slots[field]; ok {
		return slot, nil
	}
	at := &n.wanted
	for token := range pointer.Tokens() {
		if at.in == nil {
			at.in = map[string]*node{}
		}
		if at.in[token] == nil {
			at.in[token] = &node{slot: -1}
		}
		at = at.in[token]
	}
	slot := len(n.values)
	at.slot, n.slots[field] = slot, slot
	n.values, n.found = append(n.values, nil), append(n.found, [2]int{})
	return slot, nil
}

func (n *ndjson) parse(line []byte) (leaky.Instant, [][]byte, error) {
	if err := n.read(line); err != nil {
		return 0, nil, fmt.Errorf("is not one JSON object: %w", err)
	}
	at, err := n.clock.read(n.values[n.time])
	return at, n.values, err
}

var (
	errNoObject = errors.New("it is another value")
	errBehind   = errors.New("text follows it")
)

// read reads the values of a line.
func (n *ndjson) read(line []byte) error {
	if err := jsondepth.Check(line, jsondepth.Max); err != nil {
		return err
	}
	n.text = n.text[:0]
	n.buffer = *bytes.NewBuffer(line)
	n.in.Reset(&n.buffer, jsontext.AllowDuplicateNames(true))
	if n.in.PeekKind() != '{' {
		if _, err := n.in.ReadValue(); err != nil {
			return err
		}
		return errNoObject
	}
	if err := n.walk(&n.wanted); err != nil {
		return err
	}
	if _, err := n.in.ReadToken(); err == nil {
		return errBehind
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	for i, at := range n.found {
		n.values[i] = nil
		if at[1] > at[0] {
			n.values[i] = n.text[at[0]:at[1]]
		}
	}
	return nil
}

// walk reads the next value and its requested parts. If a name occurs twice, the last value counts, and none of the
// first is kept, as in most readers.
func (n *ndjson) walk(want *node) error {
	if want != nil {
		n.forget(want)
	}
	kind := n.in.PeekKind()
	if want == nil || want.in == nil && (kind == '{' || kind == '[') {
		return n.in.SkipValue()
	}
	switch kind {
	case '{':
		return n.object(want)
	case '[':
		return n.list(want)
	}
	token, err := n.in.ReadToken()
	if err != nil || want.slot < 0 || kind == 'n' {
		return err
	}
	begin := len(n.text)
	n.text = append(n.text, token.String()...)
	n.found[want.slot] = [2]int{begin, len(n.text)}
	return nil
}

func (n *ndjson) forget(want *node) {
	if want.slot >= 0 {
		n.found[want.slot] = [2]int{}
	}
	for _, in := range want.in {
		n.forget(in)
	}
}

func (n *ndjson) object(want *node) error {
	if _, err := n.in.ReadToken(); err != nil {
		return err
	}
	for n.in.PeekKind() != '}' {
		name, err := n.in.ReadToken()
		if err != nil {
			return err
		}
		if err := n.walk(want.in[name.String()]); err != nil {
			return err
		}
	}
	_, err := n.in.ReadToken()
	return err
}

func (n *ndjson) list(want *node) error {
	if _, err := n.in.ReadToken(); err != nil {
		return err
	}
	for i := 0; n.in.PeekKind() != ']'; i++ {
		if err := n.walk(want.in[strconv.Itoa(i)]); err != nil {
			return err
		}
	}
	_, err := n.in.ReadToken()
	return err
}
