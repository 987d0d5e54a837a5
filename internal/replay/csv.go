package replay

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/leaky"
)

// maxColumns is how many columns a table has at most.
const maxColumns = 4096

// csv has the names of its columns in its first line. A record is a line: a quoted value does not go on in the next
// one.
type csv struct {
	*clock
	comma   byte
	time    int // the column of the time
	columns []string
	values  [][]byte // no more of them than there are columns
	text    []byte   // of quoted values that have quotes in them
}

func newCSV(c *clock, timeField string, header []byte) (*csv, error) {
	f := &csv{clock: c, comma: separator(header)}
	n, err := f.split(header, maxColumns)
	if err == nil && n > maxColumns {
		err = fmt.Errorf("names %d columns; at most %d are read", n, maxColumns)
	}
	if err != nil {
		return nil, fmt.Errorf("its first line, which should name the columns, %w", err)
	}
	for _, v := range f.values {
		f.columns = append(f.columns, string(bytes.TrimSpace(v)))
	}
	if timeField != "" {
		f.time, err = f.slot(timeField)
		return f, err
	}
	for _, name := range timeNames {
		if f.time = slices.Index(f.columns, name); f.time >= 0 {
			return f, nil
		}
	}
	return nil, fmt.Errorf(
		"none of its columns is called %v, so --time must say which is the time; they are %s", timeNames, f.names(),
	)
}

// separator is what a line is most likely separated by.
func separator(line []byte) byte {
	best, most := byte(','), 0
	for _, c := range []byte(",;\t") {
		if n := bytes.Count(line, []byte{c}); n > most {
			best, most = c, n
		}
	}
	return best
}

func (f *csv) names() string {
	return cut(strings.Join(f.columns, ", "), 300)
}

func (f *csv) slot(field string) (int, error) {
	i := slices.Index(f.columns, field)
	if i < 0 {
		return 0, fmt.Errorf("{%s} is none of its columns, which are %s", field, f.names())
	}
	return i, nil
}

func (f *csv) parse(line []byte) (leaky.Instant, [][]byte, error) {
	n, err := f.split(line, len(f.columns))
	if err != nil {
		return 0, nil, err
	}
	if n != len(f.columns) {
		return 0, nil, fmt.Errorf("has %d values for %d columns", n, len(f.columns))
	}
	at, err := f.clock.read(f.values[f.time])
	return at, f.values, err
}

var (
	errQuote  = errors.New("has a quoted value that does not end in it")
	errBeyond = errors.New("has text behind a quoted value")
)

// split takes a line apart into the values, of which it keeps the first most, and returns how many there are.
func (f *csv) split(line []byte, most int) (n int, err error) {
	f.values, f.text = f.values[:0], f.text[:0]
	for {
		n++
		if len(line) > 0 && line[0] == '"' {
			v, rest, err := f.quoted(line[1:])
			if err != nil {
				return n, err
			}
			f.keep(v, most)
			if len(rest) == 0 {
				return n, nil
			}
			if rest[0] != f.comma {
				return n, errBeyond
			}
			line = rest[1:]
			continue
		}
		v, rest, more := bytes.Cut(line, []byte{f.comma})
		f.keep(v, most)
		if !more {
			return n, nil
		}
		line = rest
	}
}

func (f *csv) keep(v []byte, most int) {
	if len(f.values) < most {
		f.values = append(f.values, v)
	}
}

// quoted reads up to the closing quote; two are one that is meant.
func (f *csv) quoted(b []byte) (v, rest []byte, err error) {
	from := len(f.text)
	for {
		i := bytes.IndexByte(b, '"')
		if i < 0 {
			return nil, nil, errQuote
		}
		if i+1 < len(b) && b[i+1] == '"' {
			f.text = append(f.text, b[:i+1]...)
			b = b[i+2:]
			continue
		}
		if len(f.text) == from {
			return b[:i], b[i+1:], nil
		}
		f.text = append(f.text, b[:i]...)
		return f.text[from:], b[i+1:], nil
	}
}
