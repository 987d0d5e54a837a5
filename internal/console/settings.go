package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// settingsView is the form of a queue's settings.
type settingsView struct {
	Name     string
	Revision int64
	Groups   []settingGroup
	// Kept are settings that the form has no field for; they are sent as they are.
	Kept    []field
	Preview string // where the form goes
}

// settingGroup are settings that stand together: those of an object, or of the queue itself.
type settingGroup struct {
	Name   string
	Fields []field
}

func readSettings(r *request) (any, error) {
	name := r.PathValue("queue")
	r.Title = "Settings of " + name
	q, err := r.api.Queue(r.Context(), name)
	if err != nil {
		return nil, err
	}
	v := settingsView{Name: name, Revision: q.Revision, Preview: r.console.path("queues", name, "settings")}
	v.fill(leaves(objectOf(&q.Spec)))
	return v, nil
}

// fill makes a field of each setting in the table of settings, with what it is.
func (v *settingsView) fill(present map[string]json.RawMessage) {
	all := queue.Settings()
	at := map[string]int{}
	for i := range all {
		s := &all[i]
		if s.Name == "name" || strings.Contains(s.Name, "[]") || hasWithin(all, s.Name) {
			continue
		}
		f := settingField(s, present)
		for name := range present { // what a list or a table has within
			if name == s.Name || strings.HasPrefix(name, s.Name+".") {
				delete(present, name)
			}
		}
		group, _, within := strings.Cut(s.Name, ".")
		if !within {
			group = ""
		}
		if _, known := at[group]; !known {
			at[group] = len(v.Groups)
			v.Groups = append(v.Groups, settingGroup{Name: group})
		}
		v.Groups[at[group]].Fields = append(v.Groups[at[group]].Fields, f)
	}
	for _, name := range sorted(present) {
		if name != "name" {
			v.Kept = append(v.Kept, field{Name: name + ":json", Value: string(present[name])})
		}
	}
}

func hasWithin(all []queue.Setting, name string) bool {
	return slices.ContainsFunc(all, func(s queue.Setting) bool { return strings.HasPrefix(s.Name, name+".") })
}

// settingField asks for a setting.
func settingField(s *queue.Setting, present map[string]json.RawMessage) field {
	help, _, _ := strings.Cut(s.Doc, ". ")
	f := field{Name: s.Name, Label: s.Name, Help: strings.TrimSuffix(help, ".") + ".", Hint: s.Default}
	for _, hint := range []string{s.Absent, s.Example} {
		if f.Hint == "" {
			f.Hint = hint
		}
	}
	value := present[s.Name]
	switch s.Type {
	case "integer", "number":
		f.Name, f.Value = s.Name+":json", string(value)
	case "boolean":
		f.Name, f.Value, f.Options = s.Name+":json", string(value), []string{"", "true", "false"}
		f.Hint = "default: " + s.Default
	case "list", "object":
		f.Name, f.Kind = s.Name+":json", "lines"
		f.Value = indented(value)
	default:
		if json.Unmarshal(value, &f.Value) != nil && len(value) > 0 {
			f.Name, f.Value = s.Name+":json", string(value)
		}
		if len(s.Values) > 0 {
			f.Options, f.Hint = append([]string{""}, s.Values...), "default: "+f.Hint
		}
	}
	return f
}

// previewView is what a change of settings would do, before it is made.
type previewView struct {
	Name   string
	Edits  []edit
	Effect []string // on what the queue holds now
	Save   action
	Back   string
}

// preview shows what the form of a queue's settings would change.
func (c *Console) preview(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	back := c.path("queues", name, "settings")
	req := &request{Request: r, console: c, api: c.client(r)}
	who, err := req.api.Whoami(r.Context())
	if err != nil { // before anything is read for a stranger
		c.refused(w, r, who, err)
		return
	}
	if f := readForm(w, r); f != nil {
		f.Back = back
		c.badForm(w, r, f)
		return
	}
	body, err := object(r.PostForm)
	var changed map[string]any
	if err == nil && body != nil {
		changed, err = exactly(body)
	}
	if err != nil {
		c.badForm(w, r, &fault{Title: "This form is not filled in right.", Detail: err.Error(), Back: back})
		return
	}
	q, err := req.api.Queue(r.Context(), name)
	if err != nil {
		c.refused(w, r, who, err)
		return
	}
	v := previewView{Name: name, Edits: editsOf(objectOf(&q.Spec), changed), Back: back}
	v.Effect = effects(req, &q, v.Edits)
	v.Save = action{
		Label: "Save", Method: "PUT", Path: apiPath("queues", name), Role: auth.Configure,
		Next: c.path("queues", name), Command: setCommand(name, v.Edits),
	}
	for _, field := range sorted(r.PostForm) {
		if !strings.HasPrefix(field, "_") {
			v.Save.Fields = append(v.Save.Fields, hidden(field, r.PostForm.Get(field)))
		}
	}
	if _, err := fmt.Sscan(r.PostForm.Get(formMatch), &v.Save.Match); err != nil {
		v.Save.Match = q.Revision
	}
	c.render(w, r, http.StatusOK, "preview", &view{Title: "Settings of " + name, Who: who, Data: v})
}

func hidden(name, value string) field { return field{Name: name, Value: value} }

// edit is a setting that becomes another.
type edit struct{ Name, Was, Is string }

// editsOf are what is different between two objects; a setting that one of them leaves out is as it is by default.
func editsOf(was, is map[string]any) (edits []edit) {
	before, after := leaves(was), leaves(is)
	names := map[string]bool{}
	for name := range before {
		names[name] = true
	}
	for name := range after {
		names[name] = true
	}
	defaults := map[string]string{}
	for _, s := range queue.Settings() {
		defaults[s.Name] = s.Default
	}
	text := func(values map[string]json.RawMessage, name string) string {
		value, given := values[name]
		var s string
		switch {
		case !given:
			return defaults[name]
		case json.Unmarshal(value, &s) == nil:
			return s
		}
		return string(value)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if e := (edit{name, text(before, name), text(after, name)}); name != "name" && e.Was != e.Is {
			edits = append(edits, e)
		}
	}
	return edits
}

// effects are what a change means for what the queue holds now.
func effects(r *request, q *wire.Queue, edits []edit) (texts []string) {
	for _, e := range edits {
		var n int64
		_, err := fmt.Sscan(e.Is, &n)
		switch {
		case e.Name == "rate" && q.Stats.Waiting+q.Stats.Deferred > 0:
			texts = append(texts, drained(r, q, e.Is))
		case e.Name == "capacity" && err == nil && n < q.Stats.Size():
			texts = append(texts, fmt.Sprintf(
				"It holds %s jobs, more than that: nothing is dropped, and there is no room until they have left.",
				num(q.Stats.Size()),
			))
		case e.Name == "max_in_flight" && err == nil && n > 0 && n <= q.Stats.Leased:
			texts = append(texts, fmt.Sprintf("%s jobs are in flight: nothing leaves until fewer than %d are.",
				num(q.Stats.Leased), n))
		}
	}
	return texts
}

// drained says when the backlog has left at another rate.
func drained(r *request, q *wire.Queue, rate string) string {
	answer, err := r.api.Quote(r.Context(), q.Name, wire.QuoteRequest{Rate: &rate})
	if err != nil {
		return "When the backlog has left cannot be told: " + faultOf(err).Detail
	}
	if answer.Then == nil || answer.Then.DrainedAt == nil || answer.Now.DrainedAt == nil {
		return "When the backlog has left cannot be told."
	}
	now := time.Now()
	return fmt.Sprintf(
		"The backlog of %s jobs has left in %s instead of %s.", num(q.Stats.Waiting+q.Stats.Deferred),
		span(answer.Then.DrainedAt.Sub(now)), span(answer.Now.DrainedAt.Sub(now)),
	)
}

// setCommand is the same change as a command.
func setCommand(name string, edits []edit) []string {
	words := []string{"queue", "set", name}
	for _, e := range edits {
		words = append(words, e.Name+"="+e.Is)
	}
	return words
}

// objectOf is what a value is in JSON.
func objectOf(v any) map[string]any {
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	object, _ := exactly(text) // it was made from one
	return object
}

// exactly reads an object with its numbers as they are written.
func exactly(text []byte) (object map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&object)
	return object, err
}

// leaves are the values of an object and of those within it, by names with dots between. Lists, and objects that are no
// group of settings, are whole.
func leaves(object map[string]any) map[string]json.RawMessage {
	groups := map[string]bool{}
	for _, s := range queue.Settings() {
		if group, _, within := strings.Cut(s.Name, "."); within && !strings.HasSuffix(group, "[]") {
			groups[group] = true
		}
	}
	all := map[string]json.RawMessage{}
	for name, value := range object {
		within, is := value.(map[string]any)
		if !is || !groups[name] {
			all[name], _ = json.Marshal(value) // it came from JSON
			continue
		}
		for inner, value := range within {
			all[name+"."+inner], _ = json.Marshal(value)
		}
	}
	return all
}

// changesAsked is a page of what was done to a queue.
func changesAsked(before int64) client.ChangesQuery {
	return client.ChangesQuery{Limit: 50, Before: before}
}
