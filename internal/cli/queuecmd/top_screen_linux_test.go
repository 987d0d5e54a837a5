package queuecmd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/pty"
	"github.com/penstock/penstock/internal/test/transcript"
)

// A panic, also of a reading, leaves the terminal as it was.
func TestTopPanics(t *testing.T) {
	for _, where := range []string{"reading", "drawing"} {
		person, tty := pty.Open(t)
		var shown transcript.Buffer
		go func() {
			buf := make([]byte, 4096)
			for n, err := person.Read(buf); err == nil; n, err = person.Read(buf) {
				_, _ = shown.Write(buf[:n])
			}
		}()
		before := pty.State(t, tty)
		r := &command.Run{Streams: command.Streams{In: tty, Out: tty}, Ctx: t.Context()}
		screen := newTopScreen(&TopCmd{Interval: 50 * time.Millisecond}, r, nil, &picture{})
		screen.look = func(context.Context) seen {
			if where == "reading" {
				panic("a defect in reading")
			}
			return seen{at: time.Now()}
		}
		if where == "drawing" {
			screen.found <- func() { panic("a defect in drawing") }
		}
		cause := func() (cause any) {
			defer func() { cause = recover() }()
			_ = screen.run(t.Context())
			return nil
		}()
		if !strings.Contains(fmt.Sprint(cause), "a defect in "+where) {
			t.Errorf("%s: the panic is %v", where, cause)
		}
		if after := pty.State(t, tty); after != before {
			t.Errorf("%s: the terminal is left as %+v", where, after)
		}
		await.Until(t, "the end", func() bool { return strings.HasSuffix(shown.String(), "\x1b[?7h\x1b[?25h\x1b[?1049l") })
	}
}
