package queuecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// TopCmd is penstock top.
type TopCmd struct {
	command.Connection
	Sort string `enum:"trouble,fullness,name,size,in,out,refused,deferred,lost,delay,finish" default:"trouble"`

	Interval time.Duration `help:"Time between two refreshes." default:"2s"`
	Once     bool          `help:"Print the figures of one interval and exit."`
	Rows     int           `default:"0" placeholder:"N"`
	command.Output
	command.Colors
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
	return `Columns: FILL is the size relative to the capacity; DELAY is how long a job appended now would wait, and
FINISH when the last job leaves, if no more are added: "~" marks an estimate. IN/S counts accepted jobs,
including readmitted and replayed jobs; OUT/S departures over the last 10 to 20 s; REFUSED/S jobs without
room; DEFERRED/S newly deferred jobs, and DEFERRED all jobs on the overflow. LOST/S counts departures that
no drainer used in time: drainers are late, or too few. Rates are measured between two refreshes; a dash
means not yet known. A narrow terminal drops RATE first, then DEFERRED, DEFERRED/S, LOST/S, REFUSED/S, FILL,
IN/S, OUT/S, FINISH and DELAY.

The queues in trouble come first: red is wrong, yellow a warning, as in "What needs attention?" of the
console. Keys: Enter opens a queue, with its problems, its forecast and its settings; Esc and q go back; j
and k, the arrows and the page keys move; s and S change the order; q and Ctrl-C quit. If the output is no
terminal, it prints one table after another.

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
	if err := c.see(r.Ctx, api, now); err != nil {
		return err // the URL may be wrong
	}
	if c.Once {
		return c.once(r, api, now)
	}
	if _, ok := r.Screen(c.Colors); ok && !c.JSON() {
		return newTopScreen(c, r, api, now).run(r.Ctx)
	}
	return c.watch(r, api, now)
}

// once prints one picture: the second, since rates need two.
func (c *TopCmd) once(r *command.Run, api *client.Client, now *picture) error {
	if err := wait(r.Ctx, c.Interval); err != nil {
		return err
	}
	if err := c.see(r.Ctx, api, now); err != nil {
		return err
	}
	return c.print(r, now, command.PrintJSON)
}

// watch prints one picture after another. While the server cannot be reached it says so and tries again.
func (c *TopCmd) watch(r *command.Run, api *client.Client, now *picture) error {
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	for {
		if err := c.print(r, now, command.PrintLine); err != nil {
			return err
		}
		if !c.JSON() {
			if _, err := fmt.Fprintln(r.Out); err != nil {
				return err
			}
		}
		select {
		case <-r.Ctx.Done():
			return nil // the user quit
		case <-tick.C:
		}
		if err := c.see(r.Ctx, api, now); errors.Is(err, context.Canceled) {
			return nil
		}
	}
}

func (c *TopCmd) print(r *command.Run, now *picture, asJSON func(w io.Writer, v any) error) error {
	if c.JSON() {
		return asJSON(r.Out, now)
	}
	s, _ := r.Screen(c.Colors)
	_, err := io.WriteString(r.Out, now.text(&s, c.Rows))
	return err
}

// see reads the queues into a picture. If that fails, the picture keeps the earlier figures and shows the error.
func (c *TopCmd) see(ctx context.Context, api *client.Client, now *picture) error {
	v := c.look(ctx, api)
	v.show(now)
	return v.err
}

// seen is what one refresh read.
type seen struct {
	queues   []wire.Queue
	drainers wire.Drainers
	rows     []wire.QueueRow
	at       time.Time
	err      error
}

// look reads the queues.
func (c *TopCmd) look(ctx context.Context, api *client.Client) (v seen) {
	ctx, cancel := context.WithTimeout(ctx, max(lookTimeout, c.Interval))
	defer cancel()
	v.queues, v.err = api.Queues(ctx)
	if v.err == nil {
		v.drainers, v.err = api.Drainers(ctx)
	}
	if v.err == nil {
		v.rows, v.err = api.Rows(ctx)
	}
	v.at = time.Now()
	return v
}

func (v *seen) show(now *picture) {
	if v.err != nil {
		now.failed(v.err)
		return
	}
	now.Drainers = v.drainers
	now.see(v.queues, v.rows, v.at)
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
