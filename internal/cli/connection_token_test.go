package cli

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/login"
)

// asked starts a server that records the Authorization of the last request.
func asked(t *testing.T) (url string, last func() string) {
	t.Helper()
	shown := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown <- r.Header.Get("Authorization")
		_, _ = w.Write([]byte(`{"queues": []}`))
	}))
	t.Cleanup(server.Close)
	return server.URL, func() string {
		select {
		case s := <-shown:
			return s
		default:
			return "nobody asked"
		}
	}
}

// keptLogins is the file of logins of a home that is the test's own.
func keptLogins(t *testing.T) login.File {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	file, err := login.Default()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// Flags go before the environment, and the environment before saved logins.
func TestOrderOfTokens(t *testing.T) {
	url, last := asked(t)
	other, _ := asked(t)
	file := keptLogins(t)
	for _, l := range []login.Login{
		{URL: url, Token: "kept"}, {URL: url, Profile: "team", Token: "named"}, {URL: other, Token: "others"},
	} {
		if err := file.Keep(l); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "token")
	if err := login.WriteToken(t.Context(), path, "filed"); err != nil {
		t.Fatal(err)
	}
	inEnvironment := filepath.Join(t.TempDir(), "token")
	if err := login.WriteToken(t.Context(), inEnvironment, "environment"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env  string
		args []string
		want string
	}{
		{"", []string{"--server", url}, "Bearer kept"},
		{"said", []string{"--server", url}, "Bearer said"},
		{"said", []string{"--profile", "team"}, "Bearer named"},
		{"said", []string{"--profile", "team", "--server", url + "/"}, "Bearer named"},
		{"said", []string{"--profile", "team", "--token-file", path}, "Bearer filed"},
		{"said", []string{"--server", url, "--token-file", path, "--header", "Authorization: Basic eA=="}, "Basic eA=="},
		{"", []string{"--server", strings.Replace(url, "127.0.0.1", "localhost", 1)}, ""}, // it may be another's
	} {
		t.Setenv(command.EnvToken, c.env)
		expect(t, ExitDone, "no queues", "", append([]string{"queue", "ls"}, c.args...)...)
		if got := last(); got != c.want {
			t.Errorf("%v with %q: it was shown %q, want %q", c.args, c.env, got, c.want)
		}
	}
	t.Setenv(command.EnvTokenFile, inEnvironment) // after PENSTOCK_TOKEN, as in the clients
	for _, c := range []struct {
		env  string
		args []string
		want string
	}{
		{"", []string{"--server", url}, "Bearer environment"},
		{"said", []string{"--server", url}, "Bearer said"},
		{"", []string{"--profile", "team"}, "Bearer named"},
		{"", []string{"--server", url, "--token-file", path}, "Bearer filed"},
		{"said", []string{"--server", url, "--token-file", inEnvironment}, "Bearer environment"},
	} {
		t.Setenv(command.EnvToken, c.env)
		expect(t, ExitDone, "no queues", "", append([]string{"queue", "ls"}, c.args...)...)
		if got := last(); got != c.want {
			t.Errorf("%v with %q and a file: it was shown %q, want %q", c.args, c.env, got, c.want)
		}
	}
	t.Setenv(command.EnvToken, "")
	t.Setenv(command.EnvTokenFile, "/does/not/exist")
	expect(t, ExitUsage, "", "PENSTOCK_TOKEN_FILE: token file", "queue", "ls", "--server", url)
	t.Setenv(command.EnvTokenFile, "")
	t.Setenv(command.EnvURL, other) // said for all of the shell: a profile is of its own server
	expect(t, ExitDone, "no queues", "", "queue", "ls", "--profile", "team")
	if got := last(); got != "Bearer named" {
		t.Errorf("it was shown %q", got)
	}
	t.Setenv(command.EnvURL, "")
	expect(t, ExitUsage, "", "names another", "queue", "ls", "--profile", "team", "--server", other)
	expect(t, ExitUsage, "", "penstock login --profile nobody", "queue", "ls", "--profile", "nobody")
	if got := completed(t, "zsh", "queue", "ls", "--profile", "t"); got != "team" {
		t.Errorf("profiles are completed as %q", got)
	}
}

// A token does not leave this machine without TLS, and errors do not quote it.
func TestTokensNotSent(t *testing.T) {
	file := keptLogins(t)
	url, last := asked(t)
	t.Setenv(command.EnvToken, "secret")
	expect(t, ExitUsage, "", "--insecure-token", "queue", "ls", "--server", "http://192.0.2.1:8080")
	for _, bad := range []string{"secret secret", "secret\nsecret"} {
		t.Setenv(command.EnvToken, bad)
		r := expect(t, ExitUsage, "", command.EnvToken, "queue", "ls", "--server", url)
		if strings.Contains(r.err, "secret") {
			t.Errorf("it is quoted: %s", r.err)
		}
	}
	t.Setenv(command.EnvToken, "")
	expect(t, ExitUsage, "", "--token-file", "queue", "ls", "--server", url, "--token-file", "/does/not/exist")
	if err := file.Keep(login.Login{URL: url, Token: "secret"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file.Path, 0o644); err != nil {
		t.Fatal(err)
	}
	if r := expect(t, ExitUsage, "", "chmod 600", "queue", "ls", "--server", url); strings.Contains(r.err, "secret") {
		t.Errorf("it is quoted: %s", r.err)
	}
	if got := last(); got != "nobody asked" {
		t.Errorf("a server was shown %q", got)
	}
}

// A token is not sent on to another server by a redirect.
func TestTokensStayWithTheirServer(t *testing.T) {
	url, last := asked(t)
	sends := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, url+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer sends.Close()
	t.Setenv(command.EnvToken, "secret")
	expect(t, ExitRefused, "", "307", "queue", "ls", "--server", sends.URL)
	if got := last(); got != "nobody asked" {
		t.Errorf("it went along, with %q", got)
	}
}

// An unauthenticated caller gets advice.
func TestAdviceWithoutAuthentication(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"reason": "unauthenticated", "title": "the request proves nobody"}`))
	}))
	defer server.Close()
	expect(t, ExitRefused, "", "penstock login --server "+server.URL, "queue", "ls", "--server", server.URL)
}

// What listens at the URL of a penstock up that was killed is shown no token, and is not asked at all.
func TestKeptSocket(t *testing.T) {
	url, last := asked(t)
	file := keptLogins(t)
	socket := filepath.Join(t.TempDir(), "penstock.sock")
	for _, l := range []login.Login{{URL: url, Profile: "team", Token: "named"}, {URL: url, Socket: socket}} {
		if err := file.Keep(l); err != nil {
			t.Fatal(err)
		}
	}
	stale := func() { // what kill -9 leaves behind
		t.Helper()
		ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		ln.SetUnlinkOnClose(false)
		if err := ln.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, leave := range []func(){func() {}, stale} {
		leave()
		if r := expect(t, ExitUnreachable, "", "is not running", "queue", "ls", "--server", url+"/"); !strings.Contains(
			r.err, "--data "+filepath.Dir(socket)) || !strings.Contains(r.err, "penstock login --server "+url) {
			t.Errorf("it does not say what to do: %s", r.err)
		}
		if got := last(); got != "nobody asked" {
			t.Errorf("whoever has the port was asked with %q", got)
		}
	}
	for _, args := range [][]string{{"--header", "Authorization: Bearer named"}, {"--profile", "team"}} {
		expect(t, ExitDone, "no queues", "", append([]string{"queue", "ls", "--server", url}, args...)...)
		if got := last(); got != "Bearer named" {
			t.Errorf("%v: it was shown %q", args, got)
		}
	}
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	served(t, socket)
	expect(t, ExitDone, "no queues", "", "queue", "ls", "--server", url)
	if got := last(); got != "nobody asked" {
		t.Errorf("not the socket was asked, with %q", got)
	}
}

// served is a server at a socket.
func served(t *testing.T, path string) {
	t.Helper()
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"queues": []}`))
	}))
	_ = server.Listener.Close()
	server.Listener = ln
	server.Start()
	t.Cleanup(server.Close)
}

// A server can be asked over its socket.
func TestServerAtASocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	served(t, path)
	expect(t, ExitDone, "no queues", "", "queue", "ls", "--server", "unix://"+path)
	expect(t, ExitUnreachable, "", "unix:///does/not/exist", "queue", "ls", "--server", "unix:///does/not/exist")
	expect(t, ExitUsage, "", "must be a URL", "queue", "ls", "--server", "unix://host/path")
}
