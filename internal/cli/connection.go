package cli

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

// connection is how commands reach the ingress that --server names.
type connection struct {
	CA     string   `name:"ca" placeholder:"FILE"`
	Cert   string   `placeholder:"FILE"`
	Key    string   `help:"PEM file of its private key." placeholder:"FILE"`
	Header []string `placeholder:"HEADER" sep:"none"`

	TokenFile     string `help:"File of the token to show to the ingress." placeholder:"FILE"`
	Profile       string `help:"Ask the ingress of this login, with its token; see penstock login." placeholder:"NAME"`
	InsecureToken bool
}

// LongHelp is the help that is too long for the tags.
func (connection) LongHelp() map[string]string {
	return map[string]string{
		"ca":   "PEM file of the authorities that the ingress' certificate may be of, in place of the system's.",
		"cert": "PEM file of a certificate to show to the ingress, or to a proxy before it.",
		"header": "Send this with every request, such as 'Authorization: Bearer ...'; @FILE reads lines of such. May " +
			"be repeated.",
		"insecure-token": "Show tokens also where others may read them on the way: beyond this machine without TLS.",
	}
}

// AfterApply is called by the parser, for the command that was given.
func (c *connection) AfterApply(r *run) error {
	r.connection = *c
	return nil
}

// client returns the client of the ingress at a URL, or without one of the profile's or the usual one.
func (c *connection) client(server string) (*client.Client, error) {
	head, err := c.headers()
	if err != nil {
		return nil, err
	}
	to, err := c.credentials(server, head)
	if err != nil {
		return nil, err
	}
	return c.connect(to, head)
}

// connect returns the client of a server: at its socket if the login has one, else at its URL, where it is shown the
// token.
func (c *connection) connect(to login.Login, head http.Header) (*client.Client, error) {
	if to.Token != "" {
		if !login.Safe(to.URL) && !c.InsecureToken {
			return nil, fmt.Errorf("--server %s: a token is not sent beyond this machine without TLS, where others may read "+
				"it: use https://, or --insecure-token if the network is trusted", secrets.MaskURL(to.URL))
		}
		head.Set("Authorization", "Bearer "+to.Token)
	}
	config, err := c.tls()
	if err != nil {
		return nil, err
	}
	if config != nil && !strings.HasPrefix(to.URL, "https://") {
		return nil, errors.New("--ca, --cert and --key are of TLS: the URL of --server must begin with https://")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	server := to.URL
	if path, socket := strings.CutPrefix(server, "unix://"); socket {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	} else if to.Socket != "" {
		server, transport.DialContext = "unix://"+to.Socket, atSocketOf(to)
	}
	hc := &http.Client{Transport: &heading{head, transport}}
	if len(head) > 0 || c.Cert != "" { // which are for this server alone
		hc.CheckRedirect = stay
	}
	return client.New(server, hc)
}

// atSocketOf connects to the socket of a login that penstock up kept.
func atSocketOf(kept login.Login) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", kept.Socket)
		if err != nil {
			err = fmt.Errorf("\"penstock up\" of %s does not run (%v): start it with --data %s; if another server is there "+
				"now, \"penstock login --server %[1]s\" keeps a token for that",
				secrets.MaskURL(kept.URL), err, filepath.Dir(kept.Socket))
		}
		return conn, err
	}
}

// stay follows redirects within a server, and answers with the others.
func stay(next *http.Request, before []*http.Request) error {
	if first := before[0].URL; next.URL.Scheme != first.Scheme || next.URL.Host != first.Host || len(before) >= 10 {
		return http.ErrUseLastResponse
	}
	return nil
}

// tls is nil where nothing is said.
func (c *connection) tls() (*tls.Config, error) {
	if (c.Cert == "") != (c.Key == "") {
		return nil, errors.New("--cert and --key belong together: give both or none")
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
			return nil, fmt.Errorf("--ca %s: has no certificate in PEM", c.CA)
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
