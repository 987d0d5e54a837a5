// Package accesscmd has the commands about access: apps, tokens, subjects and logins.
package accesscmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// AppCmd is penstock app.
type AppCmd struct {
	command.Connection
	Ls   appLsCmd   `cmd:"" help:"List apps."`
	Info appInfoCmd `cmd:"" help:"Show an app."`
	Put  appPutCmd  `cmd:"" help:"Create or change an app."`
	Rm   appRmCmd   `cmd:"" help:"Delete an app and its tokens."`
}

type appLsCmd struct{ command.Output }

func (c *appLsCmd) Run(r *command.Run, api *client.Client) error {
	apps, err := api.Apps(r.Ctx)
	if err != nil {
		return err
	}
	limits := map[string]string{}
	for i := range apps {
		if limits[apps[i].Name], err = appLimits(&apps[i]); err != nil {
			return err
		}
	}
	return command.List(r, c.Output, apps, "no apps; create one with \"penstock app put NAME --prefix 'NAME-*'\"\n",
		command.NewTable("NAME", "NAMES", "LIMITS", "NOTE"), func(a *wire.App) []string {
			return []string{a.Name, joined(a.Prefixes), limits[a.Name], a.Note}
		})
}

// appLimits returns the limits of an app as --limit takes them.
func appLimits(a *wire.App) (string, error) {
	limits, err := limitsOf(a)
	if err != nil {
		return "", err
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		all = append(all, fmt.Sprintf("%s=%v", name, limits[name]))
	}
	return joined(all), nil
}

func limitsOf(a *wire.App) (map[string]any, error) {
	text, err := json.Marshal(a.Limits)
	limits := map[string]any{}
	if err = errors.Join(err, json.Unmarshal(text, &limits)); err != nil {
		return nil, fmt.Errorf("limits of app %s: %w", a.Name, err)
	}
	return limits, nil
}

type appInfoCmd struct {
	Name string `arg:"" help:"Name of the app."`
	command.Output
}

func (c *appInfoCmd) Run(r *command.Run, api *client.Client) error {
	app, err := api.App(r.Ctx, c.Name)
	if err != nil {
		return err
	}
	return printApp(r, c.Output, &app)
}

func printApp(r *command.Run, o command.Output, a *wire.App) error {
	limits, err := appLimits(a)
	if err != nil {
		return err
	}
	return o.Print(r, a, func() string {
		return command.Facts(
			"name", fmt.Sprintf("%s, revision %d", a.Name, a.Revision),
			"names", joined(a.Prefixes),
			"limits", limits,
			"secrets", joined(a.Secrets),
			"hosts", joined(a.Hosts),
			"senders", joined(a.Senders),
			"note", a.Note,
		)
	})
}

type appPutCmd struct {
	Name   string   `arg:"" help:"Name of the app."`
	Prefix []string `env:"-" placeholder:"PREFIX"`
	Limit  []string `env:"-" placeholder:"NAME=VALUE"`
	Secret []string `env:"-" placeholder:"PATTERN"`
	Host   []string `env:"-" help:"Hosts that its targets may use. May be repeated." placeholder:"PATTERN"`
	Sender []string `env:"-" help:"Senders that its messages may have. May be repeated." placeholder:"PATTERN"`
	Note   *string  `env:"-" help:"Note for people."`
	Adopt  bool     `env:"-" help:"Take over existing queues, rules and jobs with its names."`
	command.Output
}

func (appPutCmd) LongHelp() map[string]string {
	return map[string]string{
		"prefix": "Names of queues and rules that belong to it: a name such as ses.otp, or 'acme-*' for a prefix. May be " +
			"repeated.",
		"limit": "Maximum number of queues, rules, lanes, bytes, streams or waits, share of the handlers of each drainer " +
			"(handlers=0.25), or rate of requests (rate=100/s). An empty value removes the limit. May be repeated.",
		"secret": "Secrets that its targets may use; * matches anything. May be repeated.",
	}
}

func (appPutCmd) Help() string {
	return `Options that are not given keep their values; a given list replaces the present one. The change fails
if someone else changed the app meanwhile. Tokens of an app can use only its names: see "penstock
token create".

Examples:
  penstock app put acme --prefix 'acme-*' --limit queues=20 --limit rate=100/s
  penstock app put acme --prefix 'acme-*' --prefix ses.otp --secret 'ACME_*' --host '*.acme.example'
  penstock app put acme --limit rate=`
}

func (c *appPutCmd) Run(r *command.Run, api *client.Client) error {
	present, err := api.App(r.Ctx, c.Name)
	revision := present.Revision
	if command.Refused(err, "unknown_app") {
		revision, err = client.Absent, nil
	}
	if err != nil {
		return err
	}
	text, err := c.merge(&present)
	if err != nil {
		return err
	}
	app, err := api.PutApp(r.Ctx, c.Name, text, revision, c.Adopt)
	if err != nil {
		return fmt.Errorf("app %s: %w", c.Name, err)
	}
	return printApp(r, c.Output, &app)
}

// merge returns the present app, changed by the flags.
func (c *appPutCmd) merge(present *wire.App) (json.RawMessage, error) {
	fields := map[string]any{}
	for name, list := range map[string]struct{ given, present []string }{
		"prefixes": {c.Prefix, present.Prefixes}, "secrets": {c.Secret, present.Secrets}, "hosts": {c.Host, present.Hosts},
		"senders": {c.Sender, present.Senders},
	} {
		if len(list.given) > 0 {
			list.present = slices.DeleteFunc(list.given, func(s string) bool { return s == "" })
		}
		if len(list.present) > 0 {
			fields[name] = list.present
		}
	}
	if note := present.Note; c.Note != nil {
		fields["note"] = *c.Note
	} else if note != "" {
		fields["note"] = note
	}
	limits, err := c.limits(present)
	if err != nil {
		return nil, err
	}
	fields["limits"] = limits
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("app %s: %w", c.Name, err)
	}
	return text, nil
}

func (c *appPutCmd) limits(present *wire.App) (map[string]any, error) {
	limits, err := limitsOf(present)
	if err != nil {
		return nil, err
	}
	for _, given := range c.Limit {
		name, value, ok := strings.Cut(given, "=")
		if !ok || name == "" {
			return nil, command.Usage(fmt.Errorf("--limit %s: must be NAME=VALUE, such as queues=20", given))
		}
		switch _, err := strconv.ParseFloat(value, 64); {
		case value == "":
			delete(limits, name)
		case err == nil:
			limits[name] = json.Number(value)
		default:
			limits[name] = value
		}
	}
	return limits, nil
}

type appRmCmd struct {
	Name string `arg:"" help:"Name of the app."`
	command.Confirmation
}

func (appRmCmd) Help() string {
	return `Its tokens and subjects are revoked at once. Its queues and rules, with their jobs, pass to the
operator.

Examples:
  penstock app rm acme
  penstock app rm acme --yes`
}

func (c *appRmCmd) Run(r *command.Run, api *client.Client) error {
	app, err := api.App(r.Ctx, c.Name)
	if err != nil {
		return err
	}
	if err := c.Confirm(r, c.Name, fmt.Sprintf("All tokens of app %s will be revoked", c.Name)); err != nil {
		return err
	}
	if err := api.DeleteApp(r.Ctx, c.Name, app.Revision); err != nil { // at the revision seen; see queue rm
		return fmt.Errorf("app %s: %w", c.Name, err)
	}
	_, err = fmt.Fprintf(r.Out, "%s deleted\n", c.Name)
	return err
}
