package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/queue"
)

type applyCmd struct {
	File   string `required:"" short:"f" help:"The file of queues." placeholder:"FILE"`
	DryRun bool   `help:"Only show what would change."`
	Diff   bool   `help:"Say under each changed field what that means for the present backlog."`
	Prune  bool   `help:"Remove the queues that are not in the file, after asking."`
	Force  bool   `help:"With --prune: those that hold jobs or have deferred ones as well; they are lost, but for the dead: see penstock dead."`
	Yes    bool   `help:"With --prune: do not ask." short:"y"`
	output
}

// Help is shown below the flags.
func (applyCmd) Help() string {
	return `Makes the queues of the file that are missing, parents before children, and changes
those that differ; shows each field that changed. The whole file is checked before
anything is changed; each change is made only if nobody else changed that queue
meanwhile. The server does not show secrets, so --dry-run cannot compare them, and
"deliver: *** -> ***" says that one changed.

Queues that are not in the file are left alone without --prune. With it they are
listed with what they hold and a yes is asked for before the first change; they are
removed after the last one, children before parents. One that holds jobs, or has
deferred ones, is left alone without --force (exit code 3), and so is its parent.

Examples:
  penstock queue apply -f queues.yaml --dry-run --diff --prune
  penstock queue apply -f queues.yaml --prune --yes`
}

// applied is what was done to one queue, or would be.
type applied struct {
	Queue    string   `json:"queue"`
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

func (c *applyCmd) Run(r *run) error {
	file, err := config.Load(c.File, nil) // targets are the server's to judge
	if err != nil {
		return usage(err)
	}
	specs := file.Queues
	if (c.Force || c.Yes) && !c.Prune {
		return usage(errors.New("--force and --yes are for --prune"))
	}
	api, err := r.client()
	if err != nil {
		return err
	}
	var gone []applied
	if c.Prune {
		if gone, err = c.surplus(r, api, specs); err != nil {
			return err
		}
	}
	// A child that were made first would leave unbounded until its parent is there.
	slices.SortStableFunc(specs, func(a, b queue.Spec) int { return depth(a.Name) - depth(b.Name) })
	done := []applied{}
	for i := range specs {
		a, err := c.apply(r, api, &specs[i])
		if err != nil {
			if len(done) > 0 && !c.DryRun {
				r.say("the %d queues before it are as the file says", len(done))
			}
			return fmt.Errorf("queue %s: %w", specs[i].Name, err)
		}
		done = append(done, a)
		if !c.json() {
			if err := c.print(r, a); err != nil {
				return err
			}
		}
	}
	code := ExitDone
	for i := range gone {
		a := &gone[i]
		if err := c.remove(r, api, a); err != nil {
			return fmt.Errorf("queue %s: %w", a.Queue, err)
		}
		if a.Action == actionLeft && !c.DryRun {
			code = ExitRefused
		}
		done = append(done, *a)
		if !c.json() {
			if err := c.print(r, *a); err != nil {
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

// depth is 0 of a queue and 1 of a child.
func depth(name string) int { return strings.Count(name, ".") }

func (c *applyCmd) apply(r *run, api *client.Client, spec *queue.Spec) (applied, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return applied{}, fmt.Errorf("write the spec as JSON: %w", err)
	}
	present, err := api.Queue(r.ctx, spec.Name)
	var refused *client.Problem
	if errors.As(err, &refused) && refused.Reason == "unknown_queue" {
		a := applied{Queue: spec.Name, Action: "made", Changes: []change{}}
		if c.DryRun {
			return a, nil
		}
		q, err := api.Put(r.ctx, spec.Name, text, client.Absent)
		a.Revision = q.Revision
		return a, err
	}
	if err != nil {
		return applied{}, err
	}
	seen, unseen, err := compare(&present.Spec, spec)
	if err != nil {
		return applied{}, err
	}
	a := applied{Queue: spec.Name, Action: "unchanged", Revision: present.Revision, Changes: seen}
	if len(seen) > 0 {
		a.Action = "changed"
	}
	if c.Diff {
		if a.Effect, err = effectOf(r, api, &present, spec, seen); err != nil {
			return applied{}, err
		}
	}
	if c.DryRun {
		a.Unseen = unseen
		return a, nil
	}
	if len(seen) == 0 && !unseen {
		return a, nil
	}
	q, err := api.Put(r.ctx, spec.Name, text, present.Revision)
	if err != nil || q.Revision == present.Revision {
		return a, err
	}
	a.Action, a.Revision, a.Changes = "changed", q.Revision, withUnseen(seen, true)
	return a, nil
}

// compare lists in what the server's spec of a queue differs from the file's, as far as
// that can be seen, and reports whether the file has secrets: what the server shows
// does not tell whether it has the same.
func compare(present, file *queue.Spec) (seen []change, unseen bool, err error) {
	shown := *file
	shown.Deliver = secrets.Mask(file.Deliver)
	var trees [3]map[string]any
	for i, spec := range []*queue.Spec{present, &shown, file} {
		if trees[i], err = tree(spec); err != nil {
			return nil, false, err
		}
	}
	return changes(trees[0], trees[1]), len(changes(trees[1], trees[2])) > 0, nil
}

func (c *applyCmd) print(r *run, a applied) error {
	switch {
	case a.Surplus != nil:
		_, err := fmt.Fprintln(r.Out, a.Surplus.tell(a.Queue, c.DryRun))
		return err
	case c.DryRun && a.Action != "unchanged":
		_, _ = fmt.Fprintf(r.Out, "%s would be %s\n", a.Queue, a.Action)
		return printFields(r.Out, a.Changes)
	case a.Unseen:
		_, err := fmt.Fprintf(r.Out, "%s unchanged, revision %d; its secrets cannot be compared\n", a.Queue, a.Revision)
		return err
	case a.Action == "made":
		_, err := fmt.Fprintf(r.Out, "%s made, revision %d\n", a.Queue, a.Revision)
		return err
	}
	return printChanges(r.Out, a.Queue, a.Revision, a.Changes)
}
