// Package assign changes specs by settings of the form FIELD=VALUE, as "penstock queue set" and forecasts take them.
//
// It promises that a setting means the same everywhere. It does not validate specs: queue.ParseSpec does.
package assign

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// maxParts is the maximum number of dotted parts of a field.
const maxParts = 32

// Tree returns a spec as its JSON fields. Numbers keep their digits.
func Tree(spec any) (map[string]any, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode the spec as JSON: %w", err)
	}
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	var tree map[string]any
	if err := dec.Decode(&tree); err != nil {
		return nil, fmt.Errorf("decode the spec as JSON: %w", err)
	}
	return tree, nil
}

// Field returns the field of a setting. Its error says what a setting must look like.
func Field(setting string) (string, error) {
	field, _, ok := strings.Cut(setting, "=")
	switch {
	case !ok || field == "":
		return "", fmt.Errorf("%s: must be FIELD=VALUE, such as rate=14/s", clip.Quote(setting, 80))
	case strings.Count(field, ".") >= maxParts:
		return "", fmt.Errorf("%s: has more than %d parts", clip.Quote(field, 80), maxParts)
	}
	return field, nil
}

// To returns a copy of a spec, changed by settings. An empty VALUE removes the field, which restores the default. If a
// change is impossible, the error is an *invalid.Error with the field.
func To(spec map[string]any, settings []string) (map[string]any, error) {
	out, err := Tree(spec)
	if err != nil {
		return nil, err
	}
	for _, s := range settings {
		field, err := Field(s)
		if err != nil {
			return nil, err
		}
		path := pathOf(field)
		var value any // nil removes the field
		if text := s[len(field)+1:]; text != "" {
			value = valueOf(text)
			if n, ok := number(text); ok && path[0] != "deliver" {
				value = n
			}
		}
		err = checkOverride(out, path, value)
		if err == nil {
			_, err = with(out, path, value)
		}
		if err != nil {
			return nil, invalid.In(field, err)
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

// laneFields returns the settings that an override of a lane may have.
func laneFields() (names []string) {
	for _, s := range queue.Settings() {
		if name, ok := strings.CutPrefix(s.Name, "lanes."); ok && s.Type != "object" {
			names = append(names, name)
		}
	}
	return names
}
