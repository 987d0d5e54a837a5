package cli

import (
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/cli/login"
	"github.com/penstock/penstock/internal/client"
)

// envToken is the variable that has a token. No flag has: the command lines of a machine can be seen by all its users.
const envToken = "PENSTOCK_TOKEN"

// envURL is the variable behind --server.
const envURL = "PENSTOCK_URL"

// credentials are the server to ask, and the token to show it or the socket to ask it at, if there is one. What is said
// for this command counts before what is said for all of a shell, and that before what is kept: a header, --token-file,
// --profile, PENSTOCK_TOKEN, the login that is kept for the server.
func (c *connection) credentials(server string, head http.Header) (login.Login, error) {
	kept, err := c.profile(server)
	if err != nil {
		return login.Login{}, err
	}
	switch {
	case kept != nil:
		server = kept.URL
	case server == "":
		server = client.DefaultURL
	}
	to := login.Login{URL: server}
	switch {
	case head.Get("Authorization") != "":
	case c.TokenFile != "":
		to.Token, err = login.ReadToken(c.TokenFile)
		err = named("--token-file", err)
	case kept != nil:
		to = *kept
	case os.Getenv(envToken) != "":
		to.Token, err = login.Check(os.Getenv(envToken))
		err = named(envToken, err)
	default:
		to, err = keptFor(server)
		if to.Socket != "" && c.Cert != "" { // a certificate proves who asks, as a token does
			to.Socket = ""
		}
	}
	return to, err
}

// named is an error with what it is about, nil if there is none.
func named(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// profile is the login that --profile names; nil if it names none.
func (c *connection) profile(server string) (*login.Login, error) {
	if c.Profile == "" {
		return nil, nil
	}
	file, err := login.Default()
	if err != nil {
		return nil, err
	}
	kept, found, err := file.Named(c.Profile)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("--profile %s: no login has this name; penstock login --profile %s --server URL makes one",
			c.Profile, c.Profile)
	}
	if server == "" || server == os.Getenv(envURL) { // which is said for all of a shell
		return &kept, nil
	}
	if url, err := login.Server(server); err != nil || url != kept.URL {
		return nil, fmt.Errorf("--profile %s is a login of %s, and --server names another: its token is not for that",
			c.Profile, secrets.MaskURL(kept.URL))
	}
	return &kept, nil
}

// profiles are the names of the logins that have one.
func profiles() (names []string) {
	file, err := login.Default()
	if err != nil {
		return nil
	}
	all, _ := file.Logins() // who completes a word is not told what is wrong
	for i := range all {
		names = append(names, all[i].Profile)
	}
	return names
}

// keptFor is the login that is kept for a server; of its URL alone if none is.
func keptFor(server string) (login.Login, error) {
	none := login.Login{URL: server}
	file, err := login.Default()
	if err != nil {
		return none, nil // a process without a home has no logins
	}
	url, err := login.Server(server)
	if err != nil {
		return none, nil // the client says what is wrong with it
	}
	kept, found, err := file.Of(url)
	if err != nil || !found {
		return none, err
	}
	return login.Login{URL: server, Token: kept.Token, Socket: kept.Socket}, nil
}

// shown is the server that is asked, for people.
func (r *run) shown() string {
	to, err := r.connection.credentials(r.server, http.Header{"Authorization": {"-"}})
	if err != nil {
		to.URL = r.server
	}
	return secrets.MaskURL(to.URL)
}

// advised is an error with what to do about it.
func (r *run) advised(err error) error {
	var p *client.Problem
	if !errors.As(err, &p) {
		return err
	}
	if p.Status != http.StatusUnauthorized {
		r.advise(p)
		return err
	}
	return fmt.Errorf("%w; \"penstock login --server %s\" reads a token and keeps it, %s and --token-file show another; "+
		"that of \"penstock up\" is in admin.token in its --data; on Redis \"penstock token init\" makes the first",
		err, r.shown(), envToken)
}
