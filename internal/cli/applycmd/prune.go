package applycmd

import (
	"errors"
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/cli/changes"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// surplus describes a queue or a rule that is not in the file.
type surplus struct {
	Held     int64 `json:"held"` // jobs in the queue
	Deferred int64 `json:"deferred"`
	// AskedBy are the queues that use a rule.
	AskedBy []string `json:"asked_by,omitempty"`
	// Reason is why it stays, as a code of the server: not_empty, has_children or rule_in_use.
	Reason string `json:"reason,omitempty"`
}

// surplus returns the queues that are not in the file, children before parents, and asks whether to delete them.
func (c *QueuesCmd) surplus(r *command.Run, api *client.Client, specs []queue.Spec) ([]Result, error) {
	queues, err := api.Queues(r.Ctx)
	if err != nil {
		return nil, err
	}
	stays := map[string]bool{}    // in the file, or left
	hasChild := map[string]bool{} // parents of queues that stay
	stay := func(name string) { stays[name], hasChild[names.Parent(name)] = true, true }
	for i := range specs {
		stay(specs[i].Name)
	}
	slices.SortStableFunc(queues, func(a, b wire.Queue) int { return depth(b.Name) - depth(a.Name) })
	list, removed := []Result{}, int64(0)
	for i := range queues {
		q := &queues[i]
		if stays[q.Name] {
			continue
		}
		a := Result{
			Queue: q.Name, Action: actionRemoved, Revision: q.Revision, Changes: []changes.Field{},
			Surplus: &surplus{Held: q.Stats.Size(), Deferred: q.Stats.Deferred},
		}
		switch {
		case hasChild[q.Name]:
			a.leave("has_children")
		case a.Surplus.Held+a.Surplus.Deferred > 0 && !c.Force:
			a.leave("not_empty")
		}
		if a.Action == actionLeft {
			stay(q.Name)
		} else {
			removed++
		}
		list = append(list, a)
	}
	return list, c.confirmPrune(r, list, show.Count(removed, "queue"), "all jobs")
}

// confirmPrune lists what will be deleted and asks for confirmation.
func (c *flags) confirmPrune(r *command.Run, list []Result, what, loss string) error {
	if c.DryRun || c.Yes || !slices.ContainsFunc(list, func(a Result) bool { return a.Action == actionRemoved }) {
		return nil
	}
	for i := range list {
		r.Say("%s", list[i].surplusText(true))
	}
	return c.Confirm(r, "prune", fmt.Sprintf("%s not in the file will be deleted, with %s", what, loss))
}

// remove deletes a queue at the revision that was listed. Another queue of the same name may have been created since.
func (c *QueuesCmd) remove(r *command.Run, api *client.Client, a *Result) error {
	if c.DryRun || a.Action == actionLeft {
		return nil
	}
	err := api.Delete(r.Ctx, a.Queue, a.Revision, c.Force)
	var refused *client.Problem
	if !errors.As(err, &refused) {
		return err
	}
	switch refused.Reason {
	case "unknown_queue": // already deleted
		return nil
	case "not_empty", "has_children": // since it was listed
		a.leave(refused.Reason)
		return nil
	}
	return err
}

// queueText describes what happens, or would happen, to a queue that is not in the file.
func (s *surplus) queueText(name string, would bool) string {
	holds := "is empty"
	if s.Deferred > 0 {
		holds = fmt.Sprintf("holds %s, has %d deferred", show.Jobs(s.Held), s.Deferred)
	} else if s.Held > 0 {
		holds = "holds " + show.Jobs(s.Held)
	}
	kept := "was kept"
	if would {
		kept = "would be kept"
	}
	switch {
	case s.Reason == "has_children":
		return fmt.Sprintf("%s is not in the file, but has children that stay: it %s", name, kept)
	case s.Reason != "" && s.Held+s.Deferred == 0:
		return fmt.Sprintf("%s is not in the file, but holds jobs now: it %s", name, kept)
	case s.Reason != "":
		return fmt.Sprintf("%s is not in the file, but %s: it %s; --force deletes it with its jobs", name, holds, kept)
	case would:
		return fmt.Sprintf("%s would be deleted: it %s", name, holds)
	}
	return name + " deleted"
}
