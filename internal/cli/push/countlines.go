package push

import (
	"bytes"
	"errors"
	"io"
)

// CountLines estimates the number of jobs in a file, for showing progress. It is exact unless CSV has unbalanced
// quotes.
func CountLines(r io.Reader, format string) (int, error) {
	var (
		buf    = make([]byte, 256<<10)
		n      int
		filled bool // the present line is not blank
		quoted bool // inside CSV quotes
	)
	for {
		got, err := r.Read(buf)
		part := buf[:got]
		if format == CSV {
			for _, c := range part {
				switch {
				case c == '"':
					quoted, filled = !quoted, true
				case c == '\n' && !quoted:
					if filled {
						n++
					}
					filled = false
				case c != '\r':
					filled = true
				}
			}
		} else {
			for len(part) > 0 {
				at := bytes.IndexByte(part, '\n')
				if at < 0 {
					filled = filled || len(bytes.TrimSpace(part)) > 0
					break
				}
				if filled || len(bytes.TrimSpace(part[:at])) > 0 {
					n++
				}
				filled = false
				part = part[at+1:]
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	if filled {
		n++
	}
	if format == CSV && n > 0 {
		n-- // the header row
	}
	return n, nil
}
