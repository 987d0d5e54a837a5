package accesscmd

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/login"
	"github.com/penstock/penstock/internal/cli/operator"
)

type tokenInitCmd struct {
	Redis string `required:"" placeholder:"URL"`
	Again bool   `help:"Create another token although the operator has one, if all are lost."`
	From  string `env:"-" placeholder:"FILE"`
}

func (tokenInitCmd) LongHelp() map[string]string {
	return map[string]string{
		"redis": "URL of the store: redis://HOST:PORT[/DB], or the URL of a Sentinel or Cluster, as for ingress.",
		"from": "File with a token of \"penstock token generate\" to register, instead of creating one. Registering it " +
			"again is safe. Nothing secret is printed.",
	}
}

func (tokenInitCmd) Help() string {
	return `Creates the first token of the operator, with full access, directly in the store. Anyone with access
to the store has full access anyway. The token is printed once, alone on standard output. ("penstock
up" creates its own token, in admin.token in its --data.) With --from, the token can be in a secret
store before the installation exists.

Examples:
  penstock token init --redis redis://localhost:6379/0 | penstock login
  penstock token init --redis redis://localhost:6379/0 --again > admin.token
  penstock token init --redis redis://localhost:6379/0 --from /run/secrets/admin.token`
}

func (c *tokenInitCmd) Run(r *command.Run) error {
	given, id, err := c.given()
	if err != nil {
		return command.Usage(fmt.Errorf("--from: %w", err))
	}
	log := slog.New(slog.DiscardHandler)
	app.QuietRedis(log)
	engine, err := store.Open(r.Ctx, store.Options{RedisURL: c.Redis, Logger: log})
	if err != nil {
		return err
	}
	defer func() { _ = engine.Close() }()
	a, err := auth.New(engine, auth.Options{Log: log})
	if err != nil {
		return err
	}
	present, err := operator.Tokens(r.Ctx, a, operator.ByInit)
	if err != nil {
		return err
	}
	admins := slices.DeleteFunc(present, func(t auth.Token) bool { return !isAdmin(&t) })
	known := slices.ContainsFunc(admins, func(t auth.Token) bool { return t.ID == id })
	if len(admins) > 0 && !known && !c.Again {
		return command.Fail(command.ExitRefused, fmt.Errorf(
			"the operator already has the token %s; use it, or --again if all tokens are lost", admins[0].ID))
	}
	if given != "" {
		if _, err := operator.RegisterAdmin(r.Ctx, a, operator.ByInit, given); err != nil {
			return err
		}
		_, err = fmt.Fprintf(r.Out, "token %s of the operator is registered\n", id)
		return err
	}
	secret, made, err := operator.CreateAdmin(r.Ctx, a, operator.ByInit, "")
	if err != nil {
		return err
	}
	r.Say("token %s of the operator; copy it now, it will not be shown again:", made.ID)
	_, err = fmt.Fprintln(r.Out, secret)
	return err
}

// given returns the token of --from and its id, or "" without the flag.
func (c *tokenInitCmd) given() (secret, id string, err error) {
	if c.From == "" {
		return "", "", nil
	}
	if secret, err = login.ReadToken(c.From); err != nil {
		return "", "", err
	}
	if id, err = auth.ParseToken(secret); err != nil {
		return "", "", fmt.Errorf("%s: %w; \"penstock token generate\" prints a token", c.From, err)
	}
	return secret, id, nil
}

type tokenGenerateCmd struct {
	Save string `env:"-" placeholder:"FILE"`
}

func (tokenGenerateCmd) LongHelp() map[string]string {
	return map[string]string{"save": saveHelp}
}

func (tokenGenerateCmd) Help() string {
	return `Prints a new token and changes nothing. The token works after "penstock token init --from" has registered
it in a store, with full access.

Examples:
  penstock token generate --save admin.token
  penstock token generate | kubectl create secret generic penstock-token --from-file=token=/dev/stdin`
}

func (c *tokenGenerateCmd) Run(r *command.Run) error {
	secret, made := auth.NewToken()
	if c.Save == "" {
		_, err := fmt.Fprintln(r.Out, secret)
		return err
	}
	if err := login.WriteToken(r.Ctx, c.Save, secret); err != nil {
		return command.Usage(fmt.Errorf("--save: %w", err))
	}
	_, err := fmt.Fprintf(r.Out, "token %s saved to %s\n", made.ID, c.Save)
	return err
}

// isAdmin reports whether a token of the operator has full access and is valid.
func isAdmin(t *auth.Token) bool {
	return (t.Expires.IsZero() || t.Expires.After(time.Now())) && slices.ContainsFunc(t.Grants, func(g auth.Grant) bool {
		return g.Role == auth.Admin && (g.Prefix == "" || g.Prefix == auth.Everything)
	})
}
