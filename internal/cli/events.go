package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type eventsCmd struct {
	connection
	output
}

// Help is shown below the flags.
func (eventsCmd) Help() string {
	return `A line for each thing that happens to a queue, until Ctrl-C: it is made, changed, paused, resumed, stopped by
its receiver, full, deleted, or stands still for another reason. Where the stream is broken off it goes on.

Examples:
  penstock events
  penstock events -o json | jq -r 'select(.event == "stopped") | .data.queue'`
}

func (c *eventsCmd) Run(r *run) error { return followEvents(r, "", c.output, false) }

type queueEventsCmd struct {
	Name    string `arg:"" help:"Name of the queue."`
	Figures bool   `help:"Tell also how much comes in, leaves and is refused, each second in which that changes."`
	output
}

// Help is shown below the flags.
func (queueEventsCmd) Help() string {
	return `As "penstock events", for one queue.

Examples:
  penstock queue events email
  penstock queue events email --figures -o json | jq '.data.queues[0].size'`
}

func (c *queueEventsCmd) Run(r *run) error { return followEvents(r, c.Name, c.output, c.Figures) }

// followEvents prints what happens to a queue, or to all, until Ctrl-C.
func followEvents(r *run, name string, o output, figures bool) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	show := func(e *client.Event) error {
		switch {
		case e.Kind == "info" && !figures:
			return nil
		case o.json():
			return printLine(r.Out, e)
		}
		text, err := eventText(e)
		if err == nil {
			_, err = fmt.Fprint(r.Out, text)
		}
		return err
	}
	err = api.FollowOn(r.ctx, name, show, func(err error) { r.say("penstock: %v", err) })
	if errors.Is(err, context.Canceled) {
		return nil // Ctrl-C is how it ends
	}
	return err
}

// eventText is an event in a line, and a line for each queue of several.
func eventText(e *client.Event) (string, error) {
	switch e.Kind {
	case "reset":
		rows, err := e.Rows()
		if err != nil {
			return "", err
		}
		queues := "1 queue"
		if n := len(rows.Queues); n != 1 {
			queues = fmt.Sprintf("%d queues", n)
		}
		return eventLine(rows.AsOf, "follows", queues), nil
	case "info":
		rows, err := e.Rows()
		text := ""
		for n := range rows.Queues {
			text += eventLine(rows.AsOf, "info", figuresOf(&rows.Queues[n]))
		}
		return text, err
	}
	of, err := e.Of()
	if err != nil {
		return "", err
	}
	text := plain(of.Queue)
	if of.Row != nil {
		s := &of.Row.Status
		text += "  " + because(s.Here(time.Now())+byWhom(s.By, s.ClaimedBy), s.Reason)
	}
	return eventLine(of.At, of.Kind, text), nil
}

func eventLine(at time.Time, kind, text string) string {
	return fmt.Sprintf("%s  %-9s  %s\n", at.Local().Format(time.TimeOnly), plain(kind), text)
}

func figuresOf(q *wire.QueueRow) string {
	return fmt.Sprintf("%s  %d/%d  in %.1f/s  out %.1f/s  refused %.1f/s  outflow %.1f/s",
		plain(q.Name), q.Size, q.Capacity,
		q.In, q.Out, q.Refused, q.Outflow)
}
