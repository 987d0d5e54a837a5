package queuecmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/penstock/penstock/internal/cli/applycmd"
	"github.com/penstock/penstock/internal/cli/changes"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/invalid"
)

type setCmd struct {
	Name     string   `arg:"" help:"Name of the queue."`
	Settings []string `arg:"" optional:"" help:"Settings, as FIELD=VALUE." placeholder:"FIELD=VALUE"`
	settingFlags
	Revision int64 `help:"Revision that the queue must have. Default: the current one." placeholder:"N"`
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

Examples:
  penstock queue set email rate=14/s capacity=10000
  penstock queue set email deliver.http.url=https://api.example.com/v1/send
  penstock queue set email retry.max_attempts=
  penstock queue set email limits.0.quota=50000/d limits.0.timezone=Europe/Berlin
  penstock queue set email overflow=defer deferred.max_age=6h
  penstock queue set email --lane-rate 2/s lanes.overrides.gmail.com.rate=10/s
  penstock queue set email --overflow defer --readmit-between 22:00-06:00 --timezone Europe/Berlin

The change fails with exit code 3 if someone else changed the queue meanwhile.`
}

func (c *setCmd) Run(r *command.Run, k *kong.Context, api *client.Client) error {
	settings, err := withFlags(c.Settings, k.Flags())
	if err != nil {
		return command.Usage(err)
	}
	old, revision, err := c.read(r, api)
	if err != nil {
		return err
	}
	spec, err := withSettings(old, settings)
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
	now, err := changes.Tree(q.Spec)
	if err != nil {
		return err
	}
	fields := changes.WithSecret(changes.BetweenTrees(old, now), q.Revision != revision)
	return changes.Print(r.Out, c.Name, q.Revision, fields)
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
	spec, err := changes.Tree(q.Spec)
	if c.Revision != 0 {
		return spec, c.Revision, err
	}
	return spec, q.Revision, err
}

// withSettings returns a copy of a spec, changed by settings of the form FIELD=VALUE.
func withSettings(spec map[string]any, settings []string) (map[string]any, error) {
	out, err := changes.Tree(spec)
	if err != nil {
		return nil, err
	}
	for _, s := range settings {
		field, text, ok := strings.Cut(s, "=")
		if !ok || field == "" {
			return nil, fmt.Errorf("%q: must be FIELD=VALUE, such as rate=14/s", s)
		}
		path := pathOf(field)
		var value any // nil removes the field
		if text != "" {
			value = valueOf(text)
			if n, ok := number(text); ok && path[0] != "deliver" {
				value = n
			}
		}
		if err := checkOverride(out, path, value); err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		if _, err := with(out, path, value); err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
	}
	return out, nil
}

// checkOverride refuses to remove an override that does not exist if a lane with a similar key has one.
func checkOverride(spec map[string]any, path []string, value any) error {
	if value != nil || len(path) < 3 || path[0] != "lanes" || path[1] != "overrides" {
		return nil
	}
	lanes, _ := spec["lanes"].(map[string]any)
	overrides, _ := lanes["overrides"].(map[string]any)
	if _, ok := overrides[path[2]]; ok {
		return nil
	}
	if near := invalid.DidYouMean(path[2], slices.Sorted(maps.Keys(overrides))); near != "" {
		return fmt.Errorf("the lane has no override%s", near)
	}
	return nil
}

// with returns a part of a spec with a value at the end of a path; a nil value removes it. Items of a list are named by
// their indexes, and the next index adds an item.
func with(part any, path []string, value any) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	name := path[0]
	switch tree := part.(type) {
	case nil:
		if name == "0" {
			return with([]any{}, path, value)
		}
		return with(map[string]any{}, path, value)
	case map[string]any:
		below, err := with(tree[name], path[1:], value)
		if err != nil {
			return nil, err
		}
		if below == nil {
			delete(tree, name)
		} else {
			tree[name] = below
		}
		return tree, nil
	case []any:
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i > len(tree) {
			return nil, fmt.Errorf("%s must be an index of its %d items, which start at 0", clip.Quote(name, 40), len(tree))
		}
		if i == len(tree) {
			tree = append(tree, nil)
		}
		if tree[i], err = with(tree[i], path[1:], value); err != nil {
			return nil, err
		}
		if tree[i] == nil {
			tree = slices.Delete(tree, i, i+1)
		}
		return tree, nil
	}
	return nil, fmt.Errorf("the value before %s has no fields", name)
}

// pathOf splits a dotted field. The key of a lane may contain dots.
func pathOf(field string) []string {
	key, ok := strings.CutPrefix(field, "lanes.overrides.")
	if !ok {
		return strings.Split(field, ".")
	}
	path := []string{"lanes", "overrides", key}
	for _, last := range laneFields() {
		if key, ok := strings.CutSuffix(key, "."+last); ok && key != "" {
			return append(path[:2], key, last)
		}
	}
	return path
}

// valueOf parses a number, a boolean or JSON. Anything else is text.
func valueOf(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if text == "true" || text == "false" {
		return text == "true"
	}
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") || strings.HasPrefix(text, `"`) {
		var v any
		if json.Unmarshal([]byte(text), &v) == nil {
			return v
		}
	}
	return text
}

// number parses a JSON number, also without a 0 before its point. Do not use it for targets, where such a text need not
// be a number: it may be a header.
func number(text string) (json.Number, bool) {
	if text[0] == '.' {
		text = "0" + text
	}
	return json.Number(text), (text[0] >= '0' && text[0] <= '9' || text[0] == '-') && json.Valid([]byte(text))
}
