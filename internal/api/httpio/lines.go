package httpio

import (
	"bufio"
	"errors"
	"io"
)

// readAhead is the size of the buffer in which lines are found. Longer lines are assembled elsewhere, and charged.
const readAhead = 64 << 10

// Lines reads a stream line by line. It holds one line at a time, of at most limit bytes.
type Lines struct {
	r      *bufio.Reader
	limit  int
	charge *Charge
	long   []byte // a line that did not fit the reader's buffer
}

// NewLines returns a reader of the lines of r. Long lines are charged to c.
func NewLines(r io.Reader, limit int, c *Charge) *Lines {
	return &Lines{r: bufio.NewReaderSize(r, readAhead), limit: limit, charge: c}
}

// Next returns the next line without its end. The line is valid until the next call.
//
// A line that is longer than the limit, or for which there is no memory, is skipped and refused. An unterminated last
// line counts only if the stream ended properly. err is io.EOF after the last line, and another error if the stream
// broke off.
func (l *Lines) Next() (line []byte, refused *Problem, err error) {
	l.Release()
	for {
		part, err := l.r.ReadSlice('\n')
		switch {
		case refused != nil:
		case len(l.long)+len(part) > l.limit+1:
			refused = TooLarge("", "the line", int64(l.limit))
			l.Release()
		case err == nil && len(l.long) == 0:
			return part[:len(part)-1], nil, nil
		default:
			if refused = l.keep(part); refused != nil {
				l.Release()
			}
		}
		switch {
		case err == nil:
			if refused != nil {
				return nil, refused, nil
			}
			return l.long[:len(l.long)-1], nil, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && (refused != nil || len(l.long) > 0):
			if len(l.long) > l.limit {
				refused = TooLarge("", "the line", int64(l.limit))
			}
			return l.long, refused, nil // the next call returns io.EOF
		default:
			return nil, nil, err
		}
	}
}

// keep adds a part to the long line.
func (l *Lines) keep(part []byte) *Problem {
	if need := len(l.long) + len(part); need > cap(l.long) {
		size := min(max(2*cap(l.long), need, readAhead), l.limit+1)
		if p := l.charge.Grow(size); p != nil {
			return p
		}
		l.long = append(make([]byte, 0, size), l.long...)
	}
	l.long = append(l.long, part...)
	return nil
}

// Release frees the memory of a long line.
func (l *Lines) Release() {
	l.long = nil
	l.charge.Free()
}
