package command

import (
	"fmt"
	"net/http"
	"os"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/cli/login"
	"github.com/penstock/penstock/internal/client"
)

// EnvToken is the environment variable with a token. No flag takes a token, because all users of a machine can see its
// command lines.
const EnvToken = "PENSTOCK_TOKEN"

// EnvTokenFile is the environment variable with the name of a file with a token. EnvToken goes before it, as in the
// clients.
const EnvTokenFile = "PENSTOCK_TOKEN_FILE"

// EnvURL is the environment variable of --server.
const EnvURL = "PENSTOCK_URL"

// credentials returns the server and its token or socket, if any. The first of these decides: an Authorization header,
// --token-file, --profile, PENSTOCK_TOKEN, PENSTOCK_TOKEN_FILE, the saved login of the server. So a flag goes before
// the environment, and the environment before a saved login.
func (c *Connection) credentials(server string, head http.Header) (login.Login, error) {
	saved, err := c.profile(server)
	if err != nil {
		return login.Login{}, err
	}
	switch {
	case saved != nil:
		server = saved.URL
	case server == "":
		server = client.DefaultURL
	}
	to := login.Login{URL: server}
	switch {
	case head.Get("Authorization") != "":
	case c.TokenFile != "":
		to.Token, err = login.ReadToken(c.TokenFile)
		err = prefixed("--token-file", err)
	case saved != nil:
		to = *saved
	case os.Getenv(EnvToken) != "":
		to.Token, err = login.Check(os.Getenv(EnvToken))
		err = prefixed(EnvToken, err)
	case os.Getenv(EnvTokenFile) != "":
		to.Token, err = login.ReadToken(os.Getenv(EnvTokenFile))
		err = prefixed(EnvTokenFile, err)
	default:
		to, err = savedLogin(server)
		if to.Socket != "" && c.Cert != "" { // the certificate authenticates the caller
			to.Socket = ""
		}
	}
	return to, err
}

// prefixed returns err with a prefix, or nil.
func prefixed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// profile returns the login that --profile names, nil without the flag.
func (c *Connection) profile(server string) (*login.Login, error) {
	if c.Profile == "" {
		return nil, nil
	}
	file, err := login.Default()
	if err != nil {
		return nil, err
	}
	saved, found, err := file.Named(c.Profile)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("--profile %s: no such login; create it with \"penstock login --profile %[1]s --server URL\"",
			c.Profile)
	}
	if server == "" || server == os.Getenv(EnvURL) { // a flag goes before the environment
		return &saved, nil
	}
	if url, err := login.Server(server); err != nil || url != saved.URL {
		return nil, fmt.Errorf("--profile %s is a login for %s, but --server names another server",
			c.Profile, secrets.MaskURL(saved.URL))
	}
	return &saved, nil
}

// Profiles returns the names of the saved logins that have one.
func Profiles() (names []string) {
	file, err := login.Default()
	if err != nil {
		return nil
	}
	all, _ := file.Logins() // completion shows no errors
	for i := range all {
		names = append(names, all[i].Profile)
	}
	return names
}

// savedLogin returns the saved login of a server, or just its URL.
func savedLogin(server string) (login.Login, error) {
	none := login.Login{URL: server}
	file, err := login.Default()
	if err != nil {
		return none, nil // a process without a home has no logins
	}
	url, err := login.Server(server)
	if err != nil {
		return none, nil // the client reports what is wrong with it
	}
	saved, found, err := file.Of(url)
	if err != nil || !found {
		return none, err
	}
	return login.Login{URL: server, Token: saved.Token, Socket: saved.Socket}, nil
}

// ServerURL returns the URL of the server, without secrets.
func (r *Run) ServerURL() string {
	to, err := r.Connection.credentials(r.Server, http.Header{"Authorization": {"-"}})
	if err != nil {
		to.URL = r.Server
	}
	return secrets.MaskURL(to.URL)
}
