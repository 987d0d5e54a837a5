package command

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/cli/login"
	"github.com/penstock/penstock/internal/client"
)

// Connection holds the flags that say how to reach a server.
type Connection struct {
	CA     string   `name:"ca" placeholder:"FILE"`
	Cert   string   `placeholder:"FILE"`
	Key    string   `help:"PEM file of the private key of --cert." placeholder:"FILE"`
	Header []string `placeholder:"HEADER" sep:"none"`

	TokenFile     string `env:"-" placeholder:"FILE"`
	Profile       string `help:"Saved login to use; see \"penstock login\"." placeholder:"NAME"`
	InsecureToken bool
}

// LongHelp returns the help texts that are too long for tags; see app.SetLongHelp.
func (Connection) LongHelp() map[string]string {
	return map[string]string{
		"ca":   "PEM file of the certificate authorities to trust. Default: those of the system.",
		"cert": "PEM file of the client certificate for the server, or for a proxy before it.",
		"header": "Header to send with every request, such as 'Authorization: Bearer ...'. @FILE reads one header " +
			"per line. May be repeated.",
		"token-file": "File with the token to use. Default: the token in PENSTOCK_TOKEN, or else in the file that " +
			"PENSTOCK_TOKEN_FILE names.",
		"insecure-token": "Allow sending a token to another machine without TLS, where others may read it.",
	}
}

// AfterApply is called by the parser.
func (c *Connection) AfterApply(r *Run) error {
	r.Connection = *c
	return nil
}

// Client returns a client of a server. An empty URL means the URL of --profile, or else client.DefaultURL.
func (c *Connection) Client(server string) (*client.Client, error) {
	head, err := c.Headers()
	if err != nil {
		return nil, err
	}
	to, err := c.credentials(server, head)
	if err != nil {
		return nil, err
	}
	return c.Connect(to, head)
}

// Connect returns a client that uses a login: its socket if it has one, else its URL and token.
func (c *Connection) Connect(to login.Login, head http.Header) (*client.Client, error) {
	if to.Token != "" {
		if !login.Safe(to.URL) && !c.InsecureToken {
			return nil, fmt.Errorf("--server %s: refusing to send a token to another machine without TLS; use https://, or "+
				"--insecure-token on a trusted network", secrets.MaskURL(to.URL))
		}
		head.Set("Authorization", "Bearer "+to.Token)
	}
	config, err := c.tls()
	if err != nil {
		return nil, err
	}
	if config != nil && !strings.HasPrefix(to.URL, "https://") {
		return nil, errors.New("--ca, --cert and --key need TLS: use a --server URL that begins with https://")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	server := to.URL
	if path, socket := strings.CutPrefix(server, "unix://"); socket {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	} else if to.Socket != "" {
		server, transport.DialContext = "unix://"+to.Socket, dialSocket(to)
	}
	hc := &http.Client{Transport: &headerTransport{head, transport}}
	if len(head) > 0 || c.Cert != "" { // credentials for this server only
		hc.CheckRedirect = sameServer
	}
	return client.New(server, hc)
}

// dialSocket returns a dialer of the socket in a login that "penstock up" saved.
func dialSocket(saved login.Login) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", saved.Socket)
		if err != nil {
			err = fmt.Errorf("\"penstock up\" is not running at %s (%v): start it with --data %s; if another server runs "+
				"there now, save a token for it with \"penstock login --server %[1]s\"",
				secrets.MaskURL(saved.URL), err, filepath.Dir(saved.Socket))
		}
		return conn, err
	}
}

// sameServer follows only redirects to the same server.
func sameServer(next *http.Request, before []*http.Request) error {
	if first := before[0].URL; next.URL.Scheme != first.Scheme || next.URL.Host != first.Host || len(before) >= 10 {
		return http.ErrUseLastResponse
	}
	return nil
}

// tls returns the TLS configuration, nil without flags.
func (c *Connection) tls() (*tls.Config, error) {
	if (c.Cert == "") != (c.Key == "") {
		return nil, errors.New("--cert and --key must be used together")
	}
	if c.CA == "" && c.Cert == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--ca %s: no PEM certificate found", c.CA)
		}
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("--cert %s, --key %s: %w", c.Cert, c.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
