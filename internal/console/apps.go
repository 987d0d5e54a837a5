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

// appList is what the list of apps shows.
type appList struct {
	Apps []appRow
	Next string // where the list goes on; empty if it does not
	// Off is whether nobody is asked who he is: there are no apps then.
	Off bool
	// MayMake is whether who is signed in may make one.
	MayMake bool
}

type appRow struct {
	wire.App
	Limits []string
}

func readApps(r *request) (any, error) {
	list := appList{Off: r.who.Auth == authOff, MayMake: isOperator(r.who)}
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

// authOff is the Auth of a Whoami where nobody is asked.
const authOff = "off"

// isOperator reports whether somebody may do everything everywhere.
func isOperator(who wire.Whoami) bool {
	return who.App == "" && slices.Contains(who.Grants, auth.Grant{Role: auth.Admin})
}

// limitWords are the limits of an app that there are, as penstock app put takes them.
func limitWords(limits auth.Limits) (texts []string) {
	values := valuesOf(limits)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		texts = append(texts, name+"="+values[name])
	}
	return texts
}

// valuesOf are the fields of what is an object in JSON, each as a text.
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

// appView is what the page of an app shows.
type appView struct {
	wire.App
	// New is whether there is none of the name yet.
	New            bool
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
		Confirm: "Its tokens end with it. Its queues and rules stay, and are the operator's alone.",
		Command: []string{"app", "rm", name}, Next: r.console.path("apps"),
	}
	if !v.New {
		v.Access, err = accessOf(r, name)
	}
	return v, err
}

// appLimits are the limits of an app, as a form asks for them.
var appLimits = []field{
	{Name: "queues:json", Label: "Queues"},
	{Name: "rules:json", Label: "Rules"},
	{Name: "lanes:json", Label: "Lanes", Help: "Of all its queues together."},
	{Name: "bytes", Label: "Bytes", Hint: "1GiB", Help: "Of all its queues together."},
	{Name: "streams:json", Label: "Streams", Help: "Open at a time, at each ingress."},
	{Name: "waits:json", Label: "Waiting requests", Help: "At a time, at each ingress."},
	{Name: "handlers:json", Label: "Share of handlers", Hint: "0.25", Help: "Of each drainer, up to 1."},
	{Name: "rate", Label: "Requests", Hint: "100/s"},
}

// changeApp is the form of an app.
func changeApp(a *wire.App, anew bool) action {
	change := action{
		Label: "Save", Method: "PUT", Path: apiPath("apps", a.Name), Match: a.Revision, Role: auth.Admin,
		Command: []string{"app", "put", a.Name},
	}
	if anew {
		change.Label = "Make it"
	}
	for _, of := range []struct {
		name, label, help, flag string
		texts                   []string
	}{
		{
			"prefixes", "Names of queues and rules that are its own", "Such as acme-*, or ses.otp. One a line.", "--prefix",
			a.Prefixes,
		},
		{"secrets", "Secrets that its targets may name", "Patterns: * stands for anything.", "--secret", a.Secrets},
		{"hosts", "Hosts that its targets may name", "Patterns: * stands for anything.", "--host", a.Hosts},
		{"senders", "Senders of mail that its targets may name", "Patterns: * stands for anything.", "--sender", a.Senders},
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
