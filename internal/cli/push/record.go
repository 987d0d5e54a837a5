package push

import (
	"fmt"
	"io"
)

// maxRecord is the longest record of a CSV file, its quotes and commas included: room for a payload of 1 MiB in which
// many quotes are doubled. encoding/csv itself reads a quoted value to its end, however far that is.
const maxRecord = 3 << 19

// recordLimit ends a reader that goes on for longer than a record may be.
type recordLimit struct {
	from io.Reader
	left int
}

// next lets one more record be read. What was read ahead of it counts for it again.
func (r *recordLimit) next() { r.left = maxRecord }

func (r *recordLimit) Read(b []byte) (int, error) {
	if r.left <= 0 {
		return 0, fmt.Errorf("a record is longer than %d bytes; is a quote left open?", maxRecord)
	}
	n, err := r.from.Read(b[:min(len(b), r.left)])
	r.left -= n
	return n, err
}
