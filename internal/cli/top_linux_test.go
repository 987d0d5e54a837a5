package cli

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/penstock/penstock/internal/test/pty"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// A terminal is drawn over, ends at a key, and is afterwards as it was.
func TestTopOnATerminal(t *testing.T) {
	url, store := ingressAndStore(t)
	for i := range 20 {
		if _, err := store.Put(
			t.Context(), queue.Spec{Name: fmt.Sprint("q", i), Rate: leaky.PerSecond(1)}, queue.AnyRevision,
		); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"q", "\x03"} {
		person, tty := pty.Open(t)
		before, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan Exit)
		go func() {
			code := Run(
				t.Context(), []string{"top", "--server", url, "--interval", "50ms"}, Streams{In: tty, Out: tty, Err: io.Discard},
			)
			after, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
			if err != nil || *after != *before {
				t.Errorf("key %q: the terminal is left as %+v, %v", key, after, err)
			}
			_, _ = tty.WriteString("THE END")
			ended <- code
		}()
		shown, pressed := "", false
		for buf := make([]byte, 4096); !strings.Contains(shown, "THE END"); {
			n, err := person.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			shown += string(buf[:n])
			if !pressed && strings.Count(shown, "and 13 more") >= 2 {
				pressed = true
				if _, err := person.WriteString("x" + key); err != nil {
					t.Fatal(err)
				}
			}
		}
		if code := <-ended; code != ExitDone {
			t.Errorf("key %q: exit %d", key, code)
		}
		if !strings.HasPrefix(shown, "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[H") ||
			!strings.HasSuffix(shown, "\x1b[?7h\x1b[?25h\x1b[?1049lTHE END") {
			t.Errorf("key %q: %q", key, shown)
		}
		for frame := range strings.SplitSeq(strings.TrimSuffix(shown, "\x1b[?7h\x1b[?25h\x1b[?1049lTHE END"), "\x1b[H") {
			if n := strings.Count(frame, "\n"); n > 11 {
				t.Errorf("key %q: a picture of %d lines would scroll: %q", key, n+1, frame)
			}
		}
	}
}
