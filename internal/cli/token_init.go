package cli

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/auth"
)

type tokenInitCmd struct {
	Redis string `required:"" placeholder:"URL"`
	Again bool   `help:"Make one though there are such tokens, when all of those are lost."`
}

// LongHelp is the help that is too long for the tags.
func (tokenInitCmd) LongHelp() map[string]string {
	return map[string]string{
		"redis": "The store, as ingress takes it: redis://HOST:PORT, redis+sentinel://... or redis+cluster://...",
	}
}

// Help is shown below the flags.
func (tokenInitCmd) Help() string {
	return `Makes the first token of the operator, who may do everything, by asking no server but the store:
whoever has that has everything. It is printed alone on standard output, this once. ("penstock
up" makes its own, and keeps it in admin.token in its --data.)

Examples:
  penstock token init --redis redis://localhost:6379/0 | penstock login
  penstock token init --redis redis://localhost:6379/0 --again > admin.token`
}

func (c *tokenInitCmd) Run(r *run) error {
	log := slog.New(slog.DiscardHandler)
	app.QuietRedis(log)
	engine, err := store.Open(r.ctx, store.Options{RedisURL: c.Redis, Logger: log})
	if err != nil {
		return err
	}
	defer func() { _ = engine.Close() }()
	a, err := auth.New(engine, auth.Options{Log: log})
	if err != nil {
		return err
	}
	there, err := operatorTokens(r.ctx, a, byInit)
	if err != nil {
		return err
	}
	if n := len(slices.DeleteFunc(there, func(t auth.Token) bool { return !isAdmin(&t) })); n > 0 && !c.Again {
		return &ended{ExitRefused, fmt.Errorf(
			"the operator has a token already, %s: use it, or give --again if none is left that anybody has", there[0].ID)}
	}
	secret, made, err := adminToken(r.ctx, a, byInit, "")
	if err != nil {
		return err
	}
	r.say("token %s of the operator; it is shown this once:", made.ID)
	_, err = fmt.Fprintln(r.Out, secret)
	return err
}

// isAdmin reports whether an operator's token may do everything, and still holds.
func isAdmin(t *auth.Token) bool {
	return (t.Expires.IsZero() || t.Expires.After(time.Now())) && slices.ContainsFunc(t.Grants, func(g auth.Grant) bool {
		return g.Role == auth.Admin && (g.Prefix == "" || g.Prefix == auth.Everything)
	})
}
