package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/rules"
)

type ruleCmd struct {
	connection
	Ls     ruleLsCmd     `cmd:"" help:"List rules."`
	Info   ruleInfoCmd   `cmd:"" help:"Tell all about one rule."`
	Top    ruleTopCmd    `cmd:"" help:"Tell by which keys a rule is asked and refuses most."`
	Log    ruleLogCmd    `cmd:"" help:"Tell what was done to a rule, and by whom as they say."`
	Apply  ruleApplyCmd  `cmd:"" help:"Bring rules in line with a file, and show what changed."`
	Take   ruleTakeCmd   `cmd:"" help:"Ask a rule, and take if it allows."`
	Peek   rulePeekCmd   `cmd:"" help:"Ask what a rule would say. Nothing is taken."`
	Refund ruleRefundCmd `cmd:"" help:"Give back what was taken and not used."`
	Reset  ruleResetCmd  `cmd:"" help:"Forget what was taken."`
	Rm     ruleRmCmd     `cmd:"" help:"Remove a rule."`
}

type ruleLsCmd struct{ output }

func (c *ruleLsCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	list, err := api.Rules(r.ctx)
	if err != nil {
		return err
	}
	asked, err := askedBy(r, api)
	if err != nil {
		return err
	}
	for i := range list {
		list[i].Queues = asked[list[i].Name]
	}
	if c.json() {
		return printJSON(r.Out, list)
	}
	_, err = fmt.Fprint(r.Out, ruleTable(list))
	return err
}

// askedBy names the queues that ask each rule, of all groups; the server tells of a rule only those of its own.
func askedBy(r *run, api *client.Client) (map[string][]string, error) {
	queues, err := api.Queues(r.ctx)
	asked := map[string][]string{}
	for i := range queues {
		for _, name := range queues[i].Rules {
			asked[name] = append(asked[name], queues[i].Name)
		}
	}
	return asked, err
}

// ruleAndQueues returns a rule with the queues of all groups that ask it.
func ruleAndQueues(r *run, name string) (api *client.Client, rule wire.Rule, err error) {
	if api, err = r.client(); err != nil {
		return nil, rule, err
	}
	if rule, err = api.Rule(r.ctx, name); err != nil {
		return nil, rule, err
	}
	asked, err := askedBy(r, api)
	rule.Queues = asked[name]
	return api, rule, err
}

func ruleTable(list []wire.Rule) string {
	if len(list) == 0 {
		return "no rules; \"penstock rule apply -f FILE\" makes those of a file\n"
	}
	t := table{
		header: []string{"NAME", "ALGORITHM", "ALLOWS", "COUNTS BY", "DOES", "STORE AWAY", "OVERRIDES", "QUEUES"},
		right:  map[int]bool{6: true},
	}
	for i := range list {
		rule := &list[i]
		t.add(
			rule.Name, string(rule.Algorithm), boundOf(rule.Bound), keyOf(rule), rule.Action, rule.Away,
			num(int64(len(rule.Overrides))), strings.Join(rule.Queues, " "),
		)
	}
	return t.String()
}

// keyOf is by what jobs are counted.
func keyOf(rule *wire.Rule) string {
	if rule.Key == "" {
		return "all as one"
	}
	return plain(rule.Key)
}

// boundOf says what passes.
func boundOf(b rules.Bound) string {
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

type ruleInfoCmd struct {
	Name string `arg:"" help:"Name of the rule."`
	output
}

func (c *ruleInfoCmd) Run(r *run) error {
	_, rule, err := ruleAndQueues(r, c.Name)
	if err != nil {
		return err
	}
	if c.json() {
		return printJSON(r.Out, rule)
	}
	err = facts(r.Out,
		"name", rule.Name,
		"allows", fmt.Sprintf("%s (%s), revision %d", boundOf(rule.Bound), rule.Algorithm, rule.Revision),
		"counts by", keyOf(&rule),
		"a job it refuses", actionOf(rule.Action),
		"store away", awayOf(rule.Away),
		"keys", keysOf(rule.Keys),
		"queues", strings.Join(rule.Queues, " "),
	)
	if err != nil || len(rule.Overrides) == 0 {
		return err
	}
	t := table{header: []string{"KEY", "ALLOWS"}}
	for _, key := range slices.Sorted(maps.Keys(rule.Overrides)) {
		t.add(plain(key), boundOf(rule.Overrides[key]))
	}
	_, err = fmt.Fprintf(r.Out, "\n%s", t.String())
	return err
}

// keysOf is how many keys a rule holds.
func keysOf(k *wire.RuleKeys) string {
	if k == nil {
		return ""
	}
	return fmt.Sprintf("about %d of at most %d", k.Held, k.Max)
}

func actionOf(action string) string {
	switch action {
	case rules.Defer:
		return "is deferred, if there is an overflow"
	case rules.Shadow:
		return "comes in, and is counted"
	}
	return "is turned away"
}

func awayOf(away string) string {
	switch away {
	case rules.AwayOpen:
		return "all pass"
	case rules.AwayShare:
		return "each ingress lets its share pass"
	}
	return "none passes"
}

type ruleRmCmd struct {
	Name  string `arg:"" help:"Name of the rule."`
	Force bool   `help:"Remove it though queues of other groups ask it; none of their jobs is then taken."`
}

// Help is shown below the flags.
func (ruleRmCmd) Help() string {
	return `What was taken from it is forgotten. A rule that queues ask is left alone (exit code 3),
and the queues are named. With --force it is removed if none of them is of its own group:
then their jobs are refused with rule_missing, to be sent again, until the rule is there
again or the queues do not name it.

Examples:
  penstock rule rm otp.per-address
  penstock rule rm tenants --force`
}

func (c *ruleRmCmd) Run(r *run) error {
	api, rule, err := ruleAndQueues(r, c.Name)
	if err != nil {
		return err
	}
	// At the revision that was looked at; see queue rm.
	err = api.DeleteRule(r.ctx, c.Name, rule.Revision, c.Force)
	var refused *client.Problem
	if errors.As(err, &refused) && refused.Reason == reasonAsked {
		asking := rule.Queues
		if len(asking) == 0 { // they have come to ask it since; these are but the first
			asking = refused.Queues
		}
		return &ended{ExitRefused, fmt.Errorf(
			"rule %s is asked by %s and was left alone%s", c.Name, some(asking), wayOut(c.Name, asking),
		)}
	}
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(r.Out, "%s removed\n", c.Name); err != nil || len(rule.Queues) == 0 {
		return err
	}
	r.say(
		"none of the jobs of %s is taken (rule_missing) until the rule is there again, or they do not name it",
		some(rule.Queues),
	)
	return nil
}

// wayOut says how a rule can be removed that queues ask.
func wayOut(rule string, asking []string) string {
	out := "; take it out of their rules first"
	for _, name := range asking {
		if names.Group(name) == names.Group(rule) {
			return out
		}
	}
	return out + ", or remove it with --force: then none of their jobs is taken"
}

// some names a few of what may be many.
func some(queues []string) string {
	switch n := len(queues); {
	case n == 0:
		return "a queue"
	case n > mostNamed:
		return fmt.Sprintf("%s and more", strings.Join(queues[:mostNamed], ", "))
	}
	return strings.Join(queues, ", ")
}

// mostNamed is how many queues a message names.
const mostNamed = 10
