package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/penstock/penstock/deliver/secrets"
)

// change is one field that differs.
type change struct {
	Field string `json:"field"`
	From  string `json:"from"` // empty if it was not there
	To    string `json:"to"`   // empty if it is gone
	// effect is what it means for the backlog, in words; empty if nothing, or if not asked.
	effect string
}

// changes lists the fields in which two specs differ, in order of name.
func changes(from, to map[string]any) []change {
	a, b := flat("", from), flat("", to)
	all := maps.Clone(a)
	maps.Copy(all, b)
	list := []change{}
	for _, field := range slices.Sorted(maps.Keys(all)) {
		if a[field] != b[field] {
			list = append(list, change{Field: field, From: a[field], To: b[field]})
		}
	}
	return list
}

// withUnseen adds to the changes that are seen one that is not: when nothing else
// did and yet the revision has changed, then a secret of the target has.
func withUnseen(list []change, changed bool) []change {
	if changed && len(list) == 0 {
		return []change{{Field: "deliver", From: secrets.Hidden, To: secrets.Hidden}}
	}
	return list
}

// flat names nested fields by dotted paths.
func flat(prefix string, tree map[string]any) map[string]string {
	out := map[string]string{}
	for name, v := range tree {
		below, ok := v.(map[string]any)
		if ok && len(below) == 0 && prefix == "lanes.overrides." {
			out[prefix+name] = "{}" // a rule that bounds nothing is not none
			continue
		}
		if items, isList := v.([]any); isList {
			below, ok = numbered(items), true
		}
		if ok {
			maps.Copy(out, flat(prefix+name+".", below))
			continue
		}
		out[prefix+name] = fmt.Sprint(v)
	}
	return out
}

// numbered names the items of a list by their places.
func numbered(items []any) map[string]any {
	out := map[string]any{}
	for i, v := range items {
		out[strconv.Itoa(i)] = v
	}
	return out
}

func printChanges(w io.Writer, name string, revision int64, list []change) error {
	if len(list) == 0 {
		_, err := fmt.Fprintf(w, "%s unchanged, revision %d\n", name, revision)
		return err
	}
	_, _ = fmt.Fprintf(w, "%s changed, revision %d\n", name, revision)
	return printFields(w, list)
}

func printFields(w io.Writer, list []change) error {
	for _, c := range list {
		text := fmt.Sprintf("  %s: %s -> %s\n", plain(c.Field), orNone(c.From), orNone(c.To))
		if c.effect != "" {
			text += "    " + c.effect + "\n"
		}
		if _, err := io.WriteString(w, text); err != nil {
			return fmt.Errorf("print the changes: %w", err)
		}
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return plain(s)
}
