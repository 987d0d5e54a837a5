package api

import (
	"bufio"
	"errors"
	"io"
)

// lines reads a stream line by line and holds no more than one of them, of at
// most limit bytes.
type lines struct {
	r     *bufio.Reader
	limit int
	long  []byte // a line that did not fit the reader's buffer
}

func newLines(r io.Reader, limit int) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// next returns the next line without its end, until the next call. Over is true
// when it was longer than the limit; it was skipped then. A last line without an
// end counts only when the stream ended properly: err is io.EOF after the last
// line, anything else when the stream broke off.
func (l *lines) next() (line []byte, over bool, err error) {
	if cap(l.long) > 256<<10 {
		l.long = nil
	}
	l.long = l.long[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		switch {
		case over:
		case len(l.long)+len(part) > l.limit+1:
			over, l.long = true, l.long[:0]
		case err == nil && len(l.long) == 0:
			return part[:len(part)-1], false, nil
		default:
			l.long = append(l.long, part...)
		}
		switch {
		case err == nil:
			if over {
				return nil, true, nil
			}
			return l.long[:len(l.long)-1], false, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && (over || len(l.long) > 0):
			if len(l.long) > l.limit {
				over, l.long = true, l.long[:0]
			}
			return l.long, over, nil // the next call answers io.EOF
		default:
			return nil, false, err
		}
	}
}
