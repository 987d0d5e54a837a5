package applycmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/cli/changes"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// QueuesCmd is penstock queue apply.
type QueuesCmd struct {
	flags
	Diff  bool `help:"Show below each changed field the effect on the jobs in the queue."`
	Force bool
}

// LongHelp returns the help texts that are too long for tags; see app.SetLongHelp.
func (QueuesCmd) LongHelp() map[string]string {
	return map[string]string{
		"force": "With --prune, also delete queues with jobs, even deferred ones. Their jobs are lost, except dead ones; " +
			"see \"penstock dead\".",
	}
}

// Help implements kong.HelpProvider.
func (QueuesCmd) Help() string {
	return `Creates and changes the rules of the file, as "penstock rule apply" does, then its queues, parents
before children, and shows each changed field. The whole file is checked first. A change fails if
someone else changed that rule or queue meanwhile. The server masks secrets, so --dry-run cannot
compare them, and "deliver: *** -> ***" means that a secret changed. If the file omits the target of a
queue that has one, the change would remove the target, so the command asks for confirmation.

Without --prune, queues that are not in the file stay. With --prune they are listed, and after
confirmation they are deleted last, children before parents. Without --force, a queue with jobs
(deferred ones included) stays, with exit code 3, and so does its parent. Rules that are not in the file
stay: "penstock rule apply --prune" deletes them.

Examples:
  penstock queue apply -f queues.yaml --dry-run --diff --prune
  penstock queue apply -f queues.yaml --prune --yes`
}

// Run runs the command.
func (c *QueuesCmd) Run(r *command.Run, api *client.Client) error {
	file, err := c.load("queues", func(f *config.File) bool { return f.Queues != nil })
	if err != nil {
		return err
	}
	if c.Force && !c.Prune {
		return command.Usage(errors.New("--force needs --prune"))
	}
	if err := c.confirmTargets(r, api, file.Queues); err != nil {
		return err
	}
	var gone []Result
	if c.Prune {
		if gone, err = c.surplus(r, api, file.Queues); err != nil {
			return err
		}
	}
	// Rules first: the server refuses a queue that names a missing rule of its group.
	steps := c.ruleSteps(r, api, file.Rules)
	// Parents first: a child without its parent would leave without the parent's limits.
	slices.SortStableFunc(file.Queues, func(a, b queue.Spec) int { return depth(a.Name) - depth(b.Name) })
	for i := range file.Queues {
		spec := &file.Queues[i]
		steps = append(steps, step{"queue " + spec.Name, func() (Result, error) { return c.applyQueue(r, api, spec) }})
	}
	for _, a := range gone {
		steps = append(steps, step{"queue " + a.Queue, func() (Result, error) {
			err := c.remove(r, api, &a)
			return a, err
		}})
	}
	return c.run(r, steps)
}

// depth is 0 for a queue and 1 for a child.
func depth(name string) int { return strings.Count(name, ".") }

func (c *QueuesCmd) applyQueue(r *command.Run, api *client.Client, spec *queue.Spec) (Result, error) {
	return c.apply(Result{Queue: spec.Name}, spec, "unknown_queue", func(a *Result) error {
		present, err := api.Queue(r.Ctx, spec.Name)
		if err != nil {
			return err
		}
		a.Revision = present.Revision
		if a.Changes, a.Uncompared, err = compare(&present.Spec, spec); err != nil || !c.Diff {
			return err
		}
		a.Effect, err = effectOf(r, api, &present, spec, a.Changes)
		return err
	}, func(text json.RawMessage, revision int64) (int64, error) {
		q, err := api.Put(r.Ctx, spec.Name, text, revision)
		SayWarnings(r, &q)
		return q.Revision, err
	})
}

// SayWarnings prints the server's warnings about a queue that was put.
func SayWarnings(r *command.Run, q *wire.Queue) {
	for _, text := range q.Warnings {
		r.Say("%s: warning: %s", q.Name, show.Text(text))
	}
}

// confirmTargets asks before queues lose their targets. A file without targets may come from another place than the
// targets of its queues.
func (c *QueuesCmd) confirmTargets(r *command.Run, api *client.Client, specs []queue.Spec) error {
	if c.DryRun || c.Yes {
		return nil
	}
	n := int64(0)
	for i := range specs {
		if !specs[i].NeedsTarget() {
			continue
		}
		present, err := api.Queue(r.Ctx, specs[i].Name)
		if command.Refused(err, "unknown_queue") {
			continue
		}
		if err != nil {
			return fmt.Errorf("queue %s: %w", specs[i].Name, err)
		}
		if len(present.Deliver) > 0 {
			n++
			r.Say("%s would lose its target, which is not in the file: deliver: %s", present.Name,
				show.Text(string(present.Deliver)))
		}
	}
	if n == 0 {
		return nil
	}
	return c.Confirm(r, "apply", show.Count(n, "queue")+" will lose the target, and jobs will wait")
}

// compare returns the visible differences between the server's spec of a queue and the file's. secret reports that the
// file has secrets, which cannot be compared because the server masks its own.
func compare(present, file *queue.Spec) (seen []changes.Field, secret bool, err error) {
	masked := *file
	masked.Deliver = secrets.Mask(file.Deliver)
	if seen, err = changes.Between(present, &masked); err != nil {
		return nil, false, err
	}
	hidden, err := changes.Between(&masked, file)
	return seen, len(hidden) > 0, err
}
