package cli

import (
	"errors"

	"github.com/penstock/penstock/internal/app"
)

// ingressCmd is one of the processes that prove starts: cmd/ingress as it is,
// which ends when the prove that started it does. Its settings come in the
// environment.
type ingressCmd struct {
	Args []string `arg:"" optional:"" passthrough:""`
}

func (c *ingressCmd) Run(r *run) error {
	ctx, cancel := tethered(r.ctx, r.In)
	defer cancel()
	err := app.RunIngress(ctx, c.Args, r.Out, r.Err)
	if errors.Is(err, app.ErrHelp) {
		return nil
	}
	return err
}
