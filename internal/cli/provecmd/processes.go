package provecmd

import (
	"context"
	"errors"
	"io"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/asynq"
	"github.com/penstock/penstock/internal/cli/command"
)

// IngressCmd is cmd/ingress, as a process that prove starts. It ends with prove, and gets secrets in the environment.
type IngressCmd process

// DrainerCmd is cmd/drainer, in the same way.
type DrainerCmd process

type process struct {
	Args []string `arg:"" optional:"" passthrough:""`
}

// Run runs the command.
func (c *IngressCmd) Run(r *command.Run) error { return (*process)(c).run(r, app.RunIngress) }

// Run runs the command.
func (c *DrainerCmd) Run(r *command.Run) error {
	return (*process)(c).run(r, app.RunDrainer(asynq.Open))
}

func (c *process) run(
	r *command.Run, program func(ctx context.Context, args []string, out, errs io.Writer) error,
) error {
	ctx, cancel := command.Tethered(r.Ctx, r.In)
	defer cancel()
	err := program(ctx, c.Args, r.Out, r.Err)
	if errors.Is(err, app.ErrHelp) {
		return nil
	}
	return err
}
