package cli

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/penstock/penstock/internal/ops"
)

type versionCmd struct{ output }

func (c *versionCmd) Run(r *run) error {
	if c.json() {
		return printJSON(r.Out, map[string]string{
			"version": ops.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
		})
	}
	_, err := fmt.Fprintf(r.Out, "penstock %s (%s, %s/%s)\n", ops.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// helpCmd is --help for those who ask for it in words.
type helpCmd struct {
	Command []string `arg:"" optional:"" passthrough:"" help:"Of which command, such as queue set; of all without."`
}

// Run reads the words as a command line of their own, and runs nothing.
func (c *helpCmd) Run(k *kong.Context) error {
	of, err := kong.Trace(k.Kong, c.Command)
	if err == nil {
		err = of.Error
	}
	if err != nil {
		return usage(err)
	}
	return of.PrintUsage(false)
}

// standsIn are the flags that say yes in place of a person, or make more of a command than it says. They are read from
// no environment: what was once put into a profile must not answer a question of today.
var standsIn = []string{"yes", "force", "prune", "all", "again"}

// unasked takes the environment variables from them.
func unasked(node *kong.Node) {
	for _, f := range node.Flags {
		if slices.Contains(standsIn, f.Name) {
			f.Envs = nil
			f.Tag.Envs = nil
		}
	}
	for _, child := range node.Children {
		unasked(child)
	}
}
