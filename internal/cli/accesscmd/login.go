package accesscmd

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"golang.org/x/term"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/login"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// LoginCmd is penstock login.
type LoginCmd struct{ command.Connection }

// Help implements kong.HelpProvider.
func (LoginCmd) Help() string {
	return `Reads a token from the terminal, from standard input or from --token-file, checks it with the server,
and saves it for this server, or under the name of --profile. Tokens are saved in penstock/servers.json
in the user's configuration directory (~/.config on Linux), readable only by the user.

A command uses the first of these: an Authorization header in --header, --token-file, --profile,
PENSTOCK_TOKEN, the file in PENSTOCK_TOKEN_FILE, the saved token of its server. It reaches a server that
"penstock up" runs on this machine at its Unix socket, without a token.

Examples:
  penstock login
  penstock login --server https://queues.example.com
  penstock login --server https://queues.example.com --profile prod --token-file token
  penstock queue ls --profile prod`
}

// Run runs the command.
func (c *LoginCmd) Run(r *command.Run) error {
	server := cmp.Or(r.Server, client.DefaultURL)
	url, err := login.Server(server)
	if err != nil {
		return command.Usage(fmt.Errorf("--server: %w", err))
	}
	file, err := login.Default()
	if err != nil {
		return err
	}
	token, err := c.read(r)
	if err != nil {
		return command.Usage(err)
	}
	head, err := c.Headers()
	if err != nil {
		return command.Usage(err)
	}
	api, err := c.Connect(login.Login{URL: server, Token: token}, head)
	if err != nil {
		return command.Usage(err)
	}
	who, err := api.Whoami(r.Ctx)
	if err != nil {
		return fmt.Errorf("not logged in at %s: %w", secrets.MaskURL(url), err)
	}
	if err := file.Keep(login.Login{Profile: c.Profile, URL: url, Token: token}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.Out, "logged in at %s as %s\n", secrets.MaskURL(url), identity(&who))
	return err
}

// read reads the token.
func (c *LoginCmd) read(r *command.Run) (string, error) {
	if c.TokenFile != "" {
		token, err := login.ReadToken(c.TokenFile)
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		return token, nil
	}
	f, ok := r.In.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		token, err := login.Read(r.In)
		if err != nil {
			return "", fmt.Errorf("standard input: %w", err)
		}
		return token, nil
	}
	_, _ = fmt.Fprint(r.Err, "Token: ")
	text, err := term.ReadPassword(int(f.Fd()))
	_, _ = fmt.Fprintln(r.Err)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	return login.Check(string(text))
}

// LogoutCmd is penstock logout.
type LogoutCmd struct {
	Profile string `help:"Name of the login to remove, instead of that of the server." placeholder:"NAME"`
	All     bool   `help:"Remove all logins."`
}

// Help implements kong.HelpProvider.
func (LogoutCmd) Help() string {
	return `The saved token is removed but stays valid; "penstock token revoke" revokes it.

Examples:
  penstock logout
  penstock logout --profile prod`
}

// Run runs the command.
func (c *LogoutCmd) Run(r *command.Run) error {
	file, err := login.Default()
	if err != nil {
		return err
	}
	url, err := login.Server(cmp.Or(r.Server, client.DefaultURL))
	if err != nil {
		return command.Usage(fmt.Errorf("--server: %w", err))
	}
	gone, err := file.Forget(func(l login.Login) bool {
		if c.Profile != "" {
			return l.Profile == c.Profile
		}
		return c.All || l.Profile == "" && l.URL == url
	})
	if err != nil {
		return err
	}
	if len(gone) == 0 {
		return command.Fail(command.ExitRefused, errors.New("no login is saved for this server or profile"))
	}
	for i := range gone {
		if _, err := fmt.Fprintf(r.Out, "logged out of %s\n", secrets.MaskURL(gone[i].URL)); err != nil {
			return err
		}
	}
	return nil
}

// WhoamiCmd is penstock whoami.
type WhoamiCmd struct {
	command.Connection
	command.Output
}

// Run runs the command.
func (c *WhoamiCmd) Run(r *command.Run, api *client.Client) error {
	who, err := api.Whoami(r.Ctx)
	if err != nil {
		return err
	}
	return c.Print(r, who, func() string {
		return command.Facts(
			"server", r.ServerURL(),
			"name", identity(&who),
			"app", who.App,
			"may", grantsText(who.Grants),
			"names", joined(who.Prefixes),
		)
	})
}

// identity returns the name of the caller.
func identity(who *wire.Whoami) string {
	switch {
	case who.Auth != "":
		return "anyone: authentication is disabled"
	case who.App != "":
		return fmt.Sprintf("%s, app %s", show.Text(who.Name), show.Text(who.App))
	}
	return show.Text(who.Name) + ", the operator"
}
