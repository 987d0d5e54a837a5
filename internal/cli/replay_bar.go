package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
)

// readBar shows how much of some files is read: a bar on a terminal, a line now and then elsewhere.
type readBar struct {
	w             io.Writer
	bar           *progressbar.ProgressBar // nil when w is no terminal
	total         int64                    // -1 if it is not known
	read          int64
	started, next time.Time // next is that of the next plain line
}

func newReadBar(w io.Writer) *readBar {
	b := &readBar{w: w, started: time.Now()}
	b.next = b.started.Add(plainEvery)
	if _, ok := terminal(w); ok {
		b.bar = progressbar.NewOptions64(-1,
			progressbar.OptionSetWriter(w),
			progressbar.OptionSetDescription("reading"),
			progressbar.OptionShowBytes(true),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionUseANSICodes(true),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionFullWidth(),
		)
	}
	return b
}

// watch returns what reads in and tells the bar.
func (b *readBar) watch(in io.Reader, size int64) io.Reader {
	if size < 0 || b.total < 0 {
		b.total = -1
	} else {
		b.total += size
	}
	if b.bar != nil {
		b.bar.ChangeMax64(b.total)
	}
	return &watched{in, b}
}

func (b *readBar) add(n int) {
	b.read += int64(n)
	if b.bar != nil {
		_ = b.bar.Set64(b.read) // it fails only when drawing does
		return
	}
	now := time.Now()
	if now.Before(b.next) {
		return
	}
	b.next = now.Add(plainEvery)
	rate := float64(b.read) / now.Sub(b.started).Seconds()
	line := fmt.Sprintf("read %s, %s/s", humanize.Bytes(uint64(b.read)), humanize.Bytes(uint64(rate)))
	if b.total > 0 && rate > 0 {
		left := time.Duration(float64(b.total-b.read) / rate * float64(time.Second))
		line = fmt.Sprintf(
			"read %s of %s, %s/s, about %s left", humanize.Bytes(uint64(b.read)), humanize.Bytes(uint64(b.total)),
			humanize.Bytes(uint64(rate)), short(max(0, left)),
		)
	}
	_, _ = fmt.Fprintln(b.w, line)
}

func (b *readBar) end() {
	if b.bar != nil {
		_ = b.bar.Clear()
	}
}

type watched struct {
	in  io.Reader
	bar *readBar
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.in.Read(p)
	w.bar.add(n)
	return n, err
}
