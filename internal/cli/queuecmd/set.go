package queuecmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/penstock/penstock/internal/assign"
	"github.com/penstock/penstock/internal/cli/applycmd"
	"github.com/penstock/penstock/internal/cli/changes"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/preset"
)

type setCmd struct {
	Name     string   `arg:"" help:"Name of the queue."`
	Settings []string `arg:"" optional:"" help:"Settings, as FIELD=VALUE." placeholder:"FIELD=VALUE"`
	settingFlags
	Preset   string `env:"-" help:"Provider whose settings to start from; see below." placeholder:"NAME"`
	Revision int64  `help:"Revision that the queue must have. Default: the current one." placeholder:"N"`
	command.Output
}

func (setCmd) Help() string {
	return `Creates the queue if it does not exist; then a rate is required. Fields:

` + fieldList() + `
An empty value restores the default. A new rate applies to waiting jobs at once. Some settings also
have flags, which stand before or after the fields.

Lists: limits.0.quota=50000/d limits.0.timezone=Europe/Berlin adds a quota, and limits.1.rate=500/m a
further rate; limits.0= removes the first limit, limits= removes all. rules.0=otp.per-address applies a
rule to each job that arrives, rules.1=tenants another rule; rules= removes all rules.

Lanes: lanes.overrides.KEY.rate and similar fields replace all limits of one lane; KEY may contain dots.
lanes.overrides.KEY= removes the override.

Presets set pull and deliver for calls to a provider through the proxy, but not the rate. Fields given
with --preset override it. Each needs its secret, and a rule that allows sending it:

` + presetList() + `
Examples:
  penstock queue set email rate=14/s capacity=10000
  penstock queue set email deliver.http.url=https://api.example.com/v1/send
  penstock queue set email retry.max_attempts=
  penstock queue set email limits.0.quota=50000/d limits.0.timezone=Europe/Berlin
  penstock queue set email overflow=defer deferred.max_age=6h
  penstock queue set email --lane-rate 2/s lanes.overrides.gmail.com.rate=10/s
  penstock queue set openai --preset openai rate=500/m
  penstock queue set email --overflow defer --readmit-between 22:00-06:00 --timezone Europe/Berlin

The change fails with exit code 3 if someone else changed the queue meanwhile.`
}

func (c *setCmd) Run(r *command.Run, k *kong.Context, api *client.Client) error {
	settings, err := withFlags(c.Settings, k.Flags())
	if err != nil {
		return command.Usage(err)
	}
	if len(settings) == 0 && c.Preset == "" {
		return command.Usage(errors.New("no settings given: use FIELD=VALUE, such as rate=14/s"))
	}
	old, revision, err := c.read(r, api)
	if err != nil {
		return err
	}
	spec, err := c.change(old, settings)
	if err != nil {
		return command.Usage(err)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encode the spec as JSON: %w", err)
	}
	q, err := api.Put(r.Ctx, c.Name, text, revision)
	var refused *client.Problem
	if errors.As(err, &refused) && refused.Field == "rate" && revision == client.Absent && spec["rate"] == nil {
		return command.Fail(command.ExitRefused, fmt.Errorf(
			"there is no queue %s%s; to create it, give a rate, such as rate=14/s", c.Name, r.NearQueue(c.Name),
		))
	}
	if err != nil {
		return fmt.Errorf("queue %s: %w", c.Name, err)
	}
	if c.JSON() {
		return command.PrintJSON(r.Out, q)
	}
	applycmd.SayWarnings(r, &q)
	if revision == client.Absent {
		_, err = fmt.Fprintf(r.Out, "%s created, revision %d\n", c.Name, q.Revision)
		return err
	}
	now, err := assign.Tree(q.Spec)
	if err != nil {
		return err
	}
	fields := changes.WithSecret(changes.BetweenTrees(old, now), q.Revision != revision)
	return changes.Print(r.Out, c.Name, q.Revision, fields)
}

// change returns a spec with the preset, and with the settings over it.
func (c *setCmd) change(old map[string]any, settings []string) (map[string]any, error) {
	if c.Preset == "" {
		return assign.To(old, settings)
	}
	p, err := preset.Find(c.Preset)
	if err != nil {
		return nil, fmt.Errorf("--preset: %w", err)
	}
	spec, err := p.Over(old)
	if err != nil {
		return nil, err
	}
	if spec, err = assign.To(spec, settings); err != nil {
		return nil, err
	}
	return spec, p.CheckURL(spec)
}

// presetList lists the presets for the help.
func presetList() string {
	all, err := preset.All()
	if err != nil {
		return err.Error() + "\n"
	}
	var list strings.Builder
	for _, p := range all {
		fmt.Fprintf(&list, "  %-10s %-46s %s\n", p.Name, p.About, strings.Join(p.Secrets, ", "))
	}
	return list.String()
}

// read returns the present spec, empty if there is no queue, and the revision that the change requires.
func (c *setCmd) read(r *command.Run, api *client.Client) (map[string]any, int64, error) {
	q, err := api.Queue(r.Ctx, c.Name)
	if command.Refused(err, "unknown_queue") && c.Revision == 0 {
		return map[string]any{}, client.Absent, nil
	}
	if err != nil {
		return nil, 0, err
	}
	spec, err := assign.Tree(q.Spec)
	if c.Revision != 0 {
		return spec, c.Revision, err
	}
	return spec, q.Revision, err
}
