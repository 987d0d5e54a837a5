package api

import (
	"bufio"
	"errors"
	"io"
)

// readAhead is the buffer in which a stream's lines are found. Longer ones are put together, and charged.
const readAhead = 64 << 10

// lines reads a stream line by line and holds no more than one of them, of at
// most limit bytes.
type lines struct {
	r      *bufio.Reader
	limit  int
	charge *charge
	long   []byte // a line that did not fit the reader's buffer
}

func newLines(r io.Reader, limit int, c *charge) *lines {
	return &lines{r: bufio.NewReaderSize(r, readAhead), limit: limit, charge: c}
}

// next returns the next line without its end, until the next call. It is refused
// when it is longer than the limit, or when there is no memory for it; it was skipped then. A last line without an
// end counts only when the stream ended properly: err is io.EOF after the last
// line, anything else when the stream broke off.
func (l *lines) next() (line []byte, refused *Problem, err error) {
	l.let()
	for {
		part, err := l.r.ReadSlice('\n')
		switch {
		case refused != nil:
		case len(l.long)+len(part) > l.limit+1:
			refused = tooLarge("", "the line", int64(l.limit))
			l.let()
		case err == nil && len(l.long) == 0:
			return part[:len(part)-1], nil, nil
		default:
			if refused = l.keep(part); refused != nil {
				l.let()
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
				refused = tooLarge("", "the line", int64(l.limit))
			}
			return l.long, refused, nil // the next call answers io.EOF
		default:
			return nil, nil, err
		}
	}
}

// keep adds a part to the line that is put together.
func (l *lines) keep(part []byte) *Problem {
	if need := len(l.long) + len(part); need > cap(l.long) {
		size := min(max(2*cap(l.long), need, readAhead), l.limit+1)
		if p := l.charge.grow(size); p != nil {
			return p
		}
		l.long = append(make([]byte, 0, size), l.long...)
	}
	l.long = append(l.long, part...)
	return nil
}

// let gives up the line that was put together.
func (l *lines) let() {
	l.long = nil
	l.charge.free()
}
