package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// settingsView is the data of the form for a queue's settings.
type settingsView struct {
	Name     string
	Revision int64
	New      bool   // the queue does not exist yet; the form has an input for its name
	Refused  *fault // why the input was refused
	Groups   []settingGroup
	// Kept are settings without an input; they are sent unchanged.
	Kept    []field
	Preview string // the path that the form is sent to
}

// keep takes over the values of a form, so that no input is lost.
func (v *settingsView) keep(form url.Values) {
	for g := range v.Groups {
		for i := range v.Groups[g].Fields {
			if f := &v.Groups[g].Fields[i]; form.Has(f.Name) {
				f.Value = form.Get(f.Name)
			}
		}
	}
	for i := range v.Kept {
		if f := &v.Kept[i]; form.Has(f.Name) {
			f.Value = form.Get(f.Name)
		}
	}
}

// refuse marks the input that was refused, or the input of the object that contains it.
func (v *settingsView) refuse(f *fault) {
	v.Refused = f
	for g := range v.Groups {
		for i := range v.Groups[g].Fields {
			if at := &v.Groups[g].Fields[i]; f.Field == at.Label || strings.HasPrefix(f.Field, at.Label+".") ||
				strings.HasPrefix(f.Field, at.Label+"[") {
				at.Wrong = f.Detail
			}
		}
	}
}

// settingGroup is a group of settings: an object, or the queue's own settings.
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
	return r.console.settingsOf(&q), nil
}

// settingsOf returns the form with the settings of a queue.
func (c *Console) settingsOf(q *wire.Queue) *settingsView {
	v := &settingsView{Name: q.Name, Revision: q.Revision, Preview: c.path("queues", q.Name, "settings")}
	v.fill(leaves(objectOf(&q.Spec)))
	return v
}

// fill makes an input for each setting in the table of settings. present holds the current values.
func (v *settingsView) fill(present map[string]json.RawMessage) {
	all := queue.Settings()
	at := map[string]int{}
	for i := range all {
		s := &all[i]
		if s.Name == "name" || strings.Contains(s.Name, "[]") || hasWithin(all, s.Name) {
			continue
		}
		f := settingField(s, present)
		for name := range present { // including the fields of lists and tables
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

// settingField returns the input for a setting.
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

// previewView is the data of the page that shows the effect of a change before it is saved.
type previewView struct {
	Name   string
	Edits  []edit
	Effect []string // the effect on the jobs now in the queue
	Save   action
	Back   string
}

// preview shows the changes that the form would make to a queue's settings.
func (c *Console) preview(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	back := c.path("queues", name, "settings")
	req := &request{Request: r, console: c, api: c.client(r)}
	who, err := req.api.Whoami(r.Context())
	if err != nil { // check the user before reading the form
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
	wrong := err
	if wrong == nil {
		wrong = validSpec(name, body)
	}
	q, err := req.api.Queue(r.Context(), name)
	if err != nil {
		c.refused(w, r, who, err)
		return
	}
	if edits := r.PostForm.Get(formEdit) != ""; wrong != nil || edits {
		v, status := c.settingsOf(&q), http.StatusOK
		if v.keep(r.PostForm); wrong != nil && !edits {
			status = http.StatusBadRequest
			v.refuse(formFault(wrong))
		}
		c.render(w, r, status, "settings", &view{Page: pageOf("settings"), Title: "Settings of " + name, Who: who, Data: v})
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

// validSpec returns what is wrong with a spec in JSON, as far as it can be known without the store.
func validSpec(name string, body []byte) error {
	spec, err := queue.ParseSpec(body)
	if err != nil {
		return err
	}
	spec.Name = name
	return spec.Validate()
}

// formFault returns the fault of input that cannot become an API request.
func formFault(err error) *fault {
	f := &fault{Status: http.StatusBadRequest, Title: "Invalid input", Detail: err.Error()}
	if is := (*invalid.Error)(nil); errors.As(err, &is) {
		f.Field, f.Detail = is.Field, strings.TrimPrefix(is.Error(), is.Field+": ")
	}
	return f
}

func hidden(name, value string) field { return field{Name: name, Value: value} }

// edit is a change of a setting.
type edit struct{ Name, Was, Is string }

// editsOf returns the differences between two objects. A missing setting counts as its default.
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

// effects describes the effect of a change on the jobs now in the queue.
func effects(r *request, q *wire.Queue, edits []edit) (texts []string) {
	for _, e := range edits {
		var n int64
		_, err := fmt.Sscan(e.Is, &n)
		switch {
		case e.Name == "rate" && q.Stats.Waiting+q.Stats.Deferred > 0:
			texts = append(texts, drained(r, q, e.Is))
		case e.Name == "capacity" && err == nil && n < q.Stats.Size():
			texts = append(texts, fmt.Sprintf(
				"The queue has %s jobs, more than the new capacity. It drops none and refuses new jobs until there is room.",
				num(q.Stats.Size()),
			))
		case e.Name == "max_in_flight" && err == nil && n > 0 && n <= q.Stats.Leased:
			texts = append(texts, fmt.Sprintf("%s jobs are in flight. No jobs leave until fewer than %d are.",
				num(q.Stats.Leased), n))
		}
	}
	return texts
}

// drained describes when the backlog would be empty at another rate.
func drained(r *request, q *wire.Queue, rate string) string {
	answer, err := r.api.Quote(r.Context(), q.Name, wire.QuoteRequest{Rate: &rate})
	if err != nil {
		return "Cannot predict when the queue will be empty: " + faultOf(err).Detail
	}
	jobs := num(q.Stats.Waiting + q.Stats.Deferred)
	switch then := answer.Then; {
	case then != nil && then.Never != "":
		return fmt.Sprintf(
			"As things are, none of its %s jobs leaves: each waits for %s.", jobs, cause.Cause(then.Never).Text(),
		)
	case then == nil || then.DrainedAt == nil || answer.Now.DrainedAt == nil:
		return "Cannot predict when the queue will be empty."
	}
	now := time.Now()
	return fmt.Sprintf(
		"Its %s jobs will have left in %s instead of %s.", jobs,
		span(answer.Then.DrainedAt.Sub(now)), span(answer.Now.DrainedAt.Sub(now)),
	)
}

// setCommand returns the equivalent command.
func setCommand(name string, edits []edit) []string {
	words := []string{"queue", "set", name}
	for _, e := range edits {
		words = append(words, e.Name+"="+e.Is)
	}
	return words
}

// objectOf returns v as a JSON object.
func objectOf(v any) map[string]any {
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	object, _ := exactly(text) // valid: it was just encoded
	return object
}

// exactly decodes an object and keeps its numbers as written.
func exactly(text []byte) (object map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&object)
	return object, err
}

// leaves flattens an object: the fields of a settings group are named GROUP.NAME. Lists and other objects stay whole.
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
			all[name], _ = json.Marshal(value) // value was decoded from JSON
			continue
		}
		for inner, value := range within {
			all[name+"."+inner], _ = json.Marshal(value)
		}
	}
	return all
}
