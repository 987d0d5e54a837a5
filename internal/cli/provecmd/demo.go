package provecmd

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
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/demo"
	"github.com/penstock/penstock/internal/cli/embedded"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/ops"
)

// DemoCmd is penstock demo.
type DemoCmd struct {
	Verbose bool `help:"Show the logs of ingress and drainer." short:"v"`
	command.Output
}

// Help implements kong.HelpProvider.
func (DemoCmd) Help() string {
	return fmt.Sprintf(`Starts ingress and drainer with an embedded store in a temporary directory, and a receiver, all on
loopback. Nothing else is needed. Four producers send the example messages over HTTP at %s to a queue
with a capacity of %d and a rate of %s. Without room, codes and password resets are refused and sent
again after Retry-After; newsletters and receipts are deferred onto the overflow and readmitted later.
It takes less than 30 s.

Exit code 0 means that every message was accepted and delivered exactly once, all deferred messages
were readmitted, and the starts at the receiver kept the window law: at most ceil((W + slack + delta)/T)
in any window W, with T = %v, slack %v, and delta %v for the way to the receiver.`,
		demo.Offered, demo.Capacity, demo.Outflow, demo.Outflow.Interval(), demo.Slack, demo.Delta)
}

// mayWait are the prefixes of the example messages that may wait.
var mayWait = []string{"newsletter-", "welcome-", "receipt-", "shipped-"}

// Run runs the command.
func (c *DemoCmd) Run(r *command.Run) error {
	dir, err := os.MkdirTemp("", "penstock-demo-")
	if err != nil {
		return fmt.Errorf("create a directory for the demo: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	log := slog.New(slog.DiscardHandler)
	if c.Verbose {
		log = command.Logger(r.Err, slog.LevelInfo)
	}
	guard, err := egress.New(egress.Loopback...) // for the receiver
	if err != nil {
		return err
	}
	url, stop, err := embedded.Start(r.Ctx, embedded.Options{
		Data: dir, Listen: ops.Listen{Addr: "127.0.0.1:0"}, Egress: guard, Log: log,
	})
	if err != nil {
		return err
	}
	api, err := client.New(url, nil)
	if err != nil {
		return errors.Join(err, stop())
	}
	s := newScreen(r.Err)
	if !c.JSON() {
		r.Say("a queue with a rate of %s and a capacity of %d; messages arrive at %s",
			demo.Outflow, demo.Capacity, demo.Offered)
	}
	report, err := demo.Run(r.Ctx, demo.Options{Client: api, Messages: examples.Messages, MayWait: mayWait, Watch: s.show})
	if stopErr := stop(); err == nil {
		err = stopErr
	}
	if err != nil {
		return err
	}
	return c.print(r, report)
}

func (c *DemoCmd) print(r *command.Run, d *demo.Report) error {
	if c.JSON() {
		return printReport(r, d, d.Held)
	}
	_, err := fmt.Fprintf(r.Out, "\nafter %s\n%s", show.Duration(d.Took), command.Facts(
		"  accepted", fmt.Sprintf("%d of %d messages", d.Accepted, d.Messages),
		"  refused", fmt.Sprintf("%d times with 429; all sent again after Retry-After", d.Refused),
		"  deferred", fmt.Sprintf("%d onto the overflow; %d readmitted", d.Deferred, d.Readmitted),
		"  delivered", fmt.Sprintf("%d, lost %d, duplicates %d", d.Delivered, d.Lost, d.Twice),
		"  most starts", fmt.Sprintf("%d in any 1 s; the law allows %d at %s", d.Law.Most, d.Law.Allowed, d.Rate),
		"  window law", lawText(d.Law.Held, d.Law.Needed, d.Law.Slack+d.Law.Delta),
	))
	if err != nil {
		return err
	}
	return verdict(r, d.Held, d.Broken)
}

// screen shows scenes: in place on a terminal, elsewhere one line per second.
type screen struct {
	w      io.Writer
	width  int
	inline bool
	drawn  bool
	next   time.Duration
}

func newScreen(w io.Writer) *screen {
	width, ok := command.Width(w)
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
	// Cut the lines: on a narrow terminal, wrapped lines would make the picture scroll.
	var b strings.Builder
	for line := range strings.Lines(scene.Draw(s.width)) {
		text := []rune(strings.TrimSuffix(line, "\n"))
		b.WriteString(string(text[:min(len(text), s.width-1)]) + "\x1b[K\n")
	}
	_, _ = fmt.Fprint(s.w, up+b.String())
}
