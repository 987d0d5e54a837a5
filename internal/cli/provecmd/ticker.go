package provecmd

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
)

// ticker shows a line of a run's progress: in place on a terminal, elsewhere every few seconds.
type ticker struct {
	w      io.Writer
	run    time.Duration // how long the run takes
	width  int
	inline bool
	drawn  bool
	next   time.Duration
}

func newTicker(w io.Writer, run time.Duration) *ticker {
	width, ok := command.Width(w)
	return &ticker{w: w, run: run, width: width, inline: ok, next: command.LineInterval}
}

func (t *ticker) show(elapsed time.Duration, figures string) {
	line := fmt.Sprintf("%s of %s  %s", show.Duration(elapsed), show.Duration(t.run), figures)
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
