package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type appCmd struct {
	connection
	Ls   appLsCmd   `cmd:"" help:"List apps."`
	Info appInfoCmd `cmd:"" help:"Tell all about one app."`
	Put  appPutCmd  `cmd:"" help:"Make an app, or change it."`
	Rm   appRmCmd   `cmd:"" help:"Remove an app, and with it its tokens."`
}

type appLsCmd struct{ output }

func (c *appLsCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	apps, err := api.Apps(r.ctx)
	if err != nil {
		return err
	}
	if c.json() {
		return printJSON(r.Out, orEmpty(apps))
	}
	if len(apps) == 0 {
		_, err = fmt.Fprintln(r.Out, `no apps; "penstock app put NAME --prefix 'NAME-*'" makes one`)
		return err
	}
	t := table{header: []string{"NAME", "NAMES", "LIMITS", "NOTE"}}
	for i := range apps {
		a := &apps[i]
		limits, err := appLimits(a)
		if err != nil {
			return err
		}
		t.add(a.Name, joined(a.Prefixes), limits, a.Note)
	}
	_, err = fmt.Fprint(r.Out, t.String())
	return err
}

// orEmpty is a list that JSON shows as one though nothing is in it.
func orEmpty[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// appLimits are the limits of an app as --limit takes them.
func appLimits(a *wire.App) (string, error) {
	text, err := json.Marshal(a.Limits)
	if err != nil {
		return "", fmt.Errorf("the limits of app %s: %w", a.Name, err)
	}
	var limits map[string]any
	if err := json.Unmarshal(text, &limits); err != nil {
		return "", fmt.Errorf("the limits of app %s: %w", a.Name, err)
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		all = append(all, fmt.Sprintf("%s=%v", name, limits[name]))
	}
	return joined(all), nil
}

type appInfoCmd struct {
	Name string `arg:"" help:"Name of the app."`
	output
}

func (c *appInfoCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	app, err := api.App(r.ctx, c.Name)
	if err != nil {
		return err
	}
	if c.json() {
		return printJSON(r.Out, app)
	}
	return printApp(r, &app)
}

func printApp(r *run, a *wire.App) error {
	limits, err := appLimits(a)
	if err != nil {
		return err
	}
	return facts(r.Out,
		"name", fmt.Sprintf("%s, revision %d", a.Name, a.Revision),
		"names", joined(a.Prefixes),
		"limits", limits,
		"secrets", joined(a.Secrets),
		"hosts", joined(a.Hosts),
		"senders", joined(a.Senders),
		"note", a.Note,
	)
}

type appPutCmd struct {
	Name   string   `arg:"" help:"Name of the app."`
	Prefix []string `env:"-" placeholder:"PREFIX"`
	Limit  []string `env:"-" placeholder:"NAME=VALUE"`
	Secret []string `env:"-" placeholder:"PATTERN"`
	Host   []string `env:"-" help:"Hosts where its targets may be. May be repeated." placeholder:"PATTERN"`
	Sender []string `env:"-" help:"Senders that its messages may have. May be repeated." placeholder:"PATTERN"`
	Note   *string  `env:"-" help:"What people should know about it."`
	Adopt  bool     `env:"-" help:"Let it have the queues, rules and jobs that are left under its names."`
	output
}

// LongHelp is the help that is too long for the tags.
func (appPutCmd) LongHelp() map[string]string {
	return map[string]string{
		"prefix": "Names of queues and rules that are its own: 'acme-*' for all that begin so, or ses.otp. May be " +
			"repeated.",
		"limit": "How much it may have: queues, rules, lanes, bytes, streams, waits, handlers (its share of each " +
			"drainer's, such as 0.25) or rate (of requests, such as 100/s). Nothing behind = is no limit. May " +
			"be repeated.",
		"secret": "Secrets that its targets may name; * stands for anything. May be repeated.",
	}
}

// Help is shown below the flags.
func (appPutCmd) Help() string {
	return `What is not given stays as it is; a list that is given takes the place of the one there.
The change is made only if nobody else changed the app meanwhile. An app has tokens of its
own, which see and change nothing but its names: see "penstock token create".

Examples:
  penstock app put acme --prefix 'acme-*' --limit queues=20 --limit rate=100/s
  penstock app put acme --prefix 'acme-*' --prefix ses.otp --secret 'ACME_*' --host '*.acme.example'
  penstock app put acme --limit rate=`
}

func (c *appPutCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	present, err := api.App(r.ctx, c.Name)
	revision := present.Revision
	if isReason(err, "unknown_app") {
		revision, err = client.Absent, nil
	}
	if err != nil {
		return err
	}
	text, err := c.text(&present)
	if err != nil {
		return err
	}
	app, err := api.PutApp(r.ctx, c.Name, text, revision, c.Adopt)
	if err != nil {
		return fmt.Errorf("app %s: %w", c.Name, err)
	}
	if c.json() {
		return printJSON(r.Out, app)
	}
	return printApp(r, &app)
}

// text is the app with what is given in place of what was there.
func (c *appPutCmd) text(present *wire.App) (json.RawMessage, error) {
	fields := map[string]any{}
	for name, value := range map[string]struct{ given, there []string }{
		"prefixes": {c.Prefix, present.Prefixes}, "secrets": {c.Secret, present.Secrets}, "hosts": {c.Host, present.Hosts},
		"senders": {c.Sender, present.Senders},
	} {
		if len(value.given) > 0 {
			value.there = slices.DeleteFunc(value.given, func(s string) bool { return s == "" })
		}
		if len(value.there) > 0 {
			fields[name] = value.there
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
	text, err := json.Marshal(present.Limits)
	limits := map[string]any{}
	if err = errors.Join(err, json.Unmarshal(text, &limits)); err != nil {
		return nil, fmt.Errorf("the limits of app %s: %w", c.Name, err)
	}
	for _, given := range c.Limit {
		name, value, ok := strings.Cut(given, "=")
		if !ok || name == "" {
			return nil, usage(fmt.Errorf("--limit %s: must be NAME=VALUE, such as queues=20", given))
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
	Yes  bool   `help:"Do not ask." short:"y"`
}

// Help is shown below the flags.
func (appRmCmd) Help() string {
	return `Its tokens and subjects end at once. Its queues and rules stay, with their jobs, and are the
operator's.

Examples:
  penstock app rm acme
  penstock app rm acme --yes`
}

func (c *appRmCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	app, err := api.App(r.ctx, c.Name)
	if err != nil {
		return err
	}
	if !c.Yes {
		if err := confirm(r, c.Name, fmt.Sprintf("All tokens of app %s end", plain(c.Name))); err != nil {
			return err
		}
	}
	if err := api.DeleteApp(r.ctx, c.Name, app.Revision); err != nil { // the one that was looked at; see queue rm
		return fmt.Errorf("app %s: %w", c.Name, err)
	}
	_, err = fmt.Fprintf(r.Out, "%s removed\n", c.Name)
	return err
}
