package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
)

// pemFile writes blocks into a file.
func pemFile(t *testing.T, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// identity is a certificate for clients, signed by itself, and its key.
func identity(t *testing.T) (cert *x509.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err1 := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "operator"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "operator"}}, &key.PublicKey, key)
	private, err2 := x509.MarshalPKCS8PrivateKey(key)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return cert, pemFile(t, "CERTIFICATE", der), pemFile(t, "PRIVATE KEY", private)
}

// A server behind TLS that requires a client certificate and a header can be reached.
func TestConnection(t *testing.T) {
	client, certFile, keyFile := identity(t)
	var mu sync.Mutex
	var asked []*http.Request
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r)
		mu.Unlock()
		if r.Header.Get("X-Moved") != "" {
			http.Redirect(w, r, "https://localhost:1/elsewhere", http.StatusFound)
			return
		}
		_, _ = w.Write([]byte(`{"queues": []}`))
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
	server.TLS.ClientCAs.AddCert(client)
	server.Config.ErrorLog = quiet
	server.StartTLS()
	defer server.Close()
	ca := pemFile(t, "CERTIFICATE", server.Certificate().Raw)
	t.Setenv("PENSTOCK_URL", server.URL)

	expect(t, ExitUnreachable, "", "certificate", "queue", "ls")
	expect(t, ExitUnreachable, "", "certificate", "queue", "ls", "--ca", ca)
	secrets := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(secrets, []byte("X-Team: a, b\n\nX-Tenant:  7 \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"queue", "ls", "--ca", ca, "--cert", certFile, "--key", keyFile}
	expect(t, ExitDone, "no queues", "", append(
		args, "--header", "Authorization: Bearer a,b:c", "--header", "@"+secrets,
	)...)
	got := asked[len(asked)-1]
	if got.TLS.PeerCertificates[0].Subject.CommonName != "operator" || got.Header.Get("Authorization") != "Bearer a,b:c" ||
		got.Header.Get("X-Team") != "a, b" || got.Header.Get("X-Tenant") != "7" {
		t.Errorf("it was asked with %v", got.Header)
	}
	before := len(asked)
	expect(t, ExitRefused, "", "302", append(args, "--header", "X-Moved: 1")...)
	if len(asked) != before+1 {
		t.Error("it went where it was sent, with the headers")
	}

	t.Setenv("PENSTOCK_CA", ca)
	t.Setenv("PENSTOCK_CERT", certFile)
	t.Setenv("PENSTOCK_KEY", keyFile)
	t.Setenv("PENSTOCK_HEADER", "Authorization: Bearer d,e")
	for _, args := range [][]string{
		{"queue", "ls"}, {"rule", "ls"}, {"dead", "ls"}, {"top", "--once", "--interval", "50ms"}, {"__complete"},
	} {
		if args[0] == "__complete" {
			args = []string{"complete", "fish", "--", "queue", "info", ""}
		}
		before := len(asked)
		expect(t, ExitDone, "", "", args...)
		if len(asked) == before || asked[len(asked)-1].Header.Get("Authorization") != "Bearer d,e" {
			t.Errorf("%v does not take them from the environment", args)
		}
	}
}

func TestInvalidConnections(t *testing.T) {
	t.Setenv("PENSTOCK_URL", "https://127.0.0.1:1")
	_, cert, key := identity(t)
	secret := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(secret, []byte("X-A: 1\nnothing: \x01secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		says string
		args []string
	}{
		{"must be used together", []string{"--cert", cert}},
		{"--ca: ", []string{"--ca", "/does/not/exist"}},
		{"no PEM certificate", []string{"--ca", key}},
		{"--cert ", []string{"--cert", key, "--key", cert}},
		{"https://", []string{"--ca", cert, "--server", "http://127.0.0.1:1"}},
		{"NAME: VALUE", []string{"--header", "secret"}},
		{"NAME: VALUE", []string{"--header", "X A: secret"}},
		{"NAME: VALUE", []string{"--header", "X-A: secret\r\nX-B: 2"}},
		{"penstock sets", []string{"--header", "host: secret"}},
		{"line 2: must be NAME: VALUE", []string{"--header", "@" + secret}},
		{"--header: open", []string{"--header", "@/does/not/exist"}},
	} {
		r := expect(t, ExitUsage, "", c.says, append([]string{"queue", "ls"}, c.args...)...)
		if strings.Contains(r.err, "secret") && !strings.Contains(r.err, "@") {
			t.Errorf("a value is quoted: %s", r.err)
		}
	}
}

// What says yes in place of a person is read from no environment.
func TestEnvironmentDoesNotConfirm(t *testing.T) {
	store := kept(t, 1, 0)
	if _, err := store.Append(t.Context(), []queue.Job{{Queue: "email", ID: "w", Payload: []byte("1")}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"YES", "FORCE", "PRUNE", "ALL"} {
		t.Setenv("PENSTOCK_"+name, "true")
	}
	expect(t, ExitRefused, "", "nothing was changed", "dead", "rm", "email") // it asks, and standard input says nothing
	expect(t, ExitRefused, "", "", "queue", "rm", "email")
	expect(t, ExitDone, "421 busy", "", "dead", "ls", "email")
	expect(t, ExitUsage, "", "--yes", "rule", "reset", "otp", "--all")
	for _, args := range [][]string{{"dead", "rm", "--help"}, {"queue", "rm", "--help"}, {"queue", "apply", "--help"}} {
		if r := penstock(t, "", args...); strings.Contains(r.out, "$PENSTOCK_YES") ||
			strings.Contains(r.out, "$PENSTOCK_FORCE") || strings.Contains(r.out, "$PENSTOCK_PRUNE") {
			t.Errorf("%v: %s", args, r.out)
		}
	}
}

func TestVersionAndHelp(t *testing.T) {
	expect(t, ExitDone, "penstock ", "", "version")
	expect(t, ExitDone, `"version": `, "", "version", "-o", "json")
	expect(t, ExitDone, "sms-simulator", "", "help")
	for _, command := range []string{"queue", "queue set", "push", "sink", "version"} {
		words := strings.Fields(command)
		r := expect(t, ExitDone, "Usage: penstock "+command, "", append([]string{"help"}, words...)...)
		if same := penstock(t, "", append(words, "--help")...); same.out != r.out {
			t.Errorf("help %s and %s --help differ", command, command)
		}
	}
	expect(t, ExitUsage, "", "nonsense", "help", "nonsense")
	for _, words := range []string{ // wherever flags stand
		"-s http://127.0.0.1:1 help queue set", "--server=http://127.0.0.1:1 help queue set",
		"help -s http://127.0.0.1:1 queue set", "help queue set rate=5/s", "help queue set --help", "-- help queue set",
	} {
		expect(t, ExitDone, "Usage: penstock queue set", "", strings.Fields(words)...)
	}
	expect(t, ExitDone, "sms-simulator", "", "-s", "http://127.0.0.1:1", "help")
	expect(t, ExitUsage, "", "nonsense", "-s", "http://127.0.0.1:1", "help", "nonsense")
	expect(t, ExitUsage, "", "--nonsense", "help", "queue", "--nonsense")
}

var quiet = log.New(io.Discard, "", 0)
