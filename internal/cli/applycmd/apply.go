// Package applycmd has the commands that apply a file of rules and queues.
//
// It promises to check the whole file before it changes anything, to overwrite no concurrent change, and to ask before
// anything is lost.
package applycmd

import (
	"encoding/json"
	"fmt"

	"github.com/penstock/penstock/internal/cli/changes"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/config"
)

// flags are the common flags.
type flags struct {
	File   string `required:"" short:"f" help:"File of rules and queues." placeholder:"FILE"`
	DryRun bool   `help:"Only show what would change."`
	Prune  bool   `help:"Delete what is not in the file, after confirmation."`
	command.Confirmation
	command.Output
}

// Values of Result.Action.
const (
	actionMade      = "made"
	actionChanged   = "changed"
	actionUnchanged = "unchanged"
	actionRemoved   = "removed"
	actionLeft      = "left" // not in the file, but not deleted
)

// Result is what was, or would be, done to one rule or queue.
type Result struct {
	Rule     string          `json:"rule,omitempty"`
	Queue    string          `json:"queue,omitempty"`
	Action   string          `json:"action"`
	Revision int64           `json:"revision"`
	Changes  []changes.Field `json:"changes"`
	// Uncompared means that the queue has secrets, which a dry run cannot compare.
	Uncompared bool `json:"secrets_not_compared,omitempty"`
	// Effect is the effect on the queue's present jobs. It is set with --diff.
	Effect *effect `json:"effect,omitempty"`
	// Surplus describes a rule or queue that is not in the file.
	Surplus *surplus `json:"surplus,omitempty"`
}

// name returns the name of the queue or rule. The name of a rule has "rule" before it.
func (a *Result) name() string {
	if a.Rule != "" {
		return "rule " + a.Rule
	}
	return a.Queue
}

// surplusText describes what happens, or would happen, to a rule or queue that is not in the file.
func (a *Result) surplusText(would bool) string {
	if a.Rule != "" {
		return a.Surplus.ruleText(a.Rule, would)
	}
	return a.Surplus.queueText(a.Queue, would)
}

// leave marks a surplus rule or queue that is not deleted. reason is the server's code for the refusal.
func (a *Result) leave(reason string) { a.Action, a.Surplus.Reason = actionLeft, reason }

// step applies one rule or queue.
type step struct {
	name string
	do   func() (Result, error)
}

// load reads the file. With --prune the file must have the list, because a missing list would delete everything.
func (c *flags) load(list string, has func(*config.File) bool) (config.File, error) {
	file, err := config.Load(c.File, nil) // the server checks the targets
	if err == nil && c.Prune && !has(&file) {
		err = fmt.Errorf("%s has no list of %s, so --prune would delete all of them; add \"%s: []\" if you mean that",
			c.File, list, list)
	}
	if err != nil {
		return file, command.Usage(err)
	}
	return file, nil
}

// run runs the steps in order and prints their results.
func (c *flags) run(r *command.Run, steps []step) error {
	done, code := []Result{}, command.ExitDone
	for _, s := range steps {
		a, err := s.do()
		if err != nil {
			if len(done) > 0 && !c.DryRun {
				r.Say("the first %d of the file were applied", len(done))
			}
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if a.Action == actionLeft && !c.DryRun {
			code = command.ExitRefused
		}
		done = append(done, a)
		if !c.JSON() {
			if err := c.print(r, &a); err != nil {
				return err
			}
		}
	}
	if c.JSON() {
		if err := command.PrintJSON(r.Out, done); err != nil {
			return err
		}
	}
	return command.Quiet(code)
}

func (c *flags) print(r *command.Run, a *Result) error {
	switch {
	case a.Surplus != nil:
		_, err := fmt.Fprintln(r.Out, a.surplusText(c.DryRun))
		return err
	case c.DryRun && a.Action == actionMade:
		_, err := fmt.Fprintf(r.Out, "%s would be created\n", a.name())
		return err
	case c.DryRun && a.Action == actionChanged:
		_, _ = fmt.Fprintf(r.Out, "%s would be changed\n", a.name())
		return changes.PrintFields(r.Out, a.Changes)
	case a.Uncompared:
		_, err := fmt.Fprintf(r.Out, "%s unchanged, revision %d; secrets were not compared\n", a.name(), a.Revision)
		return err
	case a.Action == actionMade:
		_, err := fmt.Fprintf(r.Out, "%s created, revision %d\n", a.name(), a.Revision)
		return err
	}
	return changes.Print(r.Out, a.name(), a.Revision, a.Changes)
}

// apply creates a rule or queue, or changes it at the revision that compare has read. missing is the server's reason
// for an unknown name.
func (c *flags) apply(
	a Result, spec any, missing string, compare func(*Result) error, put func(json.RawMessage, int64) (int64, error),
) (Result, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return Result{}, fmt.Errorf("encode the spec as JSON: %w", err)
	}
	err = compare(&a)
	if command.Refused(err, missing) {
		a.Action, a.Changes = actionMade, []changes.Field{}
		if !c.DryRun {
			a.Revision, err = put(text, client.Absent)
			return a, err
		}
		return a, nil
	}
	if err != nil {
		return Result{}, err
	}
	uncompared := a.Uncompared
	a.Action, a.Uncompared = actionUnchanged, uncompared && c.DryRun
	if len(a.Changes) > 0 {
		a.Action = actionChanged
	}
	if c.DryRun || len(a.Changes) == 0 && !uncompared {
		return a, nil
	}
	revision, err := put(text, a.Revision)
	if err != nil || revision == a.Revision {
		return a, err
	}
	a.Action, a.Revision, a.Changes = actionChanged, revision, changes.WithSecret(a.Changes, true)
	return a, nil
}
