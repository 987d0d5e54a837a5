package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/cli/login"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

// Who is recorded to have made the tokens that are there before anybody can ask for one.
const (
	byUp   = "up"
	byInit = "token init"
)

// as is a context whose changes are recorded as made by whoever has the store itself.
func as(ctx context.Context, name string) context.Context {
	person, _ := audit.ActorOf(ctx) // who runs the tool, as the system says
	return audit.WithActor(ctx, audit.Actor{Name: name, Note: person.Note})
}

// operatorTokens are those of the operator.
func operatorTokens(ctx context.Context, a *auth.Authority, by string) (all []auth.Token, err error) {
	for after := ""; ; {
		page, err := a.Tokens(ctx, auth.Operator(by), "", after, document.MaxPage)
		if err != nil {
			return nil, fmt.Errorf("the operator's tokens: %w", err)
		}
		for i := range page {
			if page[i].App == "" {
				all = append(all, page[i])
			}
		}
		if len(page) < document.MaxPage {
			return all, nil
		}
		after = page[len(page)-1].ID
	}
}

// adminToken makes a token that may do everything.
func adminToken(ctx context.Context, a *auth.Authority, by, note string) (string, auth.Token, error) {
	secret, made, err := a.CreateToken(
		as(ctx, by), auth.Operator(by), auth.Token{Grants: []auth.Grant{{Role: auth.Admin}}, Note: note},
	)
	if err != nil {
		err = fmt.Errorf("make a token: %w", err)
	}
	return secret, made, err
}

// ownToken makes sure that the operator's token of up is in its file. One whose file is gone is revoked, and another
// one made. A file that others can read, or that has something else, is an error.
func ownToken(ctx context.Context, a *auth.Authority, path string, log *slog.Logger) error {
	err := login.Private(path)
	if errors.Is(err, fs.ErrNotExist) {
		return renewToken(ctx, a, path)
	}
	if err != nil {
		return fmt.Errorf("refused to start: %w", err)
	}
	token, err := login.ReadToken(path)
	if err != nil {
		return err
	}
	id, err := auth.ParseToken(token)
	if err != nil {
		return fmt.Errorf("%s: %w; remove the file, and the next start makes another", path, err)
	}
	_, err = a.Token(ctx, auth.Operator(byUp), id)
	if errors.Is(err, document.ErrUnknown) { // whoever revoked it meant that
		log.Warn("the token in this file holds no more; remove the file, and the next start makes another", "file", path)
		return nil
	}
	return err
}

// renewToken revokes what it made before, and makes another one. The store has it before the file: a start that is
// broken off in between is made good by the next one.
func renewToken(ctx context.Context, a *auth.Authority, path string) error {
	before, err := operatorTokens(ctx, a, byUp)
	if err != nil {
		return err
	}
	for i := range before {
		if before[i].Creator != byUp {
			continue
		}
		if _, err := a.DeleteToken(as(ctx, byUp), auth.Operator(byUp), before[i].ID, queue.AnyRevision); err != nil {
			return fmt.Errorf("revoke the token whose file is gone: %w", err)
		}
	}
	secret, made, err := adminToken(ctx, a, byUp, "of penstock up, in "+tokenFile)
	if err != nil {
		return err
	}
	if err := login.WriteToken(ctx, path, secret); err != nil {
		_, undo := a.DeleteToken(as(context.WithoutCancel(ctx), byUp), auth.Operator(byUp), made.ID, queue.AnyRevision)
		return errors.Join(err, undo)
	}
	return nil
}

// tokenFile and socketFile lie in the directory of an embedded store.
const (
	tokenFile  = "admin.token"
	socketFile = "penstock.sock"
)

// keepLogin lets the tool on this machine ask a server over its socket when it is given its URL. The token is not part
// of it: after a kill, another process may listen there. It is no reason to end that it cannot.
func keepLogin(url, socket string, log *slog.Logger) (forget func()) {
	file, err := login.Default()
	if err == nil {
		err = file.Keep(login.Login{URL: url, Socket: socket})
	}
	if err != nil {
		log.Warn("penstock on this machine will not find the socket by itself: give it --server", "server", "unix://"+socket,
			"error", err)
		return func() {}
	}
	return func() {
		_, err := file.Forget(func(l login.Login) bool { return l.Socket == socket && l.URL == url })
		if err != nil && !os.IsNotExist(err) {
			log.Warn("the login of this server is kept though it ends", "error", err)
		}
	}
}
