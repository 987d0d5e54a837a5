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
	applyFlags
	Diff  bool `help:"Say under each changed field what that means for the present backlog."`
	Force bool
}

// LongHelp is the help that is too long for the tags.
func (applyCmd) LongHelp() map[string]string {
	return map[string]string{
		"force": "With --prune: those that hold jobs or have deferred ones as well; they are lost, but for the " +
			"dead: see penstock dead.",
	}
}

// Help is shown below the flags.
func (applyCmd) Help() string {
	return `Makes the rules of the file that are missing and changes those that differ, as "penstock
rule apply" does, and then its queues, parents before children; shows each field that changed. The whole file
is checked before anything is changed; each change is made only if nobody else changed that rule or queue
meanwhile. The server does not show secrets, so --dry-run cannot compare them, and
"deliver: *** -> ***" says that one changed. A queue that has a target which the file
leaves out would lose it: a yes is asked for first.

Queues that are not in the file are left alone without --prune. With it they are
listed with what they hold and a yes is asked for before the first change; they are
removed after the last one, children before parents. One that holds jobs, or has
deferred ones, is left alone without --force (exit code 3), and so is its parent. Rules
that are not in the file stay: "penstock rule apply --prune" removes those.

Examples:
  penstock queue apply -f queues.yaml --dry-run --diff --prune
  penstock queue apply -f queues.yaml --prune --yes`
}

func (c *applyCmd) Run(r *run) error {
	file, err := c.load("queues", func(f *config.File) bool { return f.Queues != nil })
	if err != nil {
		return err
	}
	if c.Force && !c.Prune {
		return usage(errors.New("--force is for --prune"))
	}
	api, err := r.client()
	if err != nil {
		return err
	}
	if err := c.untargeted(r, api, file.Queues); err != nil {
		return err
	}
	var gone []applied
	if c.Prune {
		if gone, err = c.surplus(r, api, file.Queues); err != nil {
			return err
		}
	}
	// A queue is refused that names a rule of its group which is not there yet.
	steps := c.rules(r, api, file.Rules)
	// A child that were made first would leave unbounded until its parent is there.
	slices.SortStableFunc(file.Queues, func(a, b queue.Spec) int { return depth(a.Name) - depth(b.Name) })
	for i := range file.Queues {
		spec := &file.Queues[i]
		steps = append(steps, step{"queue " + spec.Name, func() (applied, error) { return c.apply(r, api, spec) }})
	}
	for _, a := range gone {
		steps = append(steps, step{"queue " + a.Queue, func() (applied, error) {
			err := c.remove(r, api, &a)
			return a, err
		}})
	}
	return c.run(r, steps)
}

// depth is 0 of a queue and 1 of a child.
func depth(name string) int { return strings.Count(name, ".") }

func (c *applyCmd) apply(r *run, api *client.Client, spec *queue.Spec) (applied, error) {
	return c.bring(applied{Queue: spec.Name}, spec, "unknown_queue", func(a *applied) error {
		present, err := api.Queue(r.ctx, spec.Name)
		if err != nil {
			return err
		}
		a.Revision = present.Revision
		if a.Changes, a.Unseen, err = compare(&present.Spec, spec); err != nil || !c.Diff {
			return err
		}
		a.Effect, err = effectOf(r, api, &present, spec, a.Changes)
		return err
	}, func(text json.RawMessage, revision int64) (int64, error) {
		q, err := api.Put(r.ctx, spec.Name, text, revision)
		warn(r, &q)
		return q.Revision, err
	})
}

// untargeted asks before it takes the target from queues: a file that does not say deliver may have been written in
// another place than the queue's target was set.
func (c *applyCmd) untargeted(r *run, api *client.Client, specs []queue.Spec) error {
	if c.DryRun || c.Yes {
		return nil
	}
	n := 0
	for i := range specs {
		if !specs[i].NeedsTarget() {
			continue
		}
		present, err := api.Queue(r.ctx, specs[i].Name)
		var refused *client.Problem
		if errors.As(err, &refused) && refused.Reason == "unknown_queue" {
			continue
		}
		if err != nil {
			return fmt.Errorf("queue %s: %w", specs[i].Name, err)
		}
		if len(present.Deliver) > 0 {
			n++
			r.say("%s would lose its target, which the file leaves out: deliver: %s", present.Name,
				plain(string(present.Deliver)))
		}
	}
	if n == 0 {
		return nil
	}
	return confirm(r, "apply", fmt.Sprintf("%d queues will lose their targets, and their jobs will wait", n))
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
