package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// What becomes of a rule or queue that is not in the file.
const (
	actionRemoved = "removed"
	actionLeft    = "left"
)

// surplus is what is known of a queue that is not in the file, or of a rule, which holds nothing.
type surplus struct {
	Held     int64 `json:"held"`
	Deferred int64 `json:"deferred"`
	// AskedBy are the queues that ask a rule.
	AskedBy []string `json:"asked_by,omitempty"`
	// Reason is why it is left, as the server would say: not_empty, has_children or rule_in_use.
	Reason string `json:"reason,omitempty"`
}

// surplus lists the queues that are not in the file, in the order in which they are to be removed: children
// before parents. It asks whether those that can be shall be, unless it was told.
func (c *applyCmd) surplus(r *run, api *client.Client, specs []queue.Spec) ([]applied, error) {
	queues, err := api.Queues(r.ctx)
	if err != nil {
		return nil, err
	}
	stays := map[string]bool{}    // in the file, or left
	bounding := map[string]bool{} // parents of those
	stay := func(name string) { stays[name], bounding[names.Parent(name)] = true, true }
	for i := range specs {
		stay(specs[i].Name)
	}
	slices.SortStableFunc(queues, func(a, b wire.Queue) int { return depth(b.Name) - depth(a.Name) })
	list, removed := []applied{}, 0
	for i := range queues {
		q := &queues[i]
		if stays[q.Name] {
			continue
		}
		a := applied{
			Queue: q.Name, Action: actionRemoved, Revision: q.Revision, Changes: []change{},
			Surplus: &surplus{Held: q.Stats.Size(), Deferred: q.Stats.Deferred},
		}
		switch {
		case bounding[q.Name]:
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
	if c.DryRun || c.Yes || removed == 0 {
		return list, nil
	}
	for i := range list {
		r.say("%s", list[i].Surplus.tell(list[i].Queue, true))
	}
	return list, confirm(r, "prune", fmt.Sprintf(
		"%d of the queues that are not in the file will be removed, with what they hold", removed,
	))
}

func (a *applied) leave(reason string) { a.Action, a.Surplus.Reason = actionLeft, reason }

// remove removes one that is not in the file, at the revision that was looked at: what somebody made
// anew under this name meanwhile is not what was meant.
func (c *applyCmd) remove(r *run, api *client.Client, a *applied) error {
	if c.DryRun || a.Action == actionLeft {
		return nil
	}
	err := api.Delete(r.ctx, a.Queue, a.Revision, c.Force)
	var refused *client.Problem
	if !errors.As(err, &refused) {
		return err
	}
	switch refused.Reason {
	case "unknown_queue": // somebody else removed it
		return nil
	case "not_empty", "has_children": // by now
		a.leave(refused.Reason)
		return nil
	}
	return err
}

// tell says what becomes of it, or would.
func (s *surplus) tell(name string, would bool) string {
	holds := "is empty"
	if s.Deferred > 0 {
		holds = fmt.Sprintf("holds %s, has %d deferred", plural(s.Held), s.Deferred)
	} else if s.Held > 0 {
		holds = "holds " + plural(s.Held)
	}
	done := "was"
	if would {
		done = "would be"
	}
	switch {
	case s.Reason == "has_children":
		return fmt.Sprintf("%s is not in the file, has children that stay, and %s left alone", name, done)
	case s.Reason != "" && s.Held+s.Deferred == 0:
		return fmt.Sprintf("%s is not in the file, holds jobs by now, and %s left alone", name, done)
	case s.Reason != "":
		return fmt.Sprintf("%s is not in the file, %s, and %s left alone; --force removes it with them", name, holds, done)
	case would:
		return fmt.Sprintf("%s would be removed: it %s", name, holds)
	}
	return name + " removed"
}
