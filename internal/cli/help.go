package cli

import (
	"runtime"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/ops"
)

type versionCmd struct{ command.Output }

func (c *versionCmd) Run(r *command.Run) error {
	v := map[string]string{
		"version": ops.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
	}
	return c.Printf(r, v, "penstock %s (%s, %s/%s)\n", ops.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

type helpCmd struct {
	Command []string `arg:"" optional:"" passthrough:"" help:"Command, such as queue set. Default: an overview."`
}

// Run parses the words as a command line of their own, but runs nothing.
func (c *helpCmd) Run(k *kong.Context) error {
	of, err := kong.Trace(k.Kong, c.Command)
	if err == nil {
		err = of.Error
	}
	if err != nil {
		return command.Usage(err)
	}
	return of.PrintUsage(false)
}

// explicit are the flags that confirm in place of a person, or widen what a command does. They are not read from the
// environment: a variable in a shell profile must not confirm today's command.
var explicit = []string{"yes", "force", "prune", "all", "again"}

// withoutEnvironment removes the environment variables of the explicit flags.
func withoutEnvironment(node *kong.Node) {
	for _, f := range node.Flags {
		if slices.Contains(explicit, f.Name) {
			f.Envs = nil
			f.Tag.Envs = nil
		}
	}
	for _, child := range node.Children {
		withoutEnvironment(child)
	}
}
