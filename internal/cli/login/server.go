package login

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
)

// Server returns the canonical URL of a server: scheme and host in lower case, with the port, without a trailing slash.
// A socket is unix:///PATH.
func Server(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil { // err would quote a password
		return "", fmt.Errorf("invalid URL")
	}
	if u.Scheme == "unix" {
		return "unix://" + filepath.Clean(u.Path), nil
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if u.Host == "" || port == "" {
		return "", fmt.Errorf("the URL must begin with http://, https:// or unix:///")
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port) + strings.TrimRight(u.Path, "/"), nil
}

// Safe reports whether nobody else can read what is sent to a server: it uses TLS, or stays on this machine.
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
