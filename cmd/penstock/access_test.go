package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
)

// asks asks a server, with a token if there is one.
func asks(t *testing.T, url, token string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// end asks a server to end, and waits until it has.
func (s *server) end(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.done:
	case <-time.After(40 * time.Second):
		t.Fatalf("SIGTERM did not end it:\n%s", s.said)
	}
}

// Only the user who starts up can read its token.
func TestUpCreatesTheOperatorsToken(t *testing.T) {
	dir := t.TempDir()
	s := up(t, "--data", dir)
	token := s.token(t)
	if info, err := os.Stat(filepath.Join(dir, "admin.token")); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the file of the token: %v, %v", info, err)
	}
	if strings.Contains(s.said.String(), token) {
		t.Error("the token is printed")
	}
	if status, text := asks(t, s.url+"/v1/queues", token); status != http.StatusOK {
		t.Errorf("with the token: %d %s", status, text)
	}
	if status, text := asks(t, s.url+"/v1/queues", ""); status != http.StatusUnauthorized {
		t.Errorf("without: %d %s", status, text)
	}
	if status, text := asks(t, s.url+"/readyz", ""); status != http.StatusOK || strings.Contains(text, `"auth"`) {
		t.Errorf("readiness: %d %s", status, text)
	}
	if code, out, errs := run(t, "whoami", "--server", s.url); code != 0 || !strings.Contains(out, "the operator") {
		t.Errorf("the tool does not find it: exit %d, %s%s", code, out, errs)
	}

	// Somebody with another home has no login.
	stranger := program(t.Context(), "queue", "ls", "--server", s.url)
	stranger.Env = append(stranger.Env, "XDG_CONFIG_HOME="+t.TempDir())
	if out, err := stranger.CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "penstock login --server "+s.url) ||
		!strings.Contains(string(out), "admin.token") {
		t.Errorf("somebody else: %v, %s", err, out)
	}

	// After a kill its login remains, but the tool sends no token to another process on the port.
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.done
	shown := make(chan string, 10)
	ln, err := net.Listen("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	thief := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		shown <- r.Header.Get("Authorization")
	}))
	_ = thief.Listener.Close()
	thief.Listener = ln
	thief.Start()
	code, _, errs := run(t, "queue", "ls", "--server", s.url)
	thief.Close()
	if code != 4 || !strings.Contains(errs, "is not running") || len(shown) > 0 {
		t.Errorf("after a kill: exit %d, %s; shown %d", code, errs, len(shown))
	}
	s = up(t, "--data", dir)

	// A restart keeps the token, and while it is away its login is not.
	s.end(t)
	logins, err := os.ReadFile(filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "penstock", "servers.json"))
	if err != nil || strings.Contains(string(logins), dir) {
		t.Errorf("after its end the login is kept: %s, %v", logins, err)
	}
	again := up(t, "--data", dir)
	if again.token(t) != token {
		t.Error("a restart made another token")
	}
	if status, _ := asks(t, again.url+"/v1/queues", token); status != http.StatusOK {
		t.Errorf("after a restart: %d", status)
	}

	// One whose file is gone is revoked, and another one made.
	again.end(t)
	if err := os.Remove(filepath.Join(dir, "admin.token")); err != nil {
		t.Fatal(err)
	}
	renewed := up(t, "--data", dir)
	if other := renewed.token(t); other == "" || other == token {
		t.Error("no other token was made")
	} else if status, _ := asks(t, renewed.url+"/v1/queues", other); status != http.StatusOK {
		t.Errorf("with the other token: %d", status)
	}
	await.Until(t, "the one that is gone holds no more", func() bool {
		status, _ := asks(t, renewed.url+"/v1/queues", token)
		return status == http.StatusUnauthorized
	})

	// A file that others can read is refused.
	renewed.end(t)
	if err := os.Chmod(filepath.Join(dir, "admin.token"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := run(t, "up", "--data", dir, "--listen", "127.0.0.1:0"); code == 0 ||
		!strings.Contains(errs, "chmod 600") {
		t.Errorf("with a file that others can read: exit %d, %s", code, errs)
	}
}

// At the socket, the system identifies the caller.
func TestUpServesASocket(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "ps") // t.TempDir's path may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := up(t, "--data", dir)
	socket := filepath.Join(dir, "penstock.sock")
	code, out, errs := run(t, "whoami", "--server", "unix://"+socket)
	if code != 0 || !strings.Contains(out, "unix:") || !strings.Contains(out, "the operator") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	out = paste(t, "curl -sS --unix-socket "+socket+" http://localhost/v1/queues")
	if !strings.Contains(out, `"queues"`) {
		t.Errorf("curl: %s", out)
	}
	s.end(t)
	if _, err := os.Lstat(filepath.Join(dir, "penstock.sock")); !os.IsNotExist(err) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

// An existing directory that others can write to keeps its mode, and up warns of it.
func TestUpWarnsOfWriters(t *testing.T) {
	t.Parallel()
	for mode, warned := range map[os.FileMode]bool{0o700: false, 0o755: false, 0o777: true} {
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		s := up(t, "--data", dir)
		commands(t, s, 1)
		if said := s.said.String(); strings.Contains(said, "chmod 700") != warned {
			t.Errorf("with mode %o: %s", mode, said)
		}
	}
}

// Without auth there is no token, only this machine is served, and it says so.
func TestUpWithoutAuth(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := up(t, "--no-auth", "--data", dir)
	if s.token(t) != "" {
		t.Error("it made a token")
	}
	if status, text := asks(t, s.url+"/readyz", ""); status != http.StatusOK || !strings.Contains(text, `"auth":"off"`) {
		t.Errorf("readiness: %d %s", status, text)
	}
	if status, _ := asks(t, s.url+"/v1/queues", ""); status != http.StatusOK {
		t.Errorf("it asks who that is: %d", status)
	}
	await.Until(t, "it says so", func() bool { return strings.Contains(s.said.String(), "--no-auth") })
	if strings.Contains(s.said.String(), "Authorization") {
		t.Errorf("what is to be pasted has a token:\n%s", s.said)
	}
	for _, listen := range []string{"0.0.0.0:0", "[::]:0", "example.com:0"} {
		code, _, errs := run(t, "up", "--no-auth", "--insecure", "--data", t.TempDir(), "--listen", listen)
		if code != 2 || !strings.Contains(errs, "--no-auth") {
			t.Errorf("at %s: exit %d, %s", listen, code, errs)
		}
	}
}
