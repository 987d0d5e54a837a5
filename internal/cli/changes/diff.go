// Package changes shows what changed: the fields between two specs, and the history of a queue or a rule.
package changes

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/assign"
	"github.com/penstock/penstock/internal/cli/show"
)

// Field is a field that differs.
type Field struct {
	Name string `json:"field"`
	From string `json:"from"` // empty if the field is new
	To   string `json:"to"`   // empty if the field is gone
	// Effect describes what the change means for the backlog; it may be empty.
	Effect string `json:"-"`
}

// Between returns the fields that differ between two specs, sorted by name. Either may be nil.
func Between(before, after any) ([]Field, error) {
	from, err := assign.Tree(before)
	if err != nil {
		return nil, err
	}
	to, err := assign.Tree(after)
	if err != nil {
		return nil, err
	}
	return BetweenTrees(from, to), nil
}

// BetweenTrees is Between for specs that assign.Tree has decoded.
func BetweenTrees(before, after map[string]any) []Field {
	from, to := flat("", before), flat("", after)
	all := maps.Clone(from)
	maps.Copy(all, to)
	list := []Field{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if from[name] != to[name] {
			list = append(list, Field{Name: name, From: from[name], To: to[name]})
		}
	}
	return list
}

// WithSecret adds a change of a masked secret: if the revision changed but no visible field did, a secret of the target
// has changed.
func WithSecret(list []Field, revisionChanged bool) []Field {
	if revisionChanged && len(list) == 0 {
		return []Field{{Name: "deliver", From: secrets.Hidden, To: secrets.Hidden}}
	}
	return list
}

// flat names nested fields by dotted paths.
func flat(prefix string, tree map[string]any) map[string]string {
	out := map[string]string{}
	for name, v := range tree {
		below, ok := v.(map[string]any)
		if ok && len(below) == 0 && prefix == "lanes.overrides." {
			out[prefix+name] = "{}" // an override without limits is still an override
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

// numbered names the items of a list by their indexes.
func numbered(items []any) map[string]any {
	out := map[string]any{}
	for i, v := range items {
		out[strconv.Itoa(i)] = v
	}
	return out
}

// Print prints the changed fields of a named spec at its new revision.
func Print(w io.Writer, name string, revision int64, list []Field) error {
	if len(list) == 0 {
		_, err := fmt.Fprintf(w, "%s unchanged, revision %d\n", name, revision)
		return err
	}
	_, _ = fmt.Fprintf(w, "%s changed, revision %d\n", name, revision)
	return PrintFields(w, list)
}

// PrintFields prints changed fields, one per line.
func PrintFields(w io.Writer, list []Field) error {
	for i := range list {
		text := "  " + list[i].String() + "\n"
		if list[i].Effect != "" {
			text += "    " + list[i].Effect + "\n"
		}
		if _, err := io.WriteString(w, text); err != nil {
			return fmt.Errorf("print the changes: %w", err)
		}
	}
	return nil
}

// String returns the change as "name: from -> to", escaped.
func (f *Field) String() string {
	return fmt.Sprintf("%s: %s -> %s", show.Text(f.Name), show.OrNone(f.From), show.OrNone(f.To))
}
