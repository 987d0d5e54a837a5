package queuecmd

import (
	"errors"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
)

type turnCmd struct {
	Name string        `arg:"" help:"Name of a queue with pull=true."`
	Wait time.Duration `help:"Time to wait, 100ms to 60s (default ${default})." default:"30s" placeholder:"DURATION"`
	command.Output
}

func (turnCmd) Help() string {
	return `Exits when your turn has come. All callers on all machines share the rate of the queue, and get their
turns in the order of their requests. Exit code 3 means that the turn would not come in time.

Examples:
  penstock queue set api-calls rate=5/s pull=true
  penstock queue turn api-calls --wait 10s && curl https://api.example.com/v1/send`
}

func (c *turnCmd) Run(r *command.Run, api *client.Client) error {
	turn, err := api.Turn(r.Ctx, c.Name, c.Wait)
	var refused *client.Problem
	if errors.As(err, &refused) && refused.Reason == "no_turn" {
		r.Say("no turn of %s within %v; try again in %s", c.Name, c.Wait, show.Duration(refused.RetryAfter()))
		return command.Quiet(command.ExitRefused)
	}
	if err != nil {
		return err
	}
	return c.Print(r, turn, func() string {
		return command.Facts("waited", show.Duration(time.Duration(turn.WaitedMS)*time.Millisecond))
	})
}
