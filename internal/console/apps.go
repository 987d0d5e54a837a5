package console

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// appList is the data of the list of apps.
type appList struct {
	Apps []appRow
	Next string // link to the next page; empty on the last page
	// Off reports whether authentication is off; then there are no apps.
	Off bool
	// MayCreate reports whether the user may create an app.
	MayCreate bool
}

type appRow struct {
	wire.App
	Limits []string
}

func readApps(r *request) (any, error) {
	list := appList{Off: r.who.Auth == authOff, MayCreate: isOperator(r.who)}
	if list.Off {
		return list, nil
	}
	page, err := r.api.AppsPage(r.Context(), r.URL.Query().Get("after"), listRows)
	list.Next = r.behind("after", page.Next)
	for _, a := range page.Apps {
		list.Apps = append(list.Apps, appRow{a, limitWords(a.Limits)})
	}
	return list, err
}

// authOff is the Auth of a Whoami if authentication is off.
const authOff = "off"

// isOperator reports whether the user has full access.
func isOperator(who wire.Whoami) bool {
	return who.App == "" && slices.Contains(who.Grants, auth.Grant{Role: auth.Admin})
}

// limitWords returns the limits of an app as NAME=VALUE, the form that penstock app put takes.
func limitWords(limits auth.Limits) (texts []string) {
	values := valuesOf(limits)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		texts = append(texts, name+"="+values[name])
	}
	return texts
}

// valuesOf returns the JSON fields of an object as text.
func valuesOf(v any) map[string]string {
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil {
		return nil
	}
	values := map[string]string{}
	for name, value := range fields {
		var s string
		if json.Unmarshal(value, &s) != nil {
			s = string(value)
		}
		values[name] = s
	}
	return values
}

// appView is the data of an app's page.
type appView struct {
	wire.App
	New            bool // the app does not exist yet
	Change, Remove action
	Access         access
}

func readApp(r *request) (any, error) {
	name := r.PathValue("app")
	app, err := r.api.App(r.Context(), name)
	v := appView{App: app}
	if p := (*client.Problem)(nil); errors.As(err, &p) && p.Reason == "unknown_app" && isOperator(r.who) {
		v.New, v.App.Name, err = true, name, nil
	}
	if err != nil {
		return nil, err
	}
	r.Title = "App " + name
	v.Change = changeApp(&v.App, v.New)
	v.Remove = action{
		Label: "Remove", Method: "DELETE", Path: apiPath("apps", name), Match: v.Revision, Role: auth.Admin, Danger: true,
		Confirm: "Its tokens are revoked. Its queues and rules remain and belong to the operator.",
		Command: []string{"app", "rm", name}, Next: r.console.path("apps"),
	}
	if !v.New {
		v.Access, err = accessOf(r, name)
	}
	return v, err
}

// appLimits are the inputs for an app's limits.
var appLimits = []field{
	{Name: "queues:json", Label: "Queues"},
	{Name: "rules:json", Label: "Rules"},
	{Name: "lanes:json", Label: "Lanes", Help: "All queues of the app together."},
	{Name: "bytes", Label: "Bytes", Hint: "1GiB", Help: "All queues of the app together."},
	{Name: "streams:json", Label: "Streams", Help: "Open at the same time, per ingress."},
	{Name: "waits:json", Label: "Waiting requests", Help: "At the same time, per ingress."},
	{Name: "handlers:json", Label: "Share of handlers", Hint: "0.25", Help: "Fraction per drainer, at most 1."},
	{Name: "rate", Label: "Requests", Hint: "100/s"},
}

// changeApp returns the form that creates or updates an app.
func changeApp(a *wire.App, create bool) action {
	change := action{
		Label: "Save", Method: "PUT", Path: apiPath("apps", a.Name), Match: a.Revision, Role: auth.Admin,
		Command: []string{"app", "put", a.Name},
	}
	if create {
		change.Label, change.Reload = "Create", true
	}
	for _, of := range []struct {
		name, label, help, flag string
		texts                   []string
	}{
		{
			"prefixes", "Queue and rule names", "For example acme-* or ses.otp. One per line.", "--prefix",
			a.Prefixes,
		},
		{"secrets", "Secrets its targets may use", "Patterns: * matches anything.", "--secret", a.Secrets},
		{"hosts", "Hosts its targets may use", "Patterns: * matches anything.", "--host", a.Hosts},
		{"senders", "Mail senders its targets may use", "Patterns: * matches anything.", "--sender", a.Senders},
	} {
		change.Fields = append(change.Fields, field{
			Name: of.name + ":list", Label: of.label, Help: of.help, Kind: "lines", Value: strings.Join(of.texts, "\n"),
			Required: of.name == "prefixes",
		})
		for _, text := range of.texts {
			change.Command = append(change.Command, of.flag, text)
		}
	}
	values := valuesOf(a.Limits)
	for _, f := range appLimits {
		name, _, _ := strings.Cut(f.Name, ":")
		f.Name, f.Value = "limits."+f.Name, values[name]
		f.Label = "Limit: " + strings.ToLower(f.Label[:1]) + f.Label[1:]
		change.Fields = append(change.Fields, f)
	}
	for _, word := range limitWords(a.Limits) {
		change.Command = append(change.Command, "--limit", word)
	}
	change.Fields = append(change.Fields, field{Name: "note", Label: "Note", Value: a.Note})
	if a.Note != "" {
		change.Command = append(change.Command, "--note", a.Note)
	}
	return change
}
