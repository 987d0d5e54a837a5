package queuecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/client"
)

// TopCmd is penstock top.
type TopCmd struct {
	command.Connection
	Sort     string        `enum:"fullness,name,size,in,out,refused,deferred,lost" default:"fullness" placeholder:"COLUMN"`
	Interval time.Duration `help:"Time between two refreshes." default:"2s"`
	Once     bool          `help:"Print the figures of one interval and exit."`
	Rows     int           `default:"0" placeholder:"N"`
	command.Output
}

// LongHelp returns the help texts that are too long for tags; see app.SetLongHelp.
func (TopCmd) LongHelp() map[string]string {
	return map[string]string{
		"sort": "Sort by ${enum}. The highest value comes first, except for name.",
		"rows": "Maximum number of queues; 0 shows all that fit on the terminal, or all queues elsewhere.",
	}
}

// Help implements kong.HelpProvider.
func (TopCmd) Help() string {
	return `Columns: FILL is the size relative to the capacity; IN/S counts accepted jobs, including readmitted and
replayed jobs; OUT/S departures over the last 10 to 20 s; REFUSED/S jobs without room; DEFERRED/S newly
deferred jobs, and DEFERRED all jobs on the overflow. LOST/S counts departures that no drainer used in
time: drainers are late, or too few. Rates are measured between two refreshes; a dash means not yet
known.

Press q or Ctrl-C to quit. If the output is no terminal, it prints one table after another.

Examples:
  penstock top
  penstock top --sort lost --interval 10s
  penstock top --once
  penstock top -o json | jq -c '.queues[] | select(.lost_per_s > 0) | .name'

With -o json it prints one line per refresh, with all queues.`
}

// lookTimeout is the minimum time that one refresh may take.
const lookTimeout = 5 * time.Second

// Run runs the command.
func (c *TopCmd) Run(r *command.Run) error {
	if c.Interval < 50*time.Millisecond {
		return command.Usage(fmt.Errorf("--interval %v: must be at least 50ms", c.Interval))
	}
	if c.Rows < 0 {
		return command.Usage(fmt.Errorf("--rows %d: must be 0 or more", c.Rows))
	}
	api, err := r.Client()
	if err != nil {
		return err
	}
	now := &picture{Server: r.ServerURL(), sort: c.Sort}
	if err := c.look(r.Ctx, api, now); err != nil {
		return err // the URL may be wrong
	}
	if c.Once {
		return c.once(r, api, now)
	}
	return c.watch(r, api, now)
}

// once prints one picture: the second, since rates need two.
func (c *TopCmd) once(r *command.Run, api *client.Client, now *picture) error {
	if err := wait(r.Ctx, c.Interval); err != nil {
		return err
	}
	if err := c.look(r.Ctx, api, now); err != nil {
		return err
	}
	if c.JSON() {
		return command.PrintJSON(r.Out, now)
	}
	width, _, _ := command.ScreenSize(r.Out)
	_, err := io.WriteString(r.Out, now.text(width, c.Rows))
	return err
}

// watch draws until the user quits. While the server cannot be reached it says so and tries again.
func (c *TopCmd) watch(r *command.Run, api *client.Client, now *picture) error {
	ctx, cancel := context.WithCancel(r.Ctx)
	defer cancel()
	draw := c.printer(r)
	if _, _, ok := command.ScreenSize(r.Out); ok && !c.JSON() {
		leave, err := enter(r, cancel)
		if err != nil {
			return err
		}
		defer leave()
		draw = c.drawer(r)
	}
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	for {
		if err := draw(now); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // the user quit
		case <-tick.C:
		}
		if err := c.look(ctx, api, now); errors.Is(err, context.Canceled) {
			return nil
		}
	}
}

// look reads the queues. If that fails, the picture keeps the earlier figures and shows the error.
func (c *TopCmd) look(ctx context.Context, api *client.Client, now *picture) error {
	ctx, cancel := context.WithTimeout(ctx, max(lookTimeout, c.Interval))
	defer cancel()
	queues, err := api.Queues(ctx)
	if err == nil {
		now.Drainers, err = api.Drainers(ctx)
	}
	if err != nil {
		now.failed(err)
		return err
	}
	now.see(queues, time.Now())
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// printer prints one picture after another.
func (c *TopCmd) printer(r *command.Run) func(*picture) error {
	return func(now *picture) error {
		if !c.JSON() {
			_, err := fmt.Fprintln(r.Out, now.text(0, c.Rows))
			return err
		}
		return command.PrintLine(r.Out, now)
	}
}

// drawer draws each picture over the one before.
func (c *TopCmd) drawer(r *command.Run) func(*picture) error {
	return func(now *picture) error {
		width, height, _ := command.ScreenSize(r.Out) // its size may have changed
		rows := max(1, height-otherLines)
		if c.Rows > 0 {
			rows = min(rows, c.Rows)
		}
		_, err := io.WriteString(r.Out, overdraw(now.text(width, rows)))
		return err
	}
}

// enter switches the terminal to its alternate screen, without a cursor and without wrapping. If standard input is a
// terminal it also reads keys, Ctrl-C among them.
func enter(r *command.Run, end func()) (leave func(), err error) {
	restore := func() {}
	if in, ok := r.In.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		before, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return nil, fmt.Errorf("prepare the terminal: %w", err)
		}
		restore = func() { _ = term.Restore(int(in.Fd()), before) }
		go keys(in, end)
	}
	_, _ = io.WriteString(r.Out, "\x1b[?1049h\x1b[?25l\x1b[?7l")
	return func() {
		_, _ = io.WriteString(r.Out, "\x1b[?7h\x1b[?25h\x1b[?1049l")
		restore()
	}, nil
}

// keys waits for the key that quits. A read of a terminal cannot be canceled, so otherwise it ends with the process.
func keys(in io.Reader, end func()) {
	key := make([]byte, 1)
	for {
		if n, err := in.Read(key); n == 0 || err != nil {
			return
		}
		if key[0] == 'q' || key[0] == 'Q' || key[0] == 3 {
			end()
			return
		}
	}
}
