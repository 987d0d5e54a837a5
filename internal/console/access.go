package console

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// access lists the tokens and subjects of an app, or of the operator.
type access struct {
	// Denied reports that the caller may not see tokens and subjects.
	Denied   bool
	App      string
	Tokens   []tokenRow
	Create   action // creates a token
	Subjects []subjectRow
	// NextTokens and NextSubjects link to the next pages; empty on the last page.
	NextTokens, NextSubjects string
}

// Query parameters: the token and the subject after which the lists begin.
const (
	afterToken   = "after"
	afterSubject = "after_subject"
)

type tokenRow struct {
	wire.Token
	May            []string
	Rotate, Revoke action
}

type subjectRow struct {
	wire.Subject
	May    []string
	Remove action
}

// readTokens reads the tokens and subjects of the caller's app, or of the operator.
func readTokens(r *request) (any, error) {
	if r.who.Auth == authOff {
		return nil, nil
	}
	return accessOf(r, r.who.App)
}

// accessOf reads the tokens and subjects of an app. It returns none to callers without the admin role.
func accessOf(r *request, app string) (access, error) {
	a := access{App: app}
	if !mayHave(r.who, auth.Admin) {
		a.Denied = true
		return a, nil
	}
	asked := r.URL.Query()
	tokens, err := r.api.TokensPage(r.Context(), app, asked.Get(afterToken), listRows)
	if err != nil {
		return a, fmt.Errorf("tokens: %w", err)
	}
	a.NextTokens = r.behind(afterToken, tokens.Next)
	for _, t := range tokens.Tokens {
		a.Tokens = append(a.Tokens, tokenRow{
			Token: t, May: grantWords(t.Grants),
			Rotate: action{
				Label: "Rotate", Method: "POST", Path: apiPath("tokens", t.ID, "rotate"), Role: auth.Admin, Show: true,
				Confirm: "Creates a token with the same permissions. The old one keeps working for the time below.",
				Fields:  []field{{Name: "keep", Label: "Keep the old token for", Value: "24h", Hint: "24h"}},
				Command: []string{"token", "rotate", t.ID, "--keep", "24h"},
			},
			Revoke: action{
				Label: "Revoke", Method: "DELETE", Path: apiPath("tokens", t.ID), Role: auth.Admin, Danger: true,
				Confirm: "Requests with this token are refused from now on. This cannot be undone.",
				Command: []string{"token", "revoke", t.ID},
			},
		})
	}
	a.Create = createToken(app)
	subjects, err := r.api.SubjectsPage(r.Context(), app, asked.Get(afterSubject), listRows)
	if err != nil {
		return a, fmt.Errorf("subjects: %w", err)
	}
	a.NextSubjects = r.behind(afterSubject, subjects.Next)
	for _, s := range subjects.Subjects {
		a.Subjects = append(a.Subjects, subjectRow{
			Subject: s, May: grantWords(s.Grants),
			Remove: removeSubject(s.Name),
		})
	}
	return a, nil
}

// createToken returns the form that creates a token.
func createToken(app string) action {
	create := action{
		Label: "Create a token", Method: "POST", Path: "/v1/tokens", Role: auth.Admin, Show: true,
		Fields: []field{
			grantsField(string(auth.View)),
			{Name: "expires_in", Label: "Expires in", Hint: "never", Help: "A duration, for example 720h."},
			{Name: "note", Label: "Note", Hint: "its owner and purpose"},
		},
		Command: []string{"token", "create", "--grant", string(auth.View)},
	}
	if app != "" {
		create.Fields = append(create.Fields, field{Name: "app", Value: app})
		create.Command = append(create.Command, "--app", app)
	}
	return create
}

func grantsField(value string) field {
	roles := make([]string, len(auth.Roles()))
	for i, role := range auth.Roles() {
		roles[i] = string(role)
	}
	return field{
		Name: "grants:grants", Label: "Permissions", Value: value, Required: true, Hint: "produce:mail-* view",
		Help: "ROLE for all names, ROLE:PREFIX for some. Roles: " + strings.Join(roles, ", ") + ".",
	}
}

func removeSubject(name string) action {
	return action{
		Label: "Remove", Method: "DELETE", Path: apiPath("subjects", name), Role: auth.Admin, Danger: true,
		Confirm: "This subject loses all access.", Command: []string{"subject", "rm", name},
	}
}

// subjectView is the data of a subject's page.
type subjectView struct {
	wire.Subject
	New            bool
	Change, Remove action
}

func readSubject(r *request) (any, error) {
	name := r.PathValue("subject")
	s, err := r.api.Subject(r.Context(), name)
	v := subjectView{Subject: s}
	if p := (*client.Problem)(nil); errors.As(err, &p) && p.Reason == "unknown_subject" && mayHave(r.who, auth.Admin) {
		v.New, v.Name, v.App, err = true, name, r.URL.Query().Get("app"), nil
	}
	if err != nil {
		return nil, err
	}
	r.Title = name
	may, ends := grantWords(v.Grants), ""
	if !v.Expires.IsZero() {
		ends = v.Expires.UTC().Format(time.RFC3339Nano)
	}
	v.Change = action{
		Label: "Save", Method: "PUT", Path: apiPath("subjects", name), Match: v.Revision, Role: auth.Admin, Reload: v.New,
		Fields: []field{
			grantsField(strings.Join(may, " ")),
			{Name: "app", Label: "App", Value: v.App, Hint: "none (operator)"},
			{Name: "expires", Label: "Expires", Value: ends, Hint: "never", Help: "A time, for example 2027-01-02T15:04:05Z."},
			{Name: "note", Label: "Note", Value: v.Note},
		},
		Command: []string{"subject", "put", name},
	}
	for _, word := range may {
		v.Change.Command = append(v.Change.Command, "--grant", word)
	}
	if v.App != "" {
		v.Change.Command = append(v.Change.Command, "--app", v.App)
	}
	v.Remove = removeSubject(name)
	v.Remove.Match, v.Remove.Next = v.Revision, r.console.path("tokens")
	return v, nil
}
