package push

import (
	"fmt"
	"io"
)

// maxRecord is the maximum length of a CSV record in bytes: room for a payload of 1 MiB with many doubled quotes.
// encoding/csv has no limit of its own.
const maxRecord = 3 << 19

// recordLimit is a reader that fails when a record is too long.
type recordLimit struct {
	from io.Reader
	left int
}

// next starts a record. Bytes that were read ahead are counted twice.
func (r *recordLimit) next() { r.left = maxRecord }

func (r *recordLimit) Read(b []byte) (int, error) {
	if r.left <= 0 {
		return 0, fmt.Errorf("a record is longer than %d bytes; is a quote missing?", maxRecord)
	}
	n, err := r.from.Read(b[:min(len(b), r.left)])
	r.left -= n
	return n, err
}
