package accesscmd

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/login"
	"github.com/penstock/penstock/internal/cli/outfile"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/unit"
)

// TokenCmd is penstock token.
type TokenCmd struct {
	command.Connection
	Init     tokenInitCmd     `cmd:"" help:"Create the first token of an operator, in the store itself."`
	Generate tokenGenerateCmd `cmd:"" help:"Generate a token for \"token init --from\", without a server."`
	Create   tokenCreateCmd   `cmd:"" help:"Create a token and print it once."`
	Ls       tokenLsCmd       `cmd:"" help:"List tokens."`
	Info     tokenInfoCmd     `cmd:"" help:"Show a token, without its secret."`
	Rotate   tokenRotateCmd   `cmd:"" help:"Replace a token; the old one keeps working for a grace period."`
	Revoke   tokenRevokeCmd   `cmd:"" help:"Revoke tokens at once."`
}

// secretFlags say where to write a new token.
type secretFlags struct {
	Save string `env:"-" placeholder:"FILE"`
	command.Output
}

const saveHelp = "New file for the token, readable only by you, or a pipe or device. Default: standard output."

func (secretFlags) LongHelp() map[string]string {
	return map[string]string{"save": saveHelp}
}

// check reports whether a token could be saved, before it is created.
func (f *secretFlags) check() error {
	if f.Save == "" {
		return nil
	}
	if err := outfile.CheckCreate(f.Save); err != nil {
		return command.Usage(fmt.Errorf("--save: %w", err))
	}
	return nil
}

// write saves or prints a new token. It prints nothing else on standard output, so that it can be piped.
func (f *secretFlags) write(r *command.Run, made *wire.MadeToken) error {
	if f.Save != "" {
		if err := login.WriteToken(r.Ctx, f.Save, made.Secret); err != nil {
			return fmt.Errorf("token %s was created but cannot be saved; revoke it with \"penstock token revoke %[1]s\": %w",
				made.ID, err)
		}
		made.Secret = ""
	}
	if f.JSON() {
		return command.PrintJSON(r.Out, made)
	}
	what := "token " + made.ID
	if made.App != "" {
		what += " of app " + show.Text(made.App)
	}
	if f.Save != "" {
		_, err := fmt.Fprintf(r.Out, "%s saved to %s\n", what, f.Save)
		return err
	}
	r.Say("%s; copy it now, it will not be shown again:", what)
	_, err := fmt.Fprintln(r.Out, made.Secret)
	return err
}

type tokenCreateCmd struct {
	App string `env:"-" help:"App of the token. Default: your own; for operators, none." placeholder:"APP"`
	grantFlags
	expiry
	Note string `env:"-" help:"Note for people, such as its purpose."`
	secretFlags
}

func (tokenCreateCmd) Help() string {
	return `The token is printed once, alone on standard output; the server keeps only its digest. You can grant
only permissions that you have.

` + roleHelp() + `
Examples:
  penstock token create --app acme --grant produce --grant view --note 'web shop'
  penstock token create --app acme --grant consume:acme-mail --expires-in 720h --save worker.token
  penstock token create --grant view > prometheus.token`
}

func (c *tokenCreateCmd) Run(r *command.Run, api *client.Client) error {
	grants, err := c.grants()
	if err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	made, err := api.CreateToken(r.Ctx, wire.TokenRequest{
		App: c.App, Grants: grants, ExpiresIn: unit.Duration(c.ExpiresIn), Note: c.Note,
	})
	if err != nil {
		return err
	}
	return c.write(r, &made)
}

type tokenLsCmd struct {
	App string `env:"-" placeholder:"APP"`
	command.Output
}

func (tokenLsCmd) LongHelp() map[string]string {
	return map[string]string{"app": "App whose tokens to list. Default: your own app; for operators, all apps."}
}

func (c *tokenLsCmd) Run(r *command.Run, api *client.Client) error {
	tokens, err := api.Tokens(r.Ctx, c.App)
	if err != nil {
		return err
	}
	return command.List(r, c.Output, tokens, "",
		command.NewTable("ID", "APP", "MAY", "CREATED", "ENDS", "LAST USED", "CREATOR", "NOTE"),
		func(k *wire.Token) []string {
			return []string{
				k.ID, show.OrNone(k.App), grantsText(k.Grants), day(&k.Created), ends(k.Expires), show.OrNone(k.LastUsed),
				k.Creator, k.Note,
			}
		})
}

func day(t *time.Time) string { return t.Local().Format(time.DateOnly) }

// ends returns when a token or a subject expires.
func ends(at *time.Time) string {
	if at == nil || at.IsZero() {
		return "never"
	}
	return at.Local().Format(time.DateTime)
}

type tokenInfoCmd struct {
	ID string `arg:"" help:"Id of the token: its part between ps_ and the next _."`
	command.Output
}

func (c *tokenInfoCmd) Run(r *command.Run, api *client.Client) error {
	id, err := command.TokenID(c.ID)
	if err != nil {
		return err
	}
	k, err := api.Token(r.Ctx, id)
	if err != nil {
		return err
	}
	return c.Print(r, k, func() string {
		return command.Facts(
			"id", fmt.Sprintf("%s, revision %d", k.ID, k.Revision),
			"app", k.App,
			"may", grantsText(k.Grants),
			"created", k.Created.Local().Format(time.DateTime),
			"creator", k.Creator,
			"ends", ends(k.Expires),
			"last used", k.LastUsed,
			"replaced by", k.ReplacedBy,
			"session of", k.SessionOf,
			"note", k.Note,
		)
	})
}

type tokenRotateCmd struct {
	ID   string        `arg:"" help:"Id of the token."`
	Keep time.Duration `env:"-" default:"24h" placeholder:"DURATION"`
	secretFlags
}

func (tokenRotateCmd) LongHelp() map[string]string {
	return map[string]string{
		"keep": "Grace period of the old token; 0 revokes it at once. Default: ${default}.",
	}
}

func (tokenRotateCmd) Help() string {
	return `The new token has the permissions and the expiry of the old one.

Examples:
  penstock token rotate 4f1cq02mx7ab > new.token
  penstock token rotate 4f1cq02mx7ab --keep 1h --save /etc/shop/penstock.token`
}

func (c *tokenRotateCmd) Run(r *command.Run, api *client.Client) error {
	if c.Keep < 0 {
		return command.Usage(fmt.Errorf("--keep %v: must not be negative", c.Keep))
	}
	id, err := command.TokenID(c.ID)
	if err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	made, err := api.RotateToken(r.Ctx, id, c.Keep)
	if err != nil {
		return err
	}
	return c.write(r, &made)
}

type tokenRevokeCmd struct {
	IDs []string `arg:"" name:"id" help:"Ids of the tokens."`
}

func (c *tokenRevokeCmd) Run(r *command.Run, api *client.Client) error {
	for _, given := range c.IDs {
		id, err := command.TokenID(given)
		if err != nil {
			return err
		}
		if err := api.DeleteToken(r.Ctx, id, client.Always); err != nil {
			return fmt.Errorf("token %s: %w", id, err)
		}
		if _, err := fmt.Fprintf(r.Out, "%s revoked\n", id); err != nil {
			return err
		}
	}
	return nil
}
