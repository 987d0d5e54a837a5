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
	"github.com/penstock/penstock/internal/cli/operator"
)

type tokenInitCmd struct {
	Redis string `required:"" placeholder:"URL"`
	Again bool   `help:"Create another token although the operator has one, if all are lost."`
}

func (tokenInitCmd) LongHelp() map[string]string {
	return map[string]string{
		"redis": "URL of the store: redis://HOST:PORT[/DB], or the URL of a Sentinel or Cluster, as for ingress.",
	}
}

func (tokenInitCmd) Help() string {
	return `Creates the first token of the operator, with full access, directly in the store. Anyone with access
to the store has full access anyway. The token is printed once, alone on standard output. ("penstock
up" creates its own token, in admin.token in its --data.)

Examples:
  penstock token init --redis redis://localhost:6379/0 | penstock login
  penstock token init --redis redis://localhost:6379/0 --again > admin.token`
}

func (c *tokenInitCmd) Run(r *command.Run) error {
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
	if admins := slices.DeleteFunc(present, func(t auth.Token) bool { return !isAdmin(&t) }); len(admins) > 0 && !c.Again {
		return command.Fail(command.ExitRefused, fmt.Errorf(
			"the operator already has the token %s; use it, or --again if all tokens are lost", admins[0].ID))
	}
	secret, made, err := operator.CreateAdmin(r.Ctx, a, operator.ByInit, "")
	if err != nil {
		return err
	}
	r.Say("token %s of the operator; copy it now, it will not be shown again:", made.ID)
	_, err = fmt.Fprintln(r.Out, secret)
	return err
}

// isAdmin reports whether a token of the operator has full access and is valid.
func isAdmin(t *auth.Token) bool {
	return (t.Expires.IsZero() || t.Expires.After(time.Now())) && slices.ContainsFunc(t.Grants, func(g auth.Grant) bool {
		return g.Role == auth.Admin && (g.Prefix == "" || g.Prefix == auth.Everything)
	})
}
