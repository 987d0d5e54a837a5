// Package operator creates the first tokens of an operator, before any server can be asked for one, and the files that
// let an operator of the same machine use them.
package operator

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

// The recorded creators of tokens that no caller asked a server for.
const (
	ByUp   = "up"
	ByInit = "token init"
)

// as returns a context whose changes are recorded under a creator.
func as(ctx context.Context, name string) context.Context {
	person, _ := audit.ActorOf(ctx) // the user of the tool
	return audit.WithActor(ctx, audit.Actor{Name: name, Note: person.Note})
}

// Tokens returns the tokens of the operator.
func Tokens(ctx context.Context, a *auth.Authority, by string) (all []auth.Token, err error) {
	for after := ""; ; {
		page, err := a.Tokens(ctx, auth.Operator(by), "", after, document.MaxPage)
		if err != nil {
			return nil, fmt.Errorf("list the operator's tokens: %w", err)
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

// CreateAdmin creates a token of the operator with full access.
func CreateAdmin(ctx context.Context, a *auth.Authority, by, note string) (string, auth.Token, error) {
	secret, made, err := a.CreateToken(
		as(ctx, by), auth.Operator(by), auth.Token{Grants: []auth.Grant{{Role: auth.Admin}}, Note: note},
	)
	if err != nil {
		err = fmt.Errorf("create a token: %w", err)
	}
	return secret, made, err
}

// RegisterAdmin registers a token that was generated elsewhere as a token of the operator with full access. It does
// nothing if the token exists.
func RegisterAdmin(ctx context.Context, a *auth.Authority, by, secret string) (auth.Token, error) {
	made, err := a.RegisterToken(
		as(ctx, by), auth.Operator(by), secret, &auth.Token{Grants: []auth.Grant{{Role: auth.Admin}}},
	)
	if err != nil {
		err = fmt.Errorf("register the token: %w", err)
	}
	return made, err
}

// EnsureToken makes sure that the token of "penstock up" is in its file. If the file is gone it revokes the token and
// creates another. A file that others can read, or that holds something else, is an error.
func EnsureToken(ctx context.Context, a *auth.Authority, path string, log *slog.Logger) error {
	err := login.Private(path)
	if errors.Is(err, fs.ErrNotExist) {
		return renewToken(ctx, a, path)
	}
	if err != nil {
		return fmt.Errorf("refusing to start: %w", err)
	}
	token, err := login.ReadToken(path)
	if err != nil {
		return err
	}
	id, err := auth.ParseToken(token)
	if err != nil {
		return fmt.Errorf("%s: %w; remove the file to have the next start create another token", path, err)
	}
	_, err = a.Token(ctx, auth.Operator(ByUp), id)
	if errors.Is(err, document.ErrUnknown) { // it was revoked on purpose
		log.Warn("the token in this file is no longer valid; remove the file to have the next start create another",
			"file", path)
		return nil
	}
	return err
}

// renewToken revokes the tokens that earlier starts created, and creates another. The store has the new token before
// the file does. If the start is interrupted in between, the next start renews the token again.
func renewToken(ctx context.Context, a *auth.Authority, path string) error {
	before, err := Tokens(ctx, a, ByUp)
	if err != nil {
		return err
	}
	for i := range before {
		if before[i].Creator != ByUp {
			continue
		}
		if _, err := a.DeleteToken(as(ctx, ByUp), auth.Operator(ByUp), before[i].ID, queue.AnyRevision); err != nil {
			return fmt.Errorf("revoke the token of the missing file: %w", err)
		}
	}
	secret, made, err := CreateAdmin(ctx, a, ByUp, "of penstock up, in "+TokenFile)
	if err != nil {
		return err
	}
	if err := login.WriteToken(ctx, path, secret); err != nil {
		_, undo := a.DeleteToken(as(context.WithoutCancel(ctx), ByUp), auth.Operator(ByUp), made.ID, queue.AnyRevision)
		return errors.Join(err, undo)
	}
	return nil
}

// Names of files in the directory of an embedded store.
const (
	TokenFile  = "admin.token"
	SocketFile = "penstock.sock"
)

// SaveLogin lets commands on this machine use the socket of a server when they are given its URL. It saves no token:
// after a kill, another process may listen at the URL. If it fails it only logs a warning.
func SaveLogin(url, socket string, log *slog.Logger) (forget func()) {
	file, err := login.Default()
	if err == nil {
		err = file.Keep(login.Login{URL: url, Socket: socket})
	}
	if err != nil {
		log.Warn("commands on this machine cannot find the socket by themselves; use --server", "server", "unix://"+socket,
			"error", err)
		return func() {}
	}
	return func() {
		_, err := file.Forget(func(l login.Login) bool { return l.Socket == socket && l.URL == url })
		if err != nil && !os.IsNotExist(err) {
			log.Warn("cannot remove the saved login of this server", "error", err)
		}
	}
}

// OthersWrite reports whether other users can write to a directory with this mode.
func OthersWrite(mode fs.FileMode) bool { return auth.KnowsPeers && mode&0o022 != 0 }
