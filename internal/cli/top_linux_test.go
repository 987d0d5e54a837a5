package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/pty"
	"github.com/penstock/penstock/internal/test/transcript"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// What top writes when it begins to draw, and when it ends.
const (
	topEnters = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[H"
	topLeaves = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// seat is a person at a terminal, where a command runs.
type seat struct {
	t           *testing.T
	person, tty *os.File
	shown       transcript.Buffer
	ended       chan Exit
}

// atTerminal runs a command line on a terminal.
func atTerminal(t *testing.T, ctx context.Context, args ...string) *seat {
	t.Helper()
	s := &seat{t: t, ended: make(chan Exit, 1)}
	s.person, s.tty = pty.Open(t)
	before := pty.State(t, s.tty)
	go func() {
		_, _ = io.Copy(&s.shown, s.person) // until the terminal is closed
	}()
	go func() {
		code := Run(ctx, args, Streams{In: s.tty, Out: s.tty, Err: io.Discard})
		if after := pty.State(t, s.tty); after != before {
			t.Errorf("the terminal is left as %+v", after)
		}
		s.ended <- code
	}()
	return s
}

// frame returns what is on the screen.
func (s *seat) frame() string {
	text := s.shown.String()
	return text[strings.LastIndex(text, "\x1b[H")+1:]
}

// sees waits until the screen has a text.
func (s *seat) sees(text string) {
	s.t.Helper()
	defer func() {
		if s.t.Failed() {
			s.t.Logf("the screen:\n%q", s.frame())
		}
	}()
	await.Until(s.t, text, func() bool { return strings.Contains(s.frame(), text) })
}

func (s *seat) types(keys string) {
	s.t.Helper()
	if _, err := s.person.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// ends waits for the end of the command, after which the screen is as before.
func (s *seat) ends() {
	s.t.Helper()
	if code := <-s.ended; code != ExitDone {
		s.t.Errorf("exit %d", code)
	}
	await.Until(s.t, "the end", func() bool { return strings.HasSuffix(s.shown.String(), topLeaves) })
	if text := s.shown.String(); !strings.HasPrefix(text, topEnters) || strings.Count(text, "\x1b[?1049") != 2 {
		s.t.Errorf("%q", text)
	}
}

// twenty is a server with the queues q0 to q19. q7 is paused.
func twenty(t *testing.T) (url string) {
	t.Helper()
	url, store := ingressAndStore(t)
	for i := range 20 {
		if _, err := store.Put(
			t.Context(), queue.Spec{Name: fmt.Sprint("q", i), Rate: leaky.PerSecond(1)}, queue.AnyRevision,
		); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Append(t.Context(), []queue.Job{{Queue: "q7", ID: "a"}, {Queue: "q7", ID: "b"}}); err != nil {
		t.Fatal(err)
	}
	if err := store.Pause(t.Context(), "q7", queue.Pause{Reason: "lunch"}); err != nil {
		t.Fatal(err)
	}
	return url
}

// A terminal is drawn over, ends at a key, and is afterwards as it was.
func TestTopOnATerminal(t *testing.T) {
	url := twenty(t)
	t.Setenv("LC_ALL", "C")
	t.Setenv("NO_COLOR", "1")
	for _, key := range []string{"q", "\x03"} {
		s := atTerminal(t, t.Context(), "top", "--server", url, "--interval", "50ms")
		s.sees("1-7 of 20")
		s.sees("> q7") // in trouble
		await.Until(t, "a second picture", func() bool { return strings.Count(s.shown.String(), "1-7 of 20") > 1 })
		s.types("x" + key)
		s.ends()
		for frame := range strings.SplitSeq(strings.TrimSuffix(s.shown.String(), topLeaves), "\x1b[H") {
			if n := strings.Count(frame, "\n"); n > 11 {
				t.Errorf("key %q: a picture of %d lines would scroll: %q", key, n+1, frame)
			}
		}
	}
}

// Keys scroll, change the order, open a queue and go back.
func TestKeysOfTop(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	s := atTerminal(t, t.Context(), "top", "--server", twenty(t), "--interval", "50ms")
	s.sees("order: trouble")
	s.sees("\x1b[7;31m> q7 ")
	s.types("G")
	s.sees("14-20 of 20")
	s.sees("\x1b[7;33m> q9 ")
	s.types("k\x1b[A") // up, twice
	s.sees("\x1b[7;33m> q6 ")
	s.types("g")
	s.sees("1-7 of 20")
	s.types("s")
	s.sees("order: fullness")
	s.types("s")
	s.sees("order: name")
	s.sees("12-18 of 20") // the cursor has followed q7
	s.types("\x1b[5~")    // a page up
	s.sees("> q18 ")
	s.types("SSg\r")
	s.sees("\x1b[1mq7: paused: lunch")
	s.sees("2 \x1b[2m|")
	pty.Resize(t, s.tty, 80, 60)
	s.sees("2 jobs will not leave: they wait for the queue to be resumed")
	s.sees("rate ")
	s.sees("resume q7")
	pty.Resize(t, s.tty, 100, 12)
	s.sees("lines  Esc back  j k move")
	s.types("j")
	s.sees("2-9 of ")
	s.types("\x1b")
	s.sees("order: trouble")
	s.types("\r")
	s.sees("1-8 of ")
	s.types("q")
	s.sees("order: trouble")
	s.types("q")
	s.ends()
}

// A command that is interrupted leaves the terminal as it was.
func TestTopIsInterrupted(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	ctx, interrupt := context.WithCancel(t.Context())
	s := atTerminal(t, ctx, "top", "--server", twenty(t), "--interval", "50ms")
	s.sees("1-7 of 20")
	interrupt()
	s.ends()
}

// A forecast has a picture on a terminal.
func TestForecastOnATerminal(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	url := twenty(t)
	for _, tt := range []struct {
		args      []string
		want, not string
	}{
		{nil, "\x1b[34mupper line: arrivals\x1b[0m", "+ arrivals"},
		{[]string{"--no-color"}, "upper line: arrivals  lower line", "\x1b["},
		{[]string{"-o", "json"}, `"finish_at": null`, "arrivals"},
	} {
		s := atTerminal(t, t.Context(), append([]string{"queue", "forecast", "q7", "--server", url}, tt.args...)...)
		if code := <-s.ended; code != ExitDone {
			t.Errorf("%q: exit %d", tt.args, code)
		}
		await.Until(t, tt.want, func() bool { return strings.Contains(s.shown.String(), tt.want) })
		if text := s.shown.String(); strings.Contains(text, tt.not) {
			t.Errorf("%q: %q is in\n%s", tt.args, tt.not, text)
		}
	}
}
