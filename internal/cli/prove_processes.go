package cli

import (
	"context"
	"errors"
	"io"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/asynq"
)

// ingressCmd and drainerCmd are the processes that prove starts: cmd/ingress and cmd/drainer as they are, which end
// when the prove that started them does. Their settings come in the environment.
type (
	ingressCmd process
	drainerCmd process
)

type process struct {
	Args []string `arg:"" optional:"" passthrough:""`
}

func (c *ingressCmd) Run(r *run) error { return (*process)(c).run(r, app.RunIngress) }
func (c *drainerCmd) Run(r *run) error { return (*process)(c).run(r, app.RunDrainer(asynq.Open)) }

func (c *process) run(r *run, program func(ctx context.Context, args []string, out, errs io.Writer) error) error {
	ctx, cancel := tethered(r.ctx, r.In)
	defer cancel()
	err := program(ctx, c.Args, r.Out, r.Err)
	if errors.Is(err, app.ErrHelp) {
		return nil
	}
	return err
}
