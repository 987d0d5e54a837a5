// Package rulecmd has the commands about rules.
package rulecmd

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/cli/applycmd"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/rules"
)

// Cmd is penstock rule.
type Cmd struct {
	command.Connection
	Ls      lsCmd             `cmd:"" help:"List rules."`
	Info    infoCmd           `cmd:"" help:"Show a rule."`
	Top     topCmd            `cmd:"" help:"Show the keys with the most requests and refusals of a rule."`
	Log     logCmd            `cmd:"" help:"Show the history of changes to a rule."`
	Apply   applycmd.RulesCmd `cmd:"" help:"Apply the rules of a file, and show the changes."`
	Take    takeCmd           `cmd:"" help:"Take from a rule, if it allows."`
	Peek    peekCmd           `cmd:"" help:"Show what a rule would answer, without taking."`
	Correct correctCmd        `cmd:"" help:"Charge the actual cost of a take."`
	Refund  refundCmd         `cmd:"" help:"Give back what was taken and not used."`
	Reset   resetCmd          `cmd:"" help:"Forget what was taken from a rule."`
	Rm      rmCmd             `cmd:"" help:"Delete a rule."`
}

type lsCmd struct{ command.Output }

func (c *lsCmd) Run(r *command.Run, api *client.Client) error {
	list, err := api.Rules(r.Ctx)
	if err != nil {
		return err
	}
	users, err := applycmd.QueuesByRule(r, api)
	if err != nil {
		return err
	}
	for i := range list {
		list[i].Queues = users[list[i].Name]
	}
	return command.List(r, c.Output, list, "no rules; create some with \"penstock rule apply -f FILE\"\n",
		command.NewTable("NAME", "ALGORITHM", "ALLOWS", "COUNTS BY", "DOES", "STORE AWAY", ">OVERRIDES", "QUEUES"),
		func(rule *wire.Rule) []string {
			return []string{
				rule.Name, string(rule.Algorithm), boundText(rule.Bound), keyText(rule), rule.Action, rule.Away,
				show.Int(int64(len(rule.Overrides))), strings.Join(rule.Queues, " "),
			}
		})
}

// ruleWithQueues returns a rule with the queues of all groups that use it.
func ruleWithQueues(r *command.Run, api *client.Client, name string) (rule wire.Rule, err error) {
	if rule, err = api.Rule(r.Ctx, name); err != nil {
		return rule, err
	}
	users, err := applycmd.QueuesByRule(r, api)
	rule.Queues = users[name]
	return rule, err
}

// keyText describes what a rule counts by.
func keyText(rule *wire.Rule) string {
	if rule.Key == "" {
		return "all as one"
	}
	return rule.Key
}

// boundText describes what a rule allows.
func boundText(b rules.Bound) string {
	switch {
	case !b.Rate.Unlimited():
		return fmt.Sprintf("%s, %d at once", b.Rate, b.Burst)
	case b.Limit == 0:
		return fmt.Sprintf("one each %v", b.Period)
	case b.TTL > 0:
		return fmt.Sprintf("%d at a time, each for %v", b.Limit, b.TTL)
	case b.Resolution > 0:
		return fmt.Sprintf("%d in %v, to %v", b.Limit, b.Period, b.Resolution)
	}
	return fmt.Sprintf("%d in %v", b.Limit, b.Period)
}

type infoCmd struct {
	Name string `arg:"" help:"Name of the rule."`
	command.Output
}

func (c *infoCmd) Run(r *command.Run, api *client.Client) error {
	rule, err := ruleWithQueues(r, api, c.Name)
	if err != nil {
		return err
	}
	return c.Print(r, rule, func() string { return ruleText(&rule) })
}

func ruleText(rule *wire.Rule) string {
	text := command.Facts(
		"name", rule.Name,
		"allows", fmt.Sprintf("%s (%s), revision %d", boundText(rule.Bound), rule.Algorithm, rule.Revision),
		"counts by", keyText(rule),
		"a job over the limit", actionText(rule.Action),
		"store away", awayText(rule.Away),
		"keys", keysText(rule.Keys),
		"queues", strings.Join(rule.Queues, " "),
	)
	if len(rule.Overrides) == 0 {
		return text
	}
	t := command.NewTable("KEY", "ALLOWS")
	for _, key := range slices.Sorted(maps.Keys(rule.Overrides)) {
		t.Row(key, boundText(rule.Overrides[key]))
	}
	return text + "\n" + t.String()
}

// keysText returns the number of keys that a rule has.
func keysText(k *wire.RuleKeys) string {
	if k == nil {
		return ""
	}
	return fmt.Sprintf("about %d of at most %d", k.Held, k.Max)
}

func actionText(action string) string {
	switch action {
	case rules.Defer:
		return "is deferred, if there is an overflow"
	case rules.Shadow:
		return "comes in, and is counted"
	}
	return "is refused"
}

func awayText(away string) string {
	switch away {
	case rules.AwayOpen:
		return "everything passes"
	case rules.AwayShare:
		return "each ingress lets its share pass"
	}
	return "nothing passes"
}

type rmCmd struct {
	Name  string `arg:"" help:"Name of the rule."`
	Force bool   `help:"Delete it although queues of other groups use it. They refuse all jobs from then on."`
}

func (rmCmd) Help() string {
	return `What was taken from the rule is forgotten. A rule that queues use is not deleted (exit code 3). With
--force it is deleted unless a queue of its own group uses it: the other queues then refuse their jobs
with rule_missing, to be sent again, until the rule exists again or the queues no longer name it.

Examples:
  penstock rule rm otp.per-address
  penstock rule rm tenants --force`
}

func (c *rmCmd) Run(r *command.Run, api *client.Client) error {
	rule, err := ruleWithQueues(r, api, c.Name)
	if err != nil {
		return err
	}
	err = api.DeleteRule(r.Ctx, c.Name, rule.Revision, c.Force) // at the revision seen; see queue rm
	var refused *client.Problem
	if errors.As(err, &refused) && refused.Reason == applycmd.RuleInUse {
		users := rule.Queues
		if len(users) == 0 { // they have used it only since then; the server names only the first
			users = refused.Queues
		}
		return command.Fail(command.ExitRefused, fmt.Errorf(
			"rule %s is used by %s and was not deleted%s", c.Name, firstNames(users), howToDelete(c.Name, users),
		))
	}
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(r.Out, "%s deleted\n", c.Name); err != nil || len(rule.Queues) == 0 {
		return err
	}
	r.Say("%s will refuse all jobs (rule_missing) until the rule exists again or they no longer name it",
		firstNames(rule.Queues))
	return nil
}

// howToDelete says how to delete a rule that queues use.
func howToDelete(rule string, users []string) string {
	how := "; remove it from their rules first"
	for _, name := range users {
		if names.Group(name) == names.Group(rule) {
			return how
		}
	}
	return how + ", or use --force: then they refuse all jobs"
}

// maxNames is the maximum number of queues that a message names.
const maxNames = 10

func firstNames(queues []string) string {
	switch n := len(queues); {
	case n == 0:
		return "a queue"
	case n > maxNames:
		return strings.Join(queues[:maxNames], ", ") + " and more"
	}
	return strings.Join(queues, ", ")
}
