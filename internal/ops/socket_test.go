package ops_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/ops"
)

type overKey struct{}

// telling returns options with which handlers know the kind of their connection.
var telling = ops.ServerOptions{ConnContext: func(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, overKey{}, fmt.Sprintf("%T", c))
}}

var tells = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_, _ = fmt.Fprint(w, r.Context().Value(overKey{}))
})

// over sends a request over a socket.
func over(t *testing.T, socket string) string {
	t.Helper()
	hc := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	resp, err := hc.Get("http://localhost/")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The socket serves the same handler, which knows the kind of its connection.
func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l := ops.Listen{Addr: "127.0.0.1:0", Socket: path}
	s, stop := runningAt(t, l, tells, telling)
	if got := over(t, path); got != "*net.UnixConn" {
		t.Errorf("over the socket: %q", got)
	}
	if got := get(t, s.URL()); got != "*net.TCPConn" {
		t.Errorf("over the network: %q", got)
	}
	if _, err := ops.NewServer(l, ops.ServerOptions{}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second server on the socket: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

// An old socket is replaced; other files are not.
func TestSocketLeftBehind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	runningAt(t, ops.Listen{Addr: "127.0.0.1:0", Socket: path}, tells, telling)
	if got := over(t, path); got != "*net.UnixConn" {
		t.Errorf("%q", got)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file:                               "not a socket",
		"/tmp/" + strings.Repeat("x", 110): "the limit is 103",
		"/nowhere/s":                       "no such file",
	} {
		s, err := ops.NewServer(ops.Listen{Addr: "127.0.0.1:0", Socket: path}, ops.ServerOptions{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not say %q", path, err, want)
		}
		if s != nil {
			_ = s.Close()
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "kept" {
		t.Errorf("the file that lay there: %q, %v", text, err)
	}
}
