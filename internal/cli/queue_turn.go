package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/client"
)

type turnCmd struct {
	Name string        `arg:"" help:"Name of the queue, which must have pull=true."`
	Wait time.Duration `default:"30s" placeholder:"DURATION"`
	output
}

// LongHelp is the help that is too long for the tags.
func (turnCmd) LongHelp() map[string]string {
	return map[string]string{
		"wait": "How long to wait, from 100ms to 60s (default ${default}).",
	}
}

// Help is shown below the flags.
func (turnCmd) Help() string {
	return `It ends when the turn has come: start then. The rate of the queue holds over all who wait for turns
of it, on any machine, and they get them in the order in which they asked. The exit code is 3 if the turn
would not come in time.

Examples:
  penstock queue set api-calls rate=5/s pull=true
  penstock queue turn api-calls --wait 10s && curl https://api.example.com/v1/send`
}

func (c *turnCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	turn, err := api.Turn(r.ctx, c.Name, c.Wait)
	var refused *client.Problem
	if errors.As(err, &refused) && refused.Reason == "no_turn" {
		if _, err := fmt.Fprintf(
			r.Err, "no turn of %s within %v; come back in %s\n", c.Name, c.Wait, short(refused.RetryAfter()),
		); err != nil {
			return err
		}
		return told(ExitRefused)
	}
	if err != nil {
		return err
	}
	if c.json() {
		return printJSON(r.Out, turn)
	}
	return facts(r.Out, "waited", short(time.Duration(turn.WaitedMS)*time.Millisecond))
}
