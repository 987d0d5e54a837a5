package cli

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/client"
)

type subjectCmd struct {
	connection
	Ls  subjectLsCmd  `cmd:"" help:"List those who may come without a token."`
	Put subjectPutCmd `cmd:"" help:"Say what somebody may do who comes without a token."`
	Rm  subjectRmCmd  `cmd:"" help:"Let somebody in no more."`
}

type subjectLsCmd struct {
	App string `env:"-" placeholder:"APP"`
	output
}

// LongHelp is the help that is too long for the tags.
func (subjectLsCmd) LongHelp() map[string]string {
	return map[string]string{
		"app": "Whose; without one those of the app of who asks, of the operator all.",
	}
}

func (c *subjectLsCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	subjects, err := api.Subjects(r.ctx, c.App)
	if err != nil {
		return err
	}
	if c.json() {
		return printJSON(r.Out, orEmpty(subjects))
	}
	t := table{header: []string{"NAME", "APP", "MAY", "CREATED", "ENDS", "CREATOR", "NOTE"}}
	for i := range subjects {
		s := &subjects[i]
		t.add(s.Name, orNone(s.App), grantsOf(s.Grants), day(&s.Created), ends(&s.Expires), s.Creator, s.Note)
	}
	_, err = fmt.Fprint(r.Out, t.String())
	return err
}

type subjectPutCmd struct {
	Name string `arg:"" help:"Who: cert:NAME, oidc:PROVIDER#VALUE or unix:UID."`
	App  string `env:"-" help:"Whose he is; without one the operator's." placeholder:"APP"`
	grantFlags
	lasting
	Note string `env:"-" help:"Who that is."`
	output
}

// Help is shown below the flags.
func (subjectPutCmd) Help() string {
	return `A subject proves who he is by a certificate that --tls-client-ca vouches for (a URI or DNS name
of it), by a JWT of a provider that --oidc-issuer names, or as a user of the machine, at the
socket of "penstock up". What is given takes the place of what was there.

` + grantHelp() + `
Examples:
  penstock subject put cert:billing.acme.example --app acme --grant produce
  penstock subject put oidc:cluster#system:serviceaccount:shop:worker --app acme --grant consume
  penstock subject put unix:1001 --grant view`
}

func (c *subjectPutCmd) Run(r *run) error {
	grants, err := c.grants()
	if err != nil {
		return err
	}
	api, err := r.client()
	if err != nil {
		return err
	}
	present, err := api.Subject(r.ctx, c.Name)
	revision := present.Revision
	if isReason(err, "unknown_subject") {
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
	}{c.App, grants, c.Note, c.expires(time.Now())})
	if err != nil {
		return fmt.Errorf("subject %s: %w", c.Name, err)
	}
	put, err := api.PutSubject(r.ctx, c.Name, text, revision)
	if err != nil {
		return fmt.Errorf("subject %s: %w", c.Name, err)
	}
	if c.json() {
		return printJSON(r.Out, put)
	}
	_, err = fmt.Fprintf(r.Out, "%s may %s\n", plain(put.Name), grantsOf(put.Grants))
	return err
}

type subjectRmCmd struct {
	Names []string `arg:"" name:"name" help:"Whom."`
}

func (c *subjectRmCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	for _, name := range c.Names {
		if err := api.DeleteSubject(r.ctx, name, client.Always); err != nil {
			return fmt.Errorf("subject %s: %w", name, err)
		}
		if _, err := fmt.Fprintf(r.Out, "%s removed\n", plain(name)); err != nil {
			return err
		}
	}
	return nil
}
