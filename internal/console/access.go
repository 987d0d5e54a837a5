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

// access are the tokens and subjects of an app, or of the operator.
type access struct {
	App    string
	Tokens []tokenRow
	// Create makes a token.
	Create action
	// Subjects are who come without a token.
	Subjects []subjectRow
	// NextTokens and NextSubjects are where the lists go on; empty if they do not.
	NextTokens, NextSubjects string
}

// Parameters of the address that say behind which token, and behind which subject, their lists begin.
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

// readTokens are those of the operator: those of an app are on its page.
func readTokens(r *request) (any, error) {
	if r.who.Auth == authOff {
		return nil, nil
	}
	return accessOf(r, r.who.App)
}

// accessOf reads the tokens and subjects of an app. Who may not see any is shown none.
func accessOf(r *request, app string) (access, error) {
	a := access{App: app}
	if !mayHave(r.who, auth.Admin) {
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
				Confirm: "Makes a token that may do the same. This one goes on for a while, so that both hold.",
				Fields:  []field{{Name: "keep", Label: "Keep the old one for", Value: "24h", Hint: "24h"}},
				Command: []string{"token", "rotate", t.ID, "--keep", "24h"},
			},
			Revoke: action{
				Label: "Revoke", Method: "DELETE", Path: apiPath("tokens", t.ID), Role: auth.Admin, Danger: true,
				Confirm: "Who holds it is refused from now on. This cannot be undone.", Command: []string{"token", "revoke", t.ID},
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

// createToken is the form that makes a token.
func createToken(app string) action {
	create := action{
		Label: "Create a token", Method: "POST", Path: "/v1/tokens", Role: auth.Admin, Show: true,
		Fields: []field{
			{
				Name: "grants:grants", Label: "It may", Value: string(auth.View), Required: true, Hint: "produce:mail-* view",
				Help: "Roles, or ROLE:PREFIX for some names alone: " + joined(auth.Roles()) + ".",
			},
			{Name: "expires_in", Label: "It holds for", Hint: "for ever", Help: "Such as 720h."},
			{Name: "note", Label: "Note", Hint: "who holds it"},
		},
		Command: []string{"token", "create", "--grant", string(auth.View)},
	}
	if app != "" {
		create.Fields = append(create.Fields, field{Name: "app", Value: app})
		create.Command = append(create.Command, "--app", app)
	}
	return create
}

func joined[S ~string](all []S) string {
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = string(all[i])
	}
	return strings.Join(texts, ", ")
}

func removeSubject(name string) action {
	return action{
		Label: "Remove", Method: "DELETE", Path: apiPath("subjects", name), Role: auth.Admin, Danger: true,
		Confirm: "Who proves to be this one may do nothing any more.", Command: []string{"subject", "rm", name},
	}
}

// subjectView is what the page of a subject shows.
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
		Label: "Save", Method: "PUT", Path: apiPath("subjects", name), Match: v.Revision, Role: auth.Admin,
		Fields: []field{
			{
				Name: "grants:grants", Label: "It may", Value: strings.Join(may, " "), Required: true, Hint: "produce:mail-* view",
				Help: "Roles, or ROLE:PREFIX for some names alone: " + joined(auth.Roles()) + ".",
			},
			{Name: "app", Label: "App", Value: v.App, Hint: "the operator's"},
			{Name: "expires", Label: "Ends", Value: ends, Hint: "never", Help: "An instant such as 2027-01-02T15:04:05Z."},
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
