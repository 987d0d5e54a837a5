package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/examples"
	"github.com/penstock/penstock/internal/cli/demo"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/ops"
)

type demoCmd struct {
	Verbose bool `help:"Show what ingress and drainer log." short:"v"`
	output
}

// Help is shown below the flags.
func (demoCmd) Help() string {
	return fmt.Sprintf(`Starts ingress and drainer on the embedded engine in a directory that it removes
afterwards, and a receiver, all on loopback, where targets of its own may be (as with
penstock up --egress-allow 127.0.0.0/8,::1/128); nothing else is needed. Four producers
offer the example messages over HTTP at %s to a queue that holds %d and lets %s
out. Codes and password resets are refused when there is no room, and come back when
Retry-After says so; what may wait (newsletters, receipts) is deferred onto the overflow and
taken back from there. It ends by itself in less than 30 s.

Exit code 0 only if every message was accepted, each was delivered exactly once, all that
was deferred came back, and no window of any width saw more starts at the receiver than the window law allows:
ceil((W + slack + delta)/T) in any W, with T = %v, slack %v and delta %v, which
is for the way to the receiver.`,
		demo.Offered, demo.Capacity, demo.Outflow, demo.Outflow.Interval(), demo.Slack, demo.Delta)
}

// mayWait are the example messages that nobody is waiting for at the door.
var mayWait = []string{"newsletter-", "welcome-", "receipt-", "shipped-"}

func (c *demoCmd) Run(r *run) error {
	dir, err := os.MkdirTemp("", "penstock-demo-")
	if err != nil {
		return fmt.Errorf("make a directory for the demo: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	log := slog.New(slog.DiscardHandler)
	if c.Verbose {
		log = logger(r.Err, slog.LevelInfo)
	}
	guard, err := egress.New(egress.Loopback...) // where the receiver is
	if err != nil {
		return err
	}
	url, stop, err := startEmbedded(r.ctx, embeddedOptions{
		data: dir, listen: ops.Listen{Addr: "127.0.0.1:0"}, egress: guard, log: log,
	})
	if err != nil {
		return err
	}
	api, err := client.New(url, nil)
	if err != nil {
		return errors.Join(err, stop())
	}
	s := newScreen(r.Err)
	if !c.json() {
		r.say("%s out of a queue of %d; the messages are offered at %s", demo.Outflow, demo.Capacity, demo.Offered)
	}
	report, err := demo.Run(r.ctx, demo.Options{Client: api, Messages: examples.Messages, MayWait: mayWait, Watch: s.show})
	if stopErr := stop(); err == nil {
		err = stopErr
	}
	if err != nil {
		return err
	}
	return c.print(r, report)
}

func (c *demoCmd) print(r *run, d *demo.Report) error {
	if c.json() {
		if err := printJSON(r.Out, d); err != nil {
			return err
		}
		return heldOrNot(d.Held)
	}
	_, _ = fmt.Fprintf(r.Out, "\nafter %s\n", short(d.Took))
	err := facts(r.Out,
		"  accepted", fmt.Sprintf("%d of %d messages", d.Accepted, d.Messages),
		"  refused", fmt.Sprintf("%d times with 429; all of those came back when Retry-After said so", d.Refused),
		"  deferred", fmt.Sprintf("%d onto the overflow; %d came back", d.Deferred, d.Readmitted),
		"  delivered", fmt.Sprintf("%d, lost %d, duplicates %d", d.Delivered, d.Lost, d.Twice),
		"  most starts", fmt.Sprintf("%d in any 1 s; the law allows %d at %s", d.Law.Most, d.Law.Allowed, d.Rate),
		"  window law", lawLine(d.Law.Held, d.Law.Needed, d.Law.Slack+d.Law.Delta),
	)
	if err != nil {
		return err
	}
	return verdict(r, d.Held, d.Broken)
}

// lawLine tells of the window law over all windows.
func lawLine(held bool, needed, there time.Duration) string {
	word := "held in every window"
	if !held {
		word = "BROKEN"
	}
	return fmt.Sprintf("%s; it needed slack + delta of %v, there are %v", word, needed.Round(time.Microsecond), there)
}

// verdict prints whether all held, and what did not.
func verdict(r *run, held bool, broken []string) error {
	if held {
		_, err := fmt.Fprintln(r.Out, "held")
		return err
	}
	_, _ = fmt.Fprintln(r.Out, "DID NOT HOLD:")
	for _, b := range broken {
		_, _ = fmt.Fprintf(r.Out, "  %s\n", plain(b))
	}
	return heldOrNot(held)
}

func heldOrNot(held bool) error {
	if held {
		return nil
	}
	return told(ExitFailed)
}

// screen shows scenes: redrawn in place on a terminal, a line a second elsewhere.
type screen struct {
	w      io.Writer
	width  int
	inline bool
	drawn  bool
	next   time.Duration
}

func newScreen(w io.Writer) *screen {
	width, ok := terminal(w)
	return &screen{w: w, width: width, inline: ok}
}

func (s *screen) show(scene demo.Scene) {
	if !s.inline {
		if scene.Elapsed() >= s.next {
			s.next = scene.Elapsed().Truncate(time.Second) + time.Second
			_, _ = fmt.Fprintln(s.w, scene.Line())
		}
		return
	}
	up := ""
	if s.drawn {
		up = fmt.Sprintf("\x1b[%dA", demo.Height)
	}
	s.drawn = true
	// Lines are cut, or a narrow terminal would wrap them and the picture crawl.
	var b strings.Builder
	for line := range strings.Lines(scene.Draw(s.width)) {
		text := []rune(strings.TrimSuffix(line, "\n"))
		b.WriteString(string(text[:min(len(text), s.width-1)]) + "\x1b[K\n")
	}
	_, _ = fmt.Fprint(s.w, up+b.String())
}
