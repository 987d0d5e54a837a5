package applycmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/penstock/penstock/internal/cli/changes"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/queue/rules"
)

// RuleInUse is the server's reason not to delete a rule that queues use.
const RuleInUse = "rule_in_use"

// RulesCmd is penstock rule apply.
type RulesCmd struct{ flags }

// Help implements kong.HelpProvider.
func (RulesCmd) Help() string {
	return `Creates and changes the rules of the file, and shows each changed field. The file's queues are not
touched: "penstock queue apply" applies both. The whole file is checked first. A change fails if
someone else changed that rule meanwhile. What was taken from a rule still counts under its new
numbers; a rule with another algorithm starts afresh.

Without --prune, rules that are not in the file stay. With --prune they are listed, and after
confirmation they are deleted last. A rule that a queue uses stays (exit code 3): remove it from the
queue's rules first.

Examples:
  penstock rule apply -f rules.yaml --dry-run --prune
  penstock rule apply -f rules.yaml --prune --yes`
}

// Run runs the command.
func (c *RulesCmd) Run(r *command.Run, api *client.Client) error {
	file, err := c.load("rules", func(f *config.File) bool { return f.Rules != nil })
	if err != nil {
		return err
	}
	if c.Yes && !c.Prune {
		return command.Usage(errors.New("--yes needs --prune"))
	}
	var gone []Result
	if c.Prune {
		if gone, err = c.surplus(r, api, file.Rules); err != nil {
			return err
		}
	}
	steps := c.ruleSteps(r, api, file.Rules)
	for _, a := range gone {
		steps = append(steps, step{a.name(), func() (Result, error) { return c.remove(r, api, a) }})
	}
	return c.run(r, steps)
}

// ruleSteps returns the steps that apply the rules of a file.
func (c *flags) ruleSteps(r *command.Run, api *client.Client, file []rules.Rule) []step {
	var steps []step
	for _, rule := range file {
		a := Result{Rule: rule.Name}
		steps = append(steps, step{a.name(), func() (Result, error) {
			return c.apply(a, &rule, "unknown_rule", func(a *Result) error {
				present, err := api.Rule(r.Ctx, rule.Name)
				if err != nil {
					return err
				}
				a.Revision = present.Revision
				a.Changes, err = changes.Between(present.Rule, rule)
				return err
			}, func(text json.RawMessage, revision int64) (int64, error) {
				put, err := api.PutRule(r.Ctx, rule.Name, text, revision)
				return put.Revision, err
			})
		}})
	}
	return steps
}

// QueuesByRule returns the queues of all groups that use each rule. The server names only queues of the rule's group.
func QueuesByRule(r *command.Run, api *client.Client) (map[string][]string, error) {
	queues, err := api.Queues(r.Ctx)
	users := map[string][]string{}
	for i := range queues {
		for _, name := range queues[i].Rules {
			users[name] = append(users[name], queues[i].Name)
		}
	}
	return users, err
}

// surplus returns the rules that are not in the file, and asks whether to delete the unused ones.
func (c *RulesCmd) surplus(r *command.Run, api *client.Client, file []rules.Rule) ([]Result, error) {
	stored, err := api.Rules(r.Ctx)
	if err != nil {
		return nil, err
	}
	users, err := QueuesByRule(r, api)
	if err != nil {
		return nil, err
	}
	stays := map[string]bool{}
	for i := range file {
		stays[file[i].Name] = true
	}
	list, removed := []Result{}, int64(0)
	for i := range stored {
		name := stored[i].Name
		if stays[name] {
			continue
		}
		a := Result{
			Rule: name, Action: actionRemoved, Revision: stored[i].Revision, Changes: []changes.Field{},
			Surplus: &surplus{AskedBy: users[name]},
		}
		if len(users[name]) > 0 {
			a.leave(RuleInUse)
		} else {
			removed++
		}
		list = append(list, a)
	}
	return list, c.confirmPrune(r, list, show.Count(removed, "rule"), "what was taken")
}

// remove deletes a rule at the revision that was listed; see QueuesCmd.remove.
func (c *RulesCmd) remove(r *command.Run, api *client.Client, a Result) (Result, error) {
	if c.DryRun || a.Action == actionLeft {
		return a, nil
	}
	err := api.DeleteRule(r.Ctx, a.Rule, a.Revision, false)
	switch {
	case command.Refused(err, "unknown_rule"): // already deleted
		return a, nil
	case command.Refused(err, RuleInUse): // since it was listed
		a.leave(RuleInUse)
		return a, nil
	}
	return a, err
}

// ruleText describes what happens, or would happen, to a rule that is not in the file.
func (s *surplus) ruleText(name string, would bool) string {
	kept := "was kept"
	if would {
		kept = "would be kept"
	}
	switch {
	case s.Reason != "" && len(s.AskedBy) == 0:
		return fmt.Sprintf("rule %s is not in the file, but a queue uses it now: it %s", name, kept)
	case s.Reason != "":
		return fmt.Sprintf("rule %s is not in the file, but %s uses it: it %s", name, strings.Join(s.AskedBy, ", "), kept)
	case would:
		return fmt.Sprintf("rule %s would be deleted: no queue uses it", name)
	}
	return fmt.Sprintf("rule %s deleted", name)
}
