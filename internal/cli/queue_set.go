package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/invalid"
)

type setCmd struct {
	Name     string   `arg:"" help:"Name of the queue."`
	Settings []string `arg:"" optional:"" help:"Settings, as FIELD=VALUE." placeholder:"FIELD=VALUE"`
	settingFlags
	Revision int64 `placeholder:"N"`
	output
}

// LongHelp is the help that is too long for the tags.
func (setCmd) LongHelp() map[string]string {
	return map[string]string{
		"revision": "Change it only if it is at this revision; by default at the one that was just read.",
	}
}

// Help is shown below the flags.
func (setCmd) Help() string {
	return `Fields are those of the queue's spec:

` + fieldList() + `
An empty value goes back to the default. A new rate holds for the backlog at once. Some
settings have flags too, which say the same.

limits.0.quota=50000/d limits.0.timezone=Europe/Berlin is a quota beside the rate,
limits.1.rate=500/m a further pace; limits= removes all, limits.0= the first.

rules.0=otp.per-address asks a rule on arrival, rules.1=tenants another; rules= asks none.

lanes.overrides.KEY.rate and so on are the rule of one lane, in place of that of the
others, all of it; dots in the key are its own. lanes.overrides.KEY= removes it.

Flags stand before or behind the fields, not between them.

If there is no such queue it is made; then a rate must be given.

Examples:
  penstock queue set email rate=14/s capacity=10000
  penstock queue set email deliver.http.url=https://api.example.com/v1/send
  penstock queue set email retry.max_attempts=
  penstock queue set email limits.0.quota=50000/d limits.0.timezone=Europe/Berlin
  penstock queue set email overflow=defer deferred.max_age=6h
  penstock queue set email --lane-rate 2/s lanes.overrides.gmail.com.rate=10/s
  penstock queue set email --overflow defer --readmit-between 22:00-06:00 --timezone Europe/Berlin

The change is made only if nobody else changed the queue meanwhile (If-Match);
exit code 3 says that somebody did.`
}

func (c *setCmd) Run(r *run, k *kong.Context) error {
	settings, err := withFlags(c.Settings, k.Flags())
	if err != nil {
		return usage(err)
	}
	api, err := r.client()
	if err != nil {
		return err
	}
	old, revision, err := c.read(r, api)
	if err != nil {
		return err
	}
	spec, err := withSettings(old, settings)
	if err != nil {
		return usage(err)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("write the spec as JSON: %w", err)
	}
	q, err := api.Put(r.ctx, c.Name, text, revision)
	var refused *client.Problem
	if errors.As(err, &refused) && refused.Field == "rate" && revision == client.Absent && spec["rate"] == nil {
		return &ended{ExitRefused, fmt.Errorf("there is no queue %s%s; to make one, give it a rate, such as rate=14/s",
			c.Name, r.nearQueue(c.Name))}
	}
	if err != nil {
		return fmt.Errorf("queue %s: %w", c.Name, err)
	}
	if c.json() {
		return printJSON(r.Out, q)
	}
	warn(r, &q)
	now, err := tree(q.Spec)
	if err != nil {
		return err
	}
	if revision == client.Absent {
		_, err = fmt.Fprintf(r.Out, "%s made, revision %d\n", c.Name, q.Revision)
		return err
	}
	return printChanges(r.Out, c.Name, q.Revision, withUnseen(changes(old, now), q.Revision != revision))
}

// warn prints what the server finds odd about a queue that was put.
func warn(r *run, q *wire.Queue) {
	for _, text := range q.Warnings {
		r.say("%s: warning: %s", q.Name, plain(text))
	}
}

// read returns the present spec, or an empty one if there is no such queue, and
// the revision to insist on.
func (c *setCmd) read(r *run, api *client.Client) (map[string]any, int64, error) {
	q, err := api.Queue(r.ctx, c.Name)
	var refused *client.Problem
	if errors.As(err, &refused) && refused.Reason == "unknown_queue" && c.Revision == 0 {
		return map[string]any{}, client.Absent, nil
	}
	if err != nil {
		return nil, 0, err
	}
	spec, err := tree(q.Spec)
	if c.Revision != 0 {
		return spec, c.Revision, err
	}
	return spec, q.Revision, err
}

// tree is v as JSON says it. Numbers stay as they are written.
func tree(v any) (map[string]any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write the spec as JSON: %w", err)
	}
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	var out map[string]any
	if err := dec.Decode(&out); err != nil {
		return nil, fmt.Errorf("read the spec as JSON: %w", err)
	}
	return out, nil
}

// withSettings returns a copy of a spec with FIELD=VALUE settings applied.
func withSettings(spec map[string]any, settings []string) (map[string]any, error) {
	out, err := tree(spec)
	if err != nil {
		return nil, err
	}
	for _, s := range settings {
		field, text, ok := strings.Cut(s, "=")
		if !ok || field == "" {
			return nil, fmt.Errorf("%q: must be FIELD=VALUE, such as rate=14/s", s)
		}
		path := pathOf(field)
		var value any // nil is none
		if text != "" {
			value = valueOf(text)
			if n, ok := number(text); ok && path[0] != "deliver" {
				value = n
			}
		}
		if err := hasOverride(out, path, value); err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		if _, err := with(out, path, value); err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
	}
	return out, nil
}

// hasOverride refuses to remove the settings of a lane that has none, if another lane with a key like it has some.
func hasOverride(spec map[string]any, path []string, value any) error {
	if value != nil || len(path) < 3 || path[0] != "lanes" || path[1] != "overrides" {
		return nil
	}
	lanes, _ := spec["lanes"].(map[string]any)
	overrides, _ := lanes["overrides"].(map[string]any)
	if _, ok := overrides[path[2]]; ok {
		return nil
	}
	if near := invalid.DidYouMean(path[2], slices.Sorted(maps.Keys(overrides))); near != "" {
		return fmt.Errorf("the lane has no settings of its own%s", near)
	}
	return nil
}

// with returns at, a part of a spec, with a value at the end of the path; nil removes what is
// there. The items of a list are named by their numbers, the next one adds one.
func with(at any, path []string, value any) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	name := path[0]
	switch tree := at.(type) {
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
			return nil, fmt.Errorf("%s is not among its %d items, which are numbered from 0", clip.Quote(name, 40), len(tree))
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
	return nil, fmt.Errorf("what is before %s has no fields of its own", name)
}

// pathOf takes a dotted field apart. The key of a lane has dots of its own.
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

// valueOf reads a number, true, false, or JSON where it is one; else it is text.
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

// number reads what is one in JSON, or would be with a 0 before its point. In a target
// what looks like a fraction may be text, a header's say; nowhere else is there such a
// field.
func number(text string) (json.Number, bool) {
	if text[0] == '.' {
		text = "0" + text
	}
	return json.Number(text), (text[0] >= '0' && text[0] <= '9' || text[0] == '-') && json.Valid([]byte(text))
}
