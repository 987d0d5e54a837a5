package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/penstock/penstock/leaky"
)

// Window is the maximum number of lines by which a line can be late in its log and still be sorted.
const Window = 32 << 10

// maxKeys is the maximum number of key templates in one replay.
const maxKeys = 4

// request is a line of a log, as the rules need it.
type request struct {
	at   leaky.Instant
	cost int32
	keys [maxKeys]uint32 // its key by each template, noKey if the line lacks it
}

const noKey = ^uint32(0)

// keyring numbers the keys of one template, in the order in which they are read.
type keyring struct {
	text    string
	usual   bool // whether it is the usual template of the format
	numbers map[string]uint32
	names   []string
	bytes   int64 // size of the names
}

// number returns the number of a key. Only a new key allocates.
func (k *keyring) number(key []byte) uint32 {
	n, ok := k.numbers[string(key)]
	if !ok {
		n = uint32(len(k.names))
		name := string(key)
		k.numbers[name], k.names = n, append(k.names, name)
		k.bytes += int64(len(name))
	}
	return n
}

// source reads one log in the order of its instants.
type source struct {
	name    string
	lines   *lines
	format  format
	keys    []template
	rings   []*keyring
	cost    int // the slot of the cost, -1 if every request costs 1
	faults  *faults
	scratch []byte
	check   func() error // see play.check

	requests []request
	sorted   int // the number of sorted ones among them
	next     int
	ended    bool
}

func openSource(log Log, rings []*keyring, o *Options, f *faults) (*source, error) {
	in, err := openLines(log.In, o.Limits)
	if err != nil {
		return nil, err
	}
	s := &source{name: log.Name, lines: in, rings: rings, cost: -1, faults: f}
	first := in.sample()
	if len(first) == 0 {
		s.ended = true // it is empty
		return s, nil
	}
	if s.format, err = o.open(log.Name, in, first); err != nil {
		return nil, err
	}
	for _, ring := range rings {
		if _, ok := s.format.(*combined); ok && ring.usual {
			ring.text = "remote_addr"
		}
		keys, err := parseTemplate(ring.text)
		if err != nil {
			return nil, err
		}
		for i := range keys {
			if keys[i].field == "" {
				continue
			}
			if keys[i].slot, err = s.format.slot(keys[i].field); err != nil {
				return nil, err
			}
		}
		s.keys = append(s.keys, keys)
	}
	if o.Cost != "" {
		if s.cost, err = s.format.slot(o.Cost); err != nil {
			return nil, fmt.Errorf("--cost: %w", err)
		}
	}
	return s, nil
}

// open makes the format of a log.
func (o *Options) open(name string, in *lines, first []byte) (format, error) {
	c, err := newClock(o.TimeFormat, o.Zone)
	if err != nil {
		return nil, err
	}
	kind := o.Format
	if kind == "" {
		if kind, err = detect(name, first); err != nil {
			return nil, err
		}
	}
	switch kind {
	case Combined:
		if o.Time != "" || o.TimeFormat != "" {
			return nil, errors.New("--time and --time-format are for ndjson and csv; a combined log has its own time")
		}
		return &combined{clock: c}, nil
	case NDJSON:
		return newNDJSON(c, o.Time, first)
	case CSV:
		f, err := newCSV(c, o.Time, first)
		if err != nil {
			return nil, err
		}
		return f, in.pass()
	}
	return nil, fmt.Errorf("--format %q: must be combined, ndjson or csv", kind)
}

// more reports whether there is a request, reading on if needed.
func (s *source) more() (bool, error) {
	for s.next >= s.sorted {
		if s.ended && s.next >= len(s.requests) {
			return false, nil
		}
		if err := s.fill(); err != nil {
			return false, err
		}
	}
	return true, nil
}

// fill reads on until the first request is in its place, or the log ends.
func (s *source) fill() error {
	s.requests = append(s.requests[:0], s.requests[s.next:]...)
	s.next = 0
	for n := 0; len(s.requests) < 2*Window && !s.ended; n++ {
		if n%checkEvery == 0 {
			if err := s.check(); err != nil {
				return err
			}
		}
		line, err := s.lines.next()
		switch {
		case errors.Is(err, io.EOF):
			s.ended = true
			continue
		case errors.Is(err, errLong):
			s.faults.broken(s.name, s.lines.number, err)
			continue
		case err != nil:
			return err
		case blank(line):
			continue
		}
		r, err := s.request(line)
		if err != nil {
			s.faults.broken(s.name, s.lines.number, err)
			continue
		}
		s.faults.read++
		s.requests = append(s.requests, r)
	}
	earlier := func(a, b request) int { return cmp.Compare(a.at, b.at) }
	if !slices.IsSortedFunc(s.requests, earlier) {
		slices.SortStableFunc(s.requests, earlier)
	}
	s.sorted = len(s.requests)
	if !s.ended {
		s.sorted -= Window
	}
	return s.check()
}

func blank(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' {
			return false
		}
	}
	return true
}

// request parses a line. A line without any of the keys is useless, and reported.
func (s *source) request(line []byte) (r request, err error) {
	at, values, err := s.format.parse(line)
	if err != nil {
		return r, err
	}
	r.at, r.cost = at, 1
	if s.cost >= 0 {
		cost, err := strconv.ParseInt(string(values[s.cost]), 10, 64)
		if err != nil || cost < 1 || cost > leaky.MaxLimit {
			return r, fmt.Errorf(
				"has the cost %.40q, which is not a whole number from 1 to %d", values[s.cost], int64(leaky.MaxLimit),
			)
		}
		r.cost = int32(cost)
	}
	for i, t := range s.keys {
		key, err := t.expand(s.scratch, values)
		if !t.verbatim() {
			s.scratch = key[:0]
		}
		if err != nil {
			r.keys[i] = noKey
			s.faults.unkeyed(i, s.name, s.lines.number, err)
			continue
		}
		r.keys[i] = s.rings[i].number(key)
	}
	return r, nil
}

// faults counts the unusable lines and keeps the first few.
type faults struct {
	read, brokenLines int64
	withoutKey        [maxKeys]int64
	first, firstKey   []Fault
}

// maxFaults is the maximum number of faults kept.
const maxFaults = 5

// Fault is an unusable line.
type Fault struct {
	Log  string `json:"log"`
	Line int    `json:"line"`
	Why  string `json:"why"`
}

func (f *faults) broken(log string, line int, why error) {
	f.brokenLines++
	if len(f.first) < maxFaults {
		f.first = append(f.first, Fault{log, line, why.Error()})
	}
}

func (f *faults) unkeyed(key int, log string, line int, why error) {
	f.withoutKey[key]++
	if len(f.firstKey) < maxFaults {
		f.firstKey = append(f.firstKey, Fault{log, line, why.Error()})
	}
}
