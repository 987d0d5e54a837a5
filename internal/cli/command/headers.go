package command

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"os"
	"regexp"
	"strings"
)

// ownHeaders are the headers that penstock sets itself.
var ownHeaders = map[string]bool{
	"Host": true, "Content-Type": true, "Content-Length": true, "Transfer-Encoding": true, "Connection": true,
	"If-Match": true, "If-None-Match": true, "Penstock-By": true,
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$") // RFC 9110, 5.6.2

// Headers returns the headers that --header gives. Values may be secrets, so no error quotes them.
func (c *Connection) Headers() (http.Header, error) {
	head := http.Header{}
	add := func(line, where string) error {
		name, value, ok := strings.Cut(line, ":")
		name, value = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
		switch {
		case !ok || !headerName.MatchString(name) || strings.IndexFunc(value, func(r rune) bool {
			return r < ' ' && r != '\t' || r > '~'
		}) >= 0:
			return fmt.Errorf("%s: must be NAME: VALUE, such as 'Authorization: Bearer ...'", where)
		case ownHeaders[name]:
			return fmt.Errorf("%s: penstock sets %s itself", where, name)
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

// headerTransport adds headers to each request.
type headerTransport struct {
	head http.Header
	base http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (h *headerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(h.head) > 0 {
		r = r.Clone(r.Context())
		for name, values := range h.head {
			r.Header[name] = values
		}
	}
	return h.base.RoundTrip(r)
}
