package login

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
)

// Server is the URL of a server as logins name it, so that one server has one name: scheme and host in lower case,
// with its port, and without a path's last slash. A socket is unix:///PATH.
func Server(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil { // which would quote a password
		return "", fmt.Errorf("the server's URL cannot be read")
	}
	if u.Scheme == "unix" {
		return "unix://" + filepath.Clean(u.Path), nil
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if u.Host == "" || port == "" {
		return "", fmt.Errorf("the server's URL must begin with http://, https:// or unix:///")
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port) + strings.TrimRight(u.Path, "/"), nil
}

// Safe reports whether what is sent to a server is read by nobody else on the way: it has TLS, or does not leave this
// machine.
func Safe(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	if u.Scheme == "https" || u.Scheme == "unix" || u.Hostname() == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.Unmap().IsLoopback()
}
