package replay

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/leaky"
)

// maxColumns is the maximum number of columns.
const maxColumns = 4096

// csv has the names of its columns in its first line. Each line is a record: a quoted value cannot continue in the next
// line.
type csv struct {
	*clock
	comma   byte
	time    int // the column of the time
	columns []string
	values  [][]byte // at most as many as there are columns
	text    []byte   // buffer for quoted values that contain quotes
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

// separator returns the most likely separator of a line's values.
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
		return 0, fmt.Errorf("{%s} is not a column; the columns are %s", field, f.names())
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
	errBeyond = errors.New("has text after a quoted value")
)

// split splits a line into its values, keeps the first most of them, and returns their number.
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

// quoted reads up to the closing quote; a doubled quote stands for one.
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
