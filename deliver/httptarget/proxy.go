package httptarget

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
)

// Environment is the proxy in the drainer's environment: HTTP_PROXY, HTTPS_PROXY and NO_PROXY.
const Environment = "environment"

var fromEnvironment = http.ProxyFromEnvironment // tests replace it, because it reads the environment only once

// maxAddresses is the maximum number of addresses of a receiver to try through a proxy.
const maxAddresses = 4

// proxy connects to receivers on behalf of the drainer. It is always asked to CONNECT to an address, also for http.
// With a name it would resolve the name itself, possibly inside the network and past the guard.
type proxy struct {
	environment    bool
	secure         bool   // the connection to the proxy uses TLS
	host, address  string // address includes the port
	user, password string // the password may have references to secrets
}

// parseProxy parses a setting; an empty setting yields nil. Its error is an *invalid.Error.
func parseProxy(at, text string) (*proxy, error) {
	const want = "must be the URL of a proxy such as http://proxy.example.com:3128, or " + Environment
	switch text {
	case "":
		return nil, nil
	case Environment:
		return &proxy{environment: true}, nil
	}
	p := new(proxy)
	shown := secrets.MaskURL(text)
	where, login := text, ""
	if i, behind := strings.Index(text, "://"), strings.LastIndexByte(text, '@'); i >= 0 && behind > i {
		where, login = text[:i+len("://")]+text[behind+1:], text[i+len("://"):behind]
	}
	if strings.ContainsAny(login, "/?#") { // masking would not recognize it as a login
		return nil, setting.Error(
			at, "", "has a user or password that is not percent-encoded correctly: / is %2F, ? is %3F, # is %23",
		)
	}
	user, password, _ := strings.Cut(login, ":")
	if strings.Contains(user, "${") {
		return nil, setting.Error(
			at, "", "refers to a secret in its user; only the password can, because people must see the user",
		)
	}
	var err error
	if p.user, err = url.PathUnescape(user); err == nil {
		p.password, err = url.PathUnescape(password)
	}
	if err != nil {
		return nil, setting.Error(at, "", "has a user or password that is not percent-encoded correctly")
	}
	u, err := url.Parse(where)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" ||
		strings.Trim(u.Path, "/") != "" ||
		strings.IndexFunc(where, func(r rune) bool { return r <= ' ' || r > '~' || r == '#' }) >= 0 {
		return nil, setting.Error(at, shown, want)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return nil, setting.Error(at, shown, "has no valid port; ports are 1 to 65535")
	}
	p.secure, p.host, p.address = u.Scheme == "https", u.Hostname(), net.JoinHostPort(u.Hostname(), port)
	return p, checkHost(at, p.host)
}

// fingerprint returns a text that differs for different proxies.
func (p *proxy) fingerprint() string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%q", []string{strconv.FormatBool(p.environment), p.where(), p.user, p.password})
}

// where returns the URL of the proxy without its login.
func (p *proxy) where() string {
	switch {
	case p == nil:
		return ""
	case p.environment:
		return Environment
	case p.secure:
		return "https://" + p.address
	}
	return "http://" + p.address
}

// of returns the proxy for a receiver, nil for a direct connection.
func (p *proxy) of(scheme, address string) (*proxy, error) {
	if p == nil || !p.environment {
		return p, nil
	}
	u, err := fromEnvironment(&http.Request{URL: &url.URL{Scheme: scheme, Host: address}})
	if err != nil {
		// err is not wrapped, because it quotes the variable.
		return nil, &secrets.Error{Err: fmt.Errorf("the proxy for %s in the environment is not a URL", scheme)}
	}
	if u == nil {
		return nil, nil
	}
	named, err := parseProxy("deliver.http.proxy", u.String())
	if err != nil {
		return nil, &secrets.Error{Err: fmt.Errorf("the proxy for %s in the environment: %w", scheme, err)}
	}
	return named, nil
}

// through connects to a receiver through a proxy.
func (d *tlsDialer) through(ctx context.Context, p *proxy, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	to, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	addresses, err := d.guard.Addresses(ctx, nil, host, uint16(to))
	if err != nil {
		return nil, err
	}
	for i, addr := range addresses {
		var c net.Conn
		var again bool
		if c, again, err = d.ask(ctx, p, network, addr, port); err == nil || !again || i+1 == maxAddresses {
			return c, err
		}
	}
	return nil, err
}

// ask has a proxy connect to an address. again reports whether another address is worth a try.
func (d *tlsDialer) ask(
	ctx context.Context, p *proxy, network string, addr netip.Addr, port string,
) (c net.Conn, again bool, err error) {
	if c, err = d.connect(ctx, network, p.address); err == nil && p.secure {
		c, err = d.shake(ctx, c, d.base, p.address)
	}
	if err != nil {
		return nil, false, fmt.Errorf("the proxy: %w", err)
	}
	to := net.JoinHostPort(addr.String(), port)
	if again, err = p.tunnel(ctx, c, to); err != nil {
		_ = c.Close()
		return nil, again, fmt.Errorf("the proxy, asked for %s, %w", to, err)
	}
	return c, false, nil
}

// tunnel turns a connection to a proxy into a connection to an address.
func (p *proxy) tunnel(ctx context.Context, c net.Conn, to string) (again bool, err error) {
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })
	ask := "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\nUser-Agent: " + userAgent + "\r\n"
	if p.user != "" || p.password != "" {
		ask += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(p.user+":"+p.password)) + "\r\n"
	}
	_, err = io.WriteString(c, ask+"\r\n")
	var answer *http.Response
	r := bufio.NewReader(io.LimitReader(c, maxHeaderBytes))
	if err == nil {
		//nolint:bodyclose // the rest is the tunnel, or is closed with the connection
		answer, err = http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	}
	switch {
	case !stop():
		return false, fmt.Errorf("did not answer: %w", context.Cause(ctx))
	case err != nil:
		return false, errors.New("gave no answer in HTTP") // err is not wrapped, because it may quote the answer
	case answer.StatusCode/100 != 2:
		return answer.StatusCode >= 500, fmt.Errorf("answered %d", answer.StatusCode)
	case r.Buffered() > 0:
		return false, errors.New("sent data before the tunnel was used")
	}
	return false, nil
}
