package login

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func kept(t *testing.T) File {
	t.Helper()
	return File{filepath.Join(t.TempDir(), "penstock", "servers.json")}
}

func keep(t *testing.T, f File, logins ...Login) {
	t.Helper()
	for _, l := range logins {
		if err := f.Keep(l); err != nil {
			t.Fatal(err)
		}
	}
}

// A login is found by its server or its name, and a new one replaces it.
func TestLoginsAreKept(t *testing.T) {
	f := kept(t)
	if all, err := f.Logins(); err != nil || len(all) > 0 {
		t.Fatalf("without a file: %v, %v", all, err)
	}
	keep(t, f, Login{URL: "https://a:443", Token: "one"}, Login{URL: "https://a:443", Profile: "team", Token: "two"},
		Login{URL: "https://b:443", Token: "three"}, Login{URL: "https://a:443", Token: "four"})
	for url, want := range map[string]string{"https://a:443": "four", "https://b:443": "three", "https://c:443": ""} {
		l, found, err := f.Of(url)
		if err != nil || l.Token != want || found != (want != "") {
			t.Errorf("%s: %+v, %v, %v", url, l, found, err)
		}
	}
	if l, found, err := f.Named("team"); err != nil || !found || l.Token != "two" {
		t.Errorf("by name: %+v, %v, %v", l, found, err)
	}
	if gone, err := f.Forget(func(l Login) bool { return l.Profile == "team" }); err != nil || len(gone) != 1 {
		t.Errorf("forgot %v, %v", gone, err)
	}
	if _, found, _ := f.Named("team"); found {
		t.Error("it is found after it was forgotten")
	}
	for path, want := range map[string]os.FileMode{f.Path: 0o600, filepath.Dir(f.Path): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want mode %v", path, info.Mode(), err, want)
		}
	}
}

// The login of a socket is removed with the socket, and moves with the server's URL.
func TestLoginBySocket(t *testing.T) {
	f, path := kept(t), filepath.Join(t.TempDir(), "penstock.sock")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	keep(t, f, Login{URL: "http://127.0.0.1:1", Socket: path}, Login{URL: "http://127.0.0.1:2", Socket: path})
	all, err := f.Logins()
	if err != nil || len(all) != 1 || all[0].URL != "http://127.0.0.1:2" || all[0].Socket != path {
		t.Fatalf("one server at a new address is %v, %v", all, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	keep(t, f, Login{URL: "https://other:443", Token: "z"})
	if all, err := f.Logins(); err != nil || len(all) != 1 || all[0].Token != "z" {
		t.Errorf("after the socket is gone: %v, %v", all, err)
	}
}

// A token file is created once, readable only by its owner.
func TestFileOfAToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.token")
	if err := WriteToken(t.Context(), path, "ps_x"); err != nil {
		t.Fatal(err)
	}
	if err := WriteToken(t.Context(), path, "ps_y"); err == nil {
		t.Error("a file that is there is written over")
	}
	if token, err := ReadToken(path); err != nil || token != "ps_x" || Private(path) != nil {
		t.Errorf("%q, %v, %v", token, err, Private(path))
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := Private(path); err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) {
		t.Errorf("a file that others can read: %v", err)
	}
}

// A file that others can read, or that is invalid, is refused and not changed.
func TestInvalidLoginFiles(t *testing.T) {
	f := kept(t)
	keep(t, f, Login{URL: "https://a:443", Token: "secret"})
	if err := os.Chmod(f.Path, 0o604); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Of("https://a:443"); err == nil || !strings.Contains(err.Error(), "chmod 600 "+f.Path) {
		t.Errorf("that others can read: %v", err)
	}
	if err := f.Keep(Login{URL: "https://b:443", Token: "x"}); err == nil {
		t.Error("it is changed all the same")
	}
	if err := os.WriteFile(f.Path, []byte(`{"servers": ["secret"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(f.Path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Logins(); err == nil || strings.Contains(err.Error(), "secret") ||
		!strings.Contains(err.Error(), f.Path) {
		t.Errorf("that is not JSON of ours: %v", err)
	}
}

// Concurrent changes lose nothing.
func TestLoginsOfMany(t *testing.T) {
	f := kept(t)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if err := f.Keep(Login{URL: fmt.Sprintf("https://h%d:443", i), Token: "t"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if l, err := f.Logins(); err != nil || len(l) != 20 {
		t.Errorf("%d are left, %v", len(l), err)
	}
}

func TestServer(t *testing.T) {
	for given, want := range map[string]string{
		"http://127.0.0.1:8080":             "http://127.0.0.1:8080",
		"HTTPS://Queue.Acme.Example/":       "https://queue.acme.example:443",
		"http://user:word@host/a/":          "http://host:80/a",
		"http://[::1]:8080":                 "http://[::1]:8080",
		"unix:///var/lib//penstock/p.sock":  "unix:///var/lib/penstock/p.sock",
		"localhost:8080":                    "",
		"ftp://host":                        "",
		"http://a b":                        "",
		"https://queue.acme.example:8443/x": "https://queue.acme.example:8443/x",
	} {
		if got, err := Server(given); got != want || (err == nil) != (want != "") {
			t.Errorf("%s is %q, %v; want %q", given, got, err, want)
		}
	}
	for server, want := range map[string]bool{
		"https://example.com": true, "http://localhost:1": true, "http://127.9.9.9": true, "http://[::1]": true,
		"unix:///p": true, "http://[::ffff:127.0.0.1]": true, "http://example.com": false, "http://10.0.0.1": false,
		"http://localhost.example.com": false, "http://0.0.0.0": false, "": false,
	} {
		if Safe(server) != want {
			t.Errorf("%s: safe is %v", server, !want)
		}
	}
}

func TestRead(t *testing.T) {
	for text, want := range map[string]string{
		"ps_a\n": "ps_a", " ps_a ": "ps_a", "": "", "a b": "", "a\nb": "", "ps_\u00e9": "", "a\x00": "",
		strings.Repeat("a", MaxToken+1): "",
	} {
		got, err := Read(strings.NewReader(text))
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%.20q is %q, %v", text, got, err)
		}
		if err != nil && len(text) > 3 && strings.Contains(err.Error(), text) {
			t.Errorf("the error quotes it: %v", err)
		}
	}
}
