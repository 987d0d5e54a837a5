package cli

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"os"
	"regexp"
	"strings"

	"github.com/penstock/penstock/internal/client"
)

// connection is how commands reach the ingress that --server names.
type connection struct {
	CA     string   `name:"ca" help:"PEM file of the authorities that the ingress' certificate may be of, in place of the system's." placeholder:"FILE"`
	Cert   string   `help:"PEM file of a certificate to show to the ingress, or to a proxy before it." placeholder:"FILE"`
	Key    string   `help:"PEM file of its private key." placeholder:"FILE"`
	Header []string `help:"Send this with every request, such as 'Authorization: Bearer ...'; @FILE reads lines of such. May be repeated." placeholder:"HEADER" sep:"none"`
}

// AfterApply is called by the parser, for the command that was given.
func (c *connection) AfterApply(r *run) error {
	r.connection = *c
	return nil
}

// client returns the client of the ingress at a URL.
func (c *connection) client(server string) (*client.Client, error) {
	head, err := c.headers()
	if err != nil {
		return nil, err
	}
	config, err := c.tls()
	if err != nil {
		return nil, err
	}
	if config != nil && !strings.HasPrefix(server, "https://") {
		return nil, errors.New("--ca, --cert and --key are of TLS: the URL of --server must begin with https://")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	hc := &http.Client{Transport: &heading{head, transport}}
	if len(head) > 0 || c.Cert != "" { // which are for this server alone
		hc.CheckRedirect = stay
	}
	return client.New(server, hc)
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

// ownHeaders are those that this tool sets itself.
var ownHeaders = map[string]bool{
	"Host": true, "Content-Type": true, "Content-Length": true, "Transfer-Encoding": true, "Connection": true,
	"If-Match": true, "If-None-Match": true, "Penstock-By": true,
}

var token = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$") // RFC 9110, 5.6.2

// headers reads what --header says. Values may be secrets: no error quotes one.
func (c *connection) headers() (http.Header, error) {
	head := http.Header{}
	add := func(line, where string) error {
		name, value, ok := strings.Cut(line, ":")
		name, value = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
		switch {
		case !ok || !token.MatchString(name) || strings.IndexFunc(value, func(r rune) bool {
			return r < ' ' && r != '\t' || r > '~'
		}) >= 0:
			return fmt.Errorf("%s: must be NAME: VALUE, such as 'Authorization: Bearer ...'", where)
		case ownHeaders[name]:
			return fmt.Errorf("%s: %s is set by penstock itself", where, name)
		}
		head.Add(name, value)
		return nil
	}
	for _, given := range c.Header {
		path, isFile := strings.CutPrefix(given, "@")
		if !isFile {
			if err := add(given, "--header"); err != nil {
				return nil, err
			}
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("--header: %w", err)
		}
		number, lines := 0, bufio.NewScanner(f)
		for lines.Scan() {
			if number++; strings.TrimSpace(lines.Text()) == "" {
				continue
			}
			if err := add(lines.Text(), fmt.Sprintf("--header @%s: line %d", path, number)); err != nil {
				_ = f.Close()
				return nil, err
			}
		}
		err = errors.Join(lines.Err(), f.Close())
		if err != nil {
			return nil, fmt.Errorf("--header @%s: %w", path, err)
		}
	}
	return head, nil
}

// heading is a transport that sends headers with each request.
type heading struct {
	head http.Header
	base http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (h *heading) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(h.head) > 0 {
		r = r.Clone(r.Context())
		for name, values := range h.head {
			r.Header[name] = values
		}
	}
	return h.base.RoundTrip(r)
}
