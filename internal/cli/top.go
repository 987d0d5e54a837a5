package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/penstock/penstock/internal/client"
)

type topCmd struct {
	connection
	Sort     string        `enum:"fullness,name,size,in,out,refused,deferred,lost" default:"fullness" placeholder:"COLUMN"`
	Interval time.Duration `help:"How often it looks." default:"2s"`
	Once     bool          `help:"Look twice, an interval apart, print one picture and end."`
	Rows     int           `default:"0" placeholder:"N"`
	output
}

// LongHelp is the help that is too long for the tags.
func (topCmd) LongHelp() map[string]string {
	return map[string]string{
		"sort": "By what: ${enum}. All but name put the greatest first.",
		"rows": "How many queues at most; 0 is as many as fit, or all where the output is no terminal.",
	}
}

// Help is shown below the flags.
func (topCmd) Help() string {
	return `Columns: FILL is size over capacity; IN/S the jobs that came into the queue, those that came back
from the overflow and replayed ones included; OUT/S the measured departures over the last 10 to 20 s;
REFUSED/S those for which there was no room; DEFERRED/S those put on the overflow, where
DEFERRED are now. LOST/S are departures that could have been and were not, because no drainer
came in time: drainers that are late, or too few. They are told by the difference of what the
server counted at two looks; a dash says that there is none yet.

q or Ctrl-C ends it. Where the output is no terminal one picture follows another.

Examples:
  penstock top
  penstock top --sort lost --interval 10s
  penstock top --once
  penstock top -o json | jq -c '.queues[] | select(.lost_per_s > 0) | .name'

With -o json there is one picture a line, of all queues.`
}

// lookTimeout is how long one look may take at least.
const lookTimeout = 5 * time.Second

func (c *topCmd) Run(r *run) error {
	if c.Interval < 50*time.Millisecond {
		return usage(fmt.Errorf("--interval %v: must be at least 50ms", c.Interval))
	}
	if c.Rows < 0 {
		return usage(fmt.Errorf("--rows %d: must be 0 or more", c.Rows))
	}
	api, err := r.client()
	if err != nil {
		return err
	}
	now := &picture{Server: r.shown(), sort: c.Sort}
	if err := c.look(r.ctx, api, now); err != nil {
		return err // one that was never there may be a mistyped URL
	}
	if c.Once {
		return c.once(r, api, now)
	}
	return c.watch(r, api, now)
}

// once prints what the second look shows.
func (c *topCmd) once(r *run, api *client.Client, now *picture) error {
	if err := wait(r.ctx, c.Interval); err != nil {
		return err
	}
	if err := c.look(r.ctx, api, now); err != nil {
		return err
	}
	if c.json() {
		return printJSON(r.Out, now)
	}
	width, _, _ := screenSize(r.Out)
	_, err := io.WriteString(r.Out, now.text(width, c.Rows))
	return err
}

// watch draws until somebody ends it. A server that is gone for a while is said to be, and
// asked again.
func (c *topCmd) watch(r *run, api *client.Client, now *picture) error {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	draw := c.plainly(r)
	if _, _, ok := screenSize(r.Out); ok && !c.json() {
		leave, err := enter(r, cancel)
		if err != nil {
			return err
		}
		defer leave()
		draw = c.onScreen(r)
	}
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	for {
		if err := draw(now); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // this is how it ends
		case <-tick.C:
		}
		if err := c.look(ctx, api, now); errors.Is(err, context.Canceled) {
			return nil
		}
	}
}

// look asks for the queues. If that fails, what was seen before stays, and now says why.
func (c *topCmd) look(ctx context.Context, api *client.Client, now *picture) error {
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

// plainly prints one picture after the other.
func (c *topCmd) plainly(r *run) func(*picture) error {
	return func(now *picture) error {
		if !c.json() {
			_, err := fmt.Fprintln(r.Out, now.text(0, c.Rows))
			return err
		}
		return printLine(r.Out, now)
	}
}

// onScreen draws each picture over the one before.
func (c *topCmd) onScreen(r *run) func(*picture) error {
	return func(now *picture) error {
		width, height, _ := screenSize(r.Out) // it may have been changed
		rows := max(1, height-otherLines)
		if c.Rows > 0 {
			rows = min(rows, c.Rows)
		}
		_, err := io.WriteString(r.Out, overdraw(now.text(width, rows)))
		return err
	}
}

// enter takes the terminal: its other screen, without a cursor and without wrapping long
// lines, and its keys, if standard input is one. Ctrl-C is then a key as well.
func enter(r *run, end func()) (leave func(), err error) {
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

// keys waits for the one that ends it. A read of a terminal cannot be called off: after
// another ending this goes when the process does.
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
