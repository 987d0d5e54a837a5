package provecmd

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
)

// ticker shows a line of progress: in place on a terminal, elsewhere every few seconds.
type ticker struct {
	w      io.Writer
	width  int
	inline bool
	drawn  bool
	next   time.Duration
}

func newTicker(w io.Writer) *ticker {
	width, ok := command.Width(w)
	return &ticker{w: w, width: width, inline: ok, next: command.LineInterval}
}

func (t *ticker) show(elapsed time.Duration, line string) {
	switch {
	case t.inline:
		t.drawn = true
		text := []rune(line)
		_, _ = fmt.Fprintf(t.w, "\r%s\x1b[K", string(text[:min(len(text), t.width-1)]))
	case elapsed >= t.next:
		t.next += command.LineInterval
		_, _ = fmt.Fprintln(t.w, strings.TrimSpace(line))
	}
}

func (t *ticker) end() {
	if t.drawn {
		_, _ = fmt.Fprint(t.w, "\r\x1b[K")
	}
}
