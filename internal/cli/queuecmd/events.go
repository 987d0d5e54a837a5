package queuecmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// AllEventsCmd is penstock events.
type AllEventsCmd struct {
	command.Connection
	command.Output
}

// Help implements kong.HelpProvider.
func (AllEventsCmd) Help() string {
	return `Prints one line per event until Ctrl-C: a queue is created, changed, paused, resumed, stopped by its
receiver, full, deleted, or stopped for another reason. It reconnects if the stream breaks.

Examples:
  penstock events
  penstock events -o json | jq -r 'select(.event == "stopped") | .data.queue'`
}

// Run runs the command.
func (c *AllEventsCmd) Run(r *command.Run, api *client.Client) error {
	return follow(r, api, "", c.Output, false)
}

type eventsCmd struct {
	Name    string `arg:"" help:"Name of the queue."`
	Figures bool   `help:"Also print the rates of jobs in, out and refused, every second in which they change."`
	command.Output
}

func (eventsCmd) Help() string {
	return `Like "penstock events", for one queue.

Examples:
  penstock queue events email
  penstock queue events email --figures -o json | jq '.data.queues[0].size'`
}

func (c *eventsCmd) Run(r *command.Run, api *client.Client) error {
	return follow(r, api, c.Name, c.Output, c.Figures)
}

// follow prints the events of a queue, or of all queues, until Ctrl-C.
func follow(r *command.Run, api *client.Client, name string, o command.Output, figures bool) error {
	each := func(e *client.Event) error {
		switch {
		case e.Kind == "info" && !figures:
			return nil
		case o.JSON():
			return command.PrintLine(r.Out, e)
		}
		text, err := eventText(e)
		if err == nil {
			_, err = fmt.Fprint(r.Out, text)
		}
		return err
	}
	err := api.FollowOn(r.Ctx, name, each, func(err error) { r.Say("penstock: %v", err) })
	if errors.Is(err, context.Canceled) {
		return nil // Ctrl-C
	}
	return err
}

// eventText returns an event as a line, or as a line per queue.
func eventText(e *client.Event) (string, error) {
	switch e.Kind {
	case "reset":
		rows, err := e.Rows()
		if err != nil {
			return "", err
		}
		return eventLine(rows.AsOf, "follows", show.Count(int64(len(rows.Queues)), "queue")), nil
	case "info":
		rows, err := e.Rows()
		var text strings.Builder
		for n := range rows.Queues {
			text.WriteString(eventLine(rows.AsOf, "info", figuresText(&rows.Queues[n])))
		}
		return text.String(), err
	}
	of, err := e.Of()
	if err != nil {
		return "", err
	}
	text := show.Text(of.Queue)
	if of.Row != nil {
		text += "  " + statusText(&of.Row.Status)
	}
	return eventLine(of.At, of.Kind, text), nil
}

func eventLine(at time.Time, kind, text string) string {
	return fmt.Sprintf("%s  %-9s  %s\n", at.Local().Format(time.TimeOnly), show.Text(kind), text)
}

func figuresText(q *wire.QueueRow) string {
	return fmt.Sprintf("%s  %d/%d  in %.1f/s  out %.1f/s  refused %.1f/s  outflow %.1f/s",
		show.Text(q.Name), q.Size, q.Capacity, q.In, q.Out, q.Refused, q.Outflow)
}
