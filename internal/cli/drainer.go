package cli

import (
	"errors"

	"github.com/penstock/penstock/internal/app"
)

// drainerCmd is one of the processes that prove starts: cmd/drainer as it is,
// which ends when the prove that started it does. Its settings come in the
// environment.
type drainerCmd struct {
	Args []string `arg:"" optional:"" passthrough:""`
}

func (c *drainerCmd) Run(r *run) error {
	ctx, cancel := tethered(r.ctx, r.In)
	defer cancel()
	err := app.RunDrainer(ctx, c.Args, r.Out, r.Err)
	if errors.Is(err, app.ErrHelp) {
		return nil
	}
	return err
}
