package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/penstock/penstock/queue"
)

// Multiplied is a file of one queue, q000000, with so many like it.
func Multiplied(t testing.TB, file []byte, n int) []byte {
	t.Helper()
	lines := bytes.SplitAfter(bytes.TrimSuffix(file, []byte("\n")), []byte("\n"))
	l, err := decode(lines[len(lines)-1])
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	out.Write(lines[0])
	for i := range n {
		for _, text := range lines[1 : len(lines)-1] {
			out.Write(bytes.ReplaceAll(text, []byte("q000000"), fmt.Appendf(nil, "q%06d", i)))
		}
	}
	sum := sha256.Sum256(out.Bytes())
	trailer := *l.Trailer
	for state := queue.Waiting; state <= queue.Expired; state++ {
		if jobs := trailer.Jobs.of(state); jobs != nil {
			*jobs *= int64(n)
		}
	}
	trailer.Queues, trailer.Lines, trailer.SHA256 = int64(n), int64(1+n*(len(lines)-2)), hex.EncodeToString(sum[:])
	text, err := (&line{Trailer: &trailer}).encode()
	if err != nil {
		t.Fatal(err)
	}
	return append(out.Bytes(), text...)
}
