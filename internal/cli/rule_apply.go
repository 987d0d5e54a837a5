package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/queue/rules"
)

// reasonAsked is why a rule that is not in the file is left.
const reasonAsked = "rule_in_use"

type ruleApplyCmd struct{ applyFlags }

// Help is shown below the flags.
func (ruleApplyCmd) Help() string {
	return `Makes the rules of the file that are missing and changes those that differ; shows each
field that changed. Its queues are left alone: "penstock queue apply" applies both. The
whole file is checked before anything is changed; each change is made only if nobody else
changed that rule meanwhile. What was taken from a rule stays taken, as far as its new
numbers know it; another algorithm begins anew.

Rules that are not in the file are left alone without --prune. With it they are listed and
a yes is asked for before the first change; they are removed after the last one. One that
a queue asks is left alone (exit code 3): take it out of the queue's rules first.

Examples:
  penstock rule apply -f rules.yaml --dry-run --prune
  penstock rule apply -f rules.yaml --prune --yes`
}

func (c *ruleApplyCmd) Run(r *run) error {
	file, err := c.load("rules", func(f *config.File) bool { return f.Rules != nil })
	if err != nil {
		return err
	}
	if c.Yes && !c.Prune {
		return usage(errors.New("--yes is for --prune"))
	}
	api, err := r.client()
	if err != nil {
		return err
	}
	var gone []applied
	if c.Prune {
		if gone, err = c.surplus(r, api, file.Rules); err != nil {
			return err
		}
	}
	steps := c.rules(r, api, file.Rules)
	for _, a := range gone {
		steps = append(steps, step{a.name(), func() (applied, error) { return c.remove(r, api, a) }})
	}
	return c.run(r, steps)
}

// rules are the steps that bring rules in line with a file's.
func (c *applyFlags) rules(r *run, api *client.Client, given []rules.Rule) []step {
	var steps []step
	for _, rule := range given {
		a := applied{Rule: rule.Name}
		steps = append(steps, step{a.name(), func() (applied, error) {
			return c.bring(a, &rule, "unknown_rule", func(a *applied) error {
				there, err := api.Rule(r.ctx, rule.Name)
				if err != nil {
					return err
				}
				var trees [2]map[string]any
				for i, v := range []rules.Rule{there.Rule, rule} {
					if trees[i], err = tree(v); err != nil {
						return err
					}
				}
				a.Revision, a.Changes = there.Revision, changes(trees[0], trees[1])
				return nil
			}, func(text json.RawMessage, revision int64) (int64, error) {
				there, err := api.PutRule(r.ctx, rule.Name, text, revision)
				return there.Revision, err
			})
		}})
	}
	return steps
}

// surplus lists the rules that are not in the file. It asks whether those that no queue asks shall be removed, unless
// it was told.
func (c *ruleApplyCmd) surplus(r *run, api *client.Client, file []rules.Rule) ([]applied, error) {
	stored, err := api.Rules(r.ctx)
	if err != nil {
		return nil, err
	}
	asked, err := askedBy(r, api)
	if err != nil {
		return nil, err
	}
	stays := map[string]bool{}
	for i := range file {
		stays[file[i].Name] = true
	}
	list, removed := []applied{}, 0
	for i := range stored {
		name := stored[i].Name
		if stays[name] {
			continue
		}
		a := applied{
			Rule: name, Action: actionRemoved, Revision: stored[i].Revision, Changes: []change{},
			Surplus: &surplus{AskedBy: asked[name]},
		}
		if len(asked[name]) > 0 {
			a.leave(reasonAsked)
		} else {
			removed++
		}
		list = append(list, a)
	}
	if c.DryRun || c.Yes || removed == 0 {
		return list, nil
	}
	for i := range list {
		r.say("%s", list[i].tell(true))
	}
	return list, confirm(r, "prune", fmt.Sprintf(
		"%d of the rules that are not in the file will be removed, with what was taken from them", removed,
	))
}

// remove removes one that is not in the file, at the revision that was looked at; see the queues'.
func (c *ruleApplyCmd) remove(r *run, api *client.Client, a applied) (applied, error) {
	if c.DryRun || a.Action == actionLeft {
		return a, nil
	}
	err := api.DeleteRule(r.ctx, a.Rule, a.Revision, false)
	var refused *client.Problem
	if !errors.As(err, &refused) {
		return a, err
	}
	switch refused.Reason {
	case "unknown_rule": // somebody else removed it
		return a, nil
	case reasonAsked: // by now
		a.leave(refused.Reason)
		return a, nil
	}
	return a, err
}

// tellRule says what becomes of a rule, or would.
func (s *surplus) tellRule(name string, would bool) string {
	done := "was"
	if would {
		done = "would be"
	}
	switch {
	case s.Reason != "" && len(s.AskedBy) == 0:
		return fmt.Sprintf("rule %s is not in the file, is asked by a queue by now, and %s left alone", name, done)
	case s.Reason != "":
		return fmt.Sprintf(
			"rule %s is not in the file, is asked by %s, and %s left alone", name, strings.Join(s.AskedBy, ", "), done,
		)
	case would:
		return fmt.Sprintf("rule %s would be removed: no queue asks it", name)
	}
	return fmt.Sprintf("rule %s removed", name)
}
