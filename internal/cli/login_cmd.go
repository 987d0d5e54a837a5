package cli

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/term"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/cli/login"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type loginCmd struct{ connection }

// Help is shown below the flags.
func (loginCmd) Help() string {
	return `Reads a token from standard input, on a terminal without showing it, or from --token-file,
asks the server whose it is, and keeps it for that server, or under the name that --profile
gives it. The file is servers.json in the directory penstock of the user's configuration
(~/.config on Linux), and nobody else can read it.

Which token a command shows: a header given by --header, else that of --token-file, else
that of --profile, else PENSTOCK_TOKEN, else the one kept for its server. A server that
"penstock up" started on this machine is asked at its Unix socket, and shown none.

Examples:
  penstock login
  penstock login --server https://queues.example.com
  penstock login --server https://queues.example.com --profile prod --token-file token
  penstock queue ls --profile prod`
}

func (c *loginCmd) Run(r *run) error {
	server := r.server
	if server == "" {
		server = client.DefaultURL
	}
	url, err := login.Server(server)
	if err != nil {
		return usage(fmt.Errorf("--server: %w", err))
	}
	file, err := login.Default()
	if err != nil {
		return err
	}
	token, err := c.read(r)
	if err != nil {
		return usage(err)
	}
	head, err := c.headers()
	if err != nil {
		return usage(err)
	}
	api, err := c.connect(login.Login{URL: server, Token: token}, head)
	if err != nil {
		return usage(err)
	}
	who, err := api.Whoami(r.ctx)
	if err != nil {
		return fmt.Errorf("not logged in at %s: %w", secrets.MaskURL(url), err)
	}
	if err := file.Keep(login.Login{Profile: c.Profile, URL: url, Token: token}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.Out, "logged in at %s as %s\n", secrets.MaskURL(url), identityOf(&who))
	return err
}

// read gets the token from where it is.
func (c *loginCmd) read(r *run) (string, error) {
	if c.TokenFile != "" {
		token, err := login.ReadToken(c.TokenFile)
		return token, named("--token-file", err)
	}
	f, ok := r.In.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		token, err := login.Read(r.In)
		return token, named("standard input", err)
	}
	_, _ = fmt.Fprint(r.Err, "Token: ")
	text, err := term.ReadPassword(int(f.Fd()))
	_, _ = fmt.Fprintln(r.Err)
	if err != nil {
		return "", fmt.Errorf("the token cannot be read: %w", err)
	}
	return login.Check(string(text))
}

type logoutCmd struct {
	Profile string `help:"Forget the login of this name, in place of the server's." placeholder:"NAME"`
	All     bool   `help:"Forget all logins."`
}

// Help is shown below the flags.
func (logoutCmd) Help() string {
	return `The token goes from the file of logins. It still holds: "penstock token revoke" ends it.

Examples:
  penstock logout
  penstock logout --profile prod`
}

func (c *logoutCmd) Run(r *run) error {
	file, err := login.Default()
	if err != nil {
		return err
	}
	server := r.server
	if server == "" {
		server = client.DefaultURL
	}
	url, err := login.Server(server)
	if err != nil {
		return usage(fmt.Errorf("--server: %w", err))
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
		return &ended{ExitRefused, errors.New("no such login is kept")}
	}
	for i := range gone {
		if _, err := fmt.Fprintf(r.Out, "logged out of %s\n", secrets.MaskURL(gone[i].URL)); err != nil {
			return err
		}
	}
	return nil
}

type whoamiCmd struct {
	connection
	output
}

func (c *whoamiCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	who, err := api.Whoami(r.ctx)
	if err != nil {
		return err
	}
	if c.json() {
		return printJSON(r.Out, who)
	}
	return facts(r.Out,
		"server", r.shown(),
		"name", identityOf(&who),
		"app", who.App,
		"may", grantsOf(who.Grants),
		"names", joined(who.Prefixes),
	)
}

// identityOf names who the server takes the caller for.
func identityOf(who *wire.Whoami) string {
	switch {
	case who.Auth != "":
		return "anybody: this server asks nobody who he is"
	case who.App != "":
		return fmt.Sprintf("%s, app %s", plain(who.Name), plain(who.App))
	}
	return plain(who.Name) + ", the operator"
}

// isReason reports whether the server refused for a reason.
func isReason(err error, reason string) bool {
	var p *client.Problem
	return errors.As(err, &p) && p.Reason == reason
}
