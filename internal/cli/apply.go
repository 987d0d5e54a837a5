package cli

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/config"
)

// applyFlags are those of queue apply and rule apply.
type applyFlags struct {
	File   string `required:"" short:"f" help:"The file of rules and queues." placeholder:"FILE"`
	DryRun bool   `help:"Only show what would change."`
	Prune  bool   `help:"Remove those that are not in the file, after asking."`
	Yes    bool   `help:"Do not ask." short:"y"`
	output
}

// applied is what was done to one rule or queue, or would be.
type applied struct {
	Rule     string   `json:"rule,omitempty"`
	Queue    string   `json:"queue,omitempty"`
	Action   string   `json:"action"` // made, changed, unchanged, removed, or left though not in the file
	Revision int64    `json:"revision"`
	Changes  []change `json:"changes"`
	// Unseen means that the queue has secrets, which only a true run can compare.
	Unseen bool `json:"secrets_not_compared,omitempty"`
	// Effect is that on the present backlog, if --diff asks and there is one.
	Effect *effect `json:"effect,omitempty"`
	// Surplus is there of one that is not in the file.
	Surplus *surplus `json:"surplus,omitempty"`
}

// name is how it is called where both rules and queues are told of.
func (a *applied) name() string {
	if a.Rule != "" {
		return "rule " + a.Rule
	}
	return a.Queue
}

// tell says what becomes of one that is not in the file, or would.
func (a *applied) tell(would bool) string {
	if a.Rule != "" {
		return a.Surplus.tellRule(a.Rule, would)
	}
	return a.Surplus.tell(a.Queue, would)
}

// step is one rule or queue that is brought in line.
type step struct {
	name string
	do   func() (applied, error)
}

// load reads the file. A list that it does not have says nothing of what shall be removed.
func (c *applyFlags) load(list string, given func(*config.File) bool) (config.File, error) {
	file, err := config.Load(c.File, nil) // targets are the server's to judge
	if err == nil && c.Prune && !given(&file) {
		err = fmt.Errorf(
			"%s has no list of %s, so --prune would remove all: write \"%s: []\" into it if that is meant", c.File, list, list,
		)
	}
	if err != nil {
		return file, usage(err)
	}
	return file, nil
}

// run does the steps in their order, and tells of each.
func (c *applyFlags) run(r *run, steps []step) error {
	done, code := []applied{}, ExitDone
	for _, s := range steps {
		a, err := s.do()
		if err != nil {
			if len(done) > 0 && !c.DryRun {
				r.say("the %d before it are as the file says", len(done))
			}
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if a.Action == actionLeft && !c.DryRun {
			code = ExitRefused
		}
		done = append(done, a)
		if !c.json() {
			if err := c.print(r, &a); err != nil {
				return err
			}
		}
	}
	if c.json() {
		if err := printJSON(r.Out, done); err != nil {
			return err
		}
	}
	return told(code)
}

func (c *applyFlags) print(r *run, a *applied) error {
	switch {
	case a.Surplus != nil:
		_, err := fmt.Fprintln(r.Out, a.tell(c.DryRun))
		return err
	case c.DryRun && a.Action != "unchanged":
		_, _ = fmt.Fprintf(r.Out, "%s would be %s\n", a.name(), a.Action)
		return printFields(r.Out, a.Changes)
	case a.Unseen:
		_, err := fmt.Fprintf(r.Out, "%s unchanged, revision %d; its secrets cannot be compared\n", a.name(), a.Revision)
		return err
	case a.Action == "made":
		_, err := fmt.Fprintf(r.Out, "%s made, revision %d\n", a.name(), a.Revision)
		return err
	}
	return printChanges(r.Out, a.name(), a.Revision, a.Changes)
}

// bring makes what is missing. What is there is read and compared by present, and put at the revision at which it
// was looked at. missing is the server's reason of what is not there.
func (c *applyFlags) bring(
	a applied, spec any, missing string, present func(*applied) error, put func(json.RawMessage, int64) (int64, error),
) (applied, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return applied{}, fmt.Errorf("write the spec as JSON: %w", err)
	}
	err = present(&a)
	var refused *client.Problem
	if errors.As(err, &refused) && refused.Reason == missing {
		a.Action, a.Changes = "made", []change{}
		if !c.DryRun {
			a.Revision, err = put(text, client.Absent)
			return a, err
		}
		return a, nil
	}
	if err != nil {
		return applied{}, err
	}
	unseen := a.Unseen
	a.Action, a.Unseen = "unchanged", unseen && c.DryRun
	if len(a.Changes) > 0 {
		a.Action = "changed"
	}
	if c.DryRun || len(a.Changes) == 0 && !unseen {
		return a, nil
	}
	revision, err := put(text, a.Revision)
	if err != nil || revision == a.Revision {
		return a, err
	}
	a.Action, a.Revision, a.Changes = "changed", revision, withUnseen(a.Changes, true)
	return a, nil
}
