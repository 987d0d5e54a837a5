package cli

import (
	"github.com/alecthomas/kong"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/cli/queuecmd"
	"github.com/penstock/penstock/internal/ops"
)

// Manual returns the command line with all commands. The manual pages are generated from it.
func Manual() (*kong.Application, error) {
	parser, err := kong.New(&root{},
		kong.Name("penstock"),
		kong.Description(description),
		kong.DefaultEnvars("PENSTOCK"),
		kong.PostBuild(func(k *kong.Kong) error {
			withoutEnvironment(k.Model.Node)
			queuecmd.ExplainSettings(k.Model.Node)
			return app.SetLongHelp(k)
		}),
		kong.Vars{"version": ops.Version},
	)
	if err != nil {
		return nil, err
	}
	return parser.Model, nil
}
