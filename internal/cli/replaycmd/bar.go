package replaycmd

import (
	"io"

	"github.com/penstock/penstock/internal/cli/command"
)

// readBar shows how much of some files is read.
type readBar struct {
	*command.Progress
	total int64 // -1 if unknown
	read  int64
}

func newReadBar(w io.Writer) *readBar {
	return &readBar{Progress: command.NewProgress(w, "reading", command.Bytes, -1)}
}

// watch returns a reader of in that advances the bar. size is the size of in, -1 if unknown.
func (b *readBar) watch(in io.Reader, size int64) io.Reader {
	if size < 0 || b.total < 0 {
		b.total = -1
	} else {
		b.total += size
	}
	b.SetTotal(b.total)
	return &watched{in, b}
}

type watched struct {
	in  io.Reader
	bar *readBar
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.in.Read(p)
	w.bar.read += int64(n)
	w.bar.Show(w.bar.read)
	return n, err
}
