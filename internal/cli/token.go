package cli

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/cli/login"
	"github.com/penstock/penstock/internal/cli/outfile"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/unit"
)

type tokenCmd struct {
	connection
	Init   tokenInitCmd   `cmd:"" help:"Make the first token of all, with the store itself."`
	Create tokenCreateCmd `cmd:"" help:"Make a token, and print it this once."`
	Ls     tokenLsCmd     `cmd:"" help:"List tokens."`
	Info   tokenInfoCmd   `cmd:"" help:"Tell all about one token, but what it is."`
	Rotate tokenRotateCmd `cmd:"" help:"Make a token in place of another one, which ends a while later."`
	Revoke tokenRevokeCmd `cmd:"" help:"End tokens at once."`
}

// secretFlags say where a new token goes.
type secretFlags struct {
	Save string `env:"-" placeholder:"FILE"`
	output
}

// LongHelp is the help that is too long for the tags.
func (secretFlags) LongHelp() map[string]string {
	return map[string]string{
		"save": "Write the token to this new file, which only you can read, or to a pipe or device. Default: " +
			"standard output.",
	}
}

// check reports before a token is made whether it could be saved.
func (f *secretFlags) check() error {
	if f.Save == "" {
		return nil
	}
	if err := outfile.CheckCreate(f.Save); err != nil {
		return usage(fmt.Errorf("--save: %w", err))
	}
	return nil
}

// show prints a token that was just made, alone on standard output, so that it can be piped.
func (f *secretFlags) show(r *run, made *wire.MadeToken) error {
	if f.Save != "" {
		if err := login.WriteToken(r.ctx, f.Save, made.Secret); err != nil {
			return fmt.Errorf(
				"token %s was made and cannot be kept, so revoke it (penstock token revoke %s): %w", made.ID, made.ID, err,
			)
		}
		made.Secret = ""
	}
	if f.json() {
		return printJSON(r.Out, made)
	}
	what := "token " + made.ID
	if made.App != "" {
		what += " of app " + plain(made.App)
	}
	if f.Save != "" {
		_, err := fmt.Fprintf(r.Out, "%s is in %s\n", what, f.Save)
		return err
	}
	r.say("%s; it is shown this once:", what)
	_, err := fmt.Fprintln(r.Out, made.Secret)
	return err
}

type tokenCreateCmd struct {
	App string `env:"-" placeholder:"APP"`
	grantFlags
	lasting
	Note string `env:"-" help:"What it is for."`
	secretFlags
}

// LongHelp is the help that is too long for the tags.
func (tokenCreateCmd) LongHelp() map[string]string {
	return map[string]string{
		"app": "Whose it is; without one it is of the app of who asks, of the operator the operator's.",
	}
}

// Help is shown below the flags.
func (tokenCreateCmd) Help() string {
	return `The token is printed alone on standard output, this once: only its digest is kept. Nobody can
give away more than he has.

` + grantHelp() + `
Examples:
  penstock token create --app acme --grant produce --grant view --note 'web shop'
  penstock token create --app acme --grant consume:acme-mail --expires-in 720h --save worker.token
  penstock token create --grant view > prometheus.token`
}

func (c *tokenCreateCmd) Run(r *run) error {
	grants, err := c.grants()
	if err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	api, err := r.client()
	if err != nil {
		return err
	}
	made, err := api.CreateToken(r.ctx, wire.TokenRequest{
		App: c.App, Grants: grants, ExpiresIn: unit.Duration(c.ExpiresIn), Note: c.Note,
	})
	if err != nil {
		return err
	}
	return c.show(r, &made)
}

type tokenLsCmd struct {
	App string `env:"-" help:"Whose; without one those of the app of who asks, of the operator all." placeholder:"APP"`
	output
}

func (c *tokenLsCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	tokens, err := api.Tokens(r.ctx, c.App)
	if err != nil {
		return err
	}
	if c.json() {
		return printJSON(r.Out, orEmpty(tokens))
	}
	t := table{header: []string{"ID", "APP", "MAY", "CREATED", "ENDS", "LAST USED", "CREATOR", "NOTE"}}
	for i := range tokens {
		k := &tokens[i]
		t.add(
			k.ID, orNone(k.App), grantsOf(k.Grants), day(&k.Created), ends(k.Expires), orNone(k.LastUsed), k.Creator, k.Note,
		)
	}
	_, err = fmt.Fprint(r.Out, t.String())
	return err
}

func day(t *time.Time) string { return t.Local().Format(time.DateOnly) }

// ends is when a token or a subject does.
func ends(at *time.Time) string {
	if at == nil || at.IsZero() {
		return "never"
	}
	return at.Local().Format(time.DateTime)
}

type tokenInfoCmd struct {
	ID string `arg:"" help:"Id of the token, the part between ps_ and the next _."`
	output
}

func (c *tokenInfoCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	id, err := tokenID(c.ID)
	if err != nil {
		return err
	}
	k, err := api.Token(r.ctx, id)
	if err != nil {
		return err
	}
	if c.json() {
		return printJSON(r.Out, k)
	}
	return facts(r.Out,
		"id", fmt.Sprintf("%s, revision %d", k.ID, k.Revision),
		"app", k.App,
		"may", grantsOf(k.Grants),
		"created", k.Created.Local().Format(time.DateTime),
		"creator", k.Creator,
		"ends", ends(k.Expires),
		"last used", k.LastUsed,
		"replaced by", k.ReplacedBy,
		"session of", k.SessionOf,
		"note", k.Note,
	)
}

type tokenRotateCmd struct {
	ID   string        `arg:"" help:"Id of the token."`
	Keep time.Duration `env:"-" default:"24h" placeholder:"DURATION"`
	secretFlags
}

// LongHelp is the help that is too long for the tags.
func (tokenRotateCmd) LongHelp() map[string]string {
	return map[string]string{
		"keep": "How long the old one still holds: 24h unless something else is given, 0 ends it at once.",
	}
}

// Help is shown below the flags.
func (tokenRotateCmd) Help() string {
	return `The new token may do what the old one may, and holds as long as that was to.

Examples:
  penstock token rotate 4f1cq02mx7ab > new.token
  penstock token rotate 4f1cq02mx7ab --keep 1h --save /etc/shop/penstock.token`
}

func (c *tokenRotateCmd) Run(r *run) error {
	if c.Keep < 0 {
		return usage(fmt.Errorf("--keep %v: must not be negative", c.Keep))
	}
	id, err := tokenID(c.ID)
	if err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	api, err := r.client()
	if err != nil {
		return err
	}
	made, err := api.RotateToken(r.ctx, id, c.Keep)
	if err != nil {
		return err
	}
	return c.show(r, &made)
}

type tokenRevokeCmd struct {
	IDs []string `arg:"" name:"id" help:"Ids of the tokens."`
}

func (c *tokenRevokeCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	for _, given := range c.IDs {
		id, err := tokenID(given)
		if err != nil {
			return err
		}
		if err := api.DeleteToken(r.ctx, id, client.Always); err != nil {
			return fmt.Errorf("token %s: %w", id, err)
		}
		if _, err := fmt.Fprintf(r.Out, "%s revoked\n", id); err != nil {
			return err
		}
	}
	return nil
}

// tokenID keeps a whole token, given in place of its id, off the wire and out of what is shown.
func tokenID(given string) (string, error) {
	if len(given) > maxTokenID {
		return "", usage(fmt.Errorf("this is no id: give the part between ps_ and the next _. If it is a whole token, " +
			"others on this machine may have seen it now: replace it (penstock token rotate)"))
	}
	return given, nil
}

// maxTokenID is longer than an id, and shorter than a token.
const maxTokenID = 32
