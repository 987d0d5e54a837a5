package accesscmd

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// SubjectCmd is penstock subject.
type SubjectCmd struct {
	command.Connection
	Ls  subjectLsCmd  `cmd:"" help:"List subjects, the identities without tokens."`
	Put subjectPutCmd `cmd:"" help:"Grant permissions to an external identity (certificate, JWT or Unix user)."`
	Rm  subjectRmCmd  `cmd:"" help:"Revoke all permissions of subjects."`
}

type subjectLsCmd struct {
	App string `env:"-" placeholder:"APP"`
	command.Output
}

func (subjectLsCmd) LongHelp() map[string]string {
	return map[string]string{"app": "App whose subjects to list. Default: your own app; for operators, all apps."}
}

func (c *subjectLsCmd) Run(r *command.Run, api *client.Client) error {
	subjects, err := api.Subjects(r.Ctx, c.App)
	if err != nil {
		return err
	}
	return command.List(r, c.Output, subjects, "",
		command.NewTable("NAME", "APP", "MAY", "CREATED", "ENDS", "CREATOR", "NOTE"),
		func(s *wire.Subject) []string {
			return []string{
				s.Name, show.OrNone(s.App), grantsText(s.Grants), day(&s.Created), ends(&s.Expires), s.Creator, s.Note,
			}
		})
}

type subjectPutCmd struct {
	Name string `arg:"" help:"Identity: cert:NAME, oidc:PROVIDER#VALUE or unix:UID."`
	App  string `env:"-" help:"App of the subject. Default: none, an operator." placeholder:"APP"`
	grantFlags
	expiry
	Note string `env:"-" help:"Note for people."`
	command.Output
}

func (subjectPutCmd) Help() string {
	return `A subject authenticates with a certificate that --tls-client-ca trusts (by a URI or DNS name in it),
a JWT of a provider in --oidc-issuer, or as a Unix user at the socket of "penstock up". The given
options replace all present ones.

` + roleHelp() + `
Examples:
  penstock subject put cert:billing.acme.example --app acme --grant produce
  penstock subject put oidc:cluster#system:serviceaccount:shop:worker --app acme --grant consume
  penstock subject put unix:1001 --grant view`
}

func (c *subjectPutCmd) Run(r *command.Run, api *client.Client) error {
	grants, err := c.grants()
	if err != nil {
		return err
	}
	present, err := api.Subject(r.Ctx, c.Name)
	revision := present.Revision
	if command.Refused(err, "unknown_subject") {
		revision, err = client.Absent, nil
	}
	if err != nil {
		return err
	}
	text, err := json.Marshal(struct {
		App     string       `json:"app,omitempty"`
		Grants  []auth.Grant `json:"grants"`
		Note    string       `json:"note,omitempty"`
		Expires *time.Time   `json:"expires,omitempty"`
	}{c.App, grants, c.Note, c.at(time.Now())})
	if err != nil {
		return fmt.Errorf("subject %s: %w", c.Name, err)
	}
	put, err := api.PutSubject(r.Ctx, c.Name, text, revision)
	if err != nil {
		return fmt.Errorf("subject %s: %w", c.Name, err)
	}
	return c.Printf(r, put, "%s may %s\n", show.Text(put.Name), show.Text(grantsText(put.Grants)))
}

type subjectRmCmd struct {
	Names []string `arg:"" name:"name" help:"Names of the subjects."`
}

func (c *subjectRmCmd) Run(r *command.Run, api *client.Client) error {
	for _, name := range c.Names {
		if err := api.DeleteSubject(r.Ctx, name, client.Always); err != nil {
			return fmt.Errorf("subject %s: %w", name, err)
		}
		if _, err := fmt.Fprintf(r.Out, "%s deleted\n", show.Text(name)); err != nil {
			return err
		}
	}
	return nil
}
