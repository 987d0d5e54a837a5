package cli

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/login"
	"github.com/penstock/penstock/internal/cli/operator"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/internal/test/transcript"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/redisq"
)

// guarded starts a server with authentication, saves a login of the operator, and returns its URL and token.
func guarded(t *testing.T) (url, token string) {
	t.Helper()
	engine, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := auth.New(engine, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api.New(engine, api.Options{Auth: a}))
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- a.Run(ctx) }()
	t.Cleanup(func() {
		server.Close()
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	if token, _, err = operator.CreateAdmin(t.Context(), a, operator.ByInit, ""); err != nil {
		t.Fatal(err)
	}
	keptLogins(t)
	t.Setenv(command.EnvURL, server.URL)
	if r := penstock(t, token+"\n", "login"); r.code != ExitDone || !strings.Contains(r.out, "the operator") {
		t.Fatalf("login: exit %d, %s%s", r.code, r.out, r.err)
	}
	return server.URL, token
}

// created makes a token and returns it, with its id.
func created(t *testing.T, args ...string) (token, id string) {
	t.Helper()
	r := expect(t, ExitDone, "ps_", "it will not be shown again", append([]string{"token", "create"}, args...)...)
	token = strings.TrimSpace(r.out)
	id, err := auth.ParseToken(token)
	if err != nil {
		t.Fatalf("%q: %v", r.out, err)
	}
	return token, id
}

// A login is kept when the server knows the token, and only then.
func TestLogin(t *testing.T) {
	url, token := guarded(t)
	expect(t, ExitDone, "the operator", "", "whoami")
	expect(t, ExitDone, `"role": "admin"`, "", "whoami", "-o", "json")
	path := filepath.Join(t.TempDir(), "token")
	if err := login.WriteToken(t.Context(), path, token); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitDone, "logged in", "", "login", "--token-file", path, "--profile", "prod")
	t.Setenv(command.EnvURL, "http://127.0.0.1:1")
	expect(t, ExitDone, url, "", "whoami", "--profile", "prod")
	expect(t, ExitDone, "logged out of "+url, "", "logout", "--profile", "prod")
	expect(t, ExitUsage, "", "no such login", "whoami", "--profile", "prod")
	expect(t, ExitRefused, "", "no login is saved", "logout", "--profile", "prod")
	t.Setenv(command.EnvURL, url)

	for what, c := range map[string]struct {
		token string
		code  Exit
	}{
		"mistyped": {token[:len(token)-1] + "#", ExitRefused}, "unknown": {otherToken(), ExitRefused},
		"two words": {token + " x", ExitUsage}, "none": {"", ExitUsage},
	} {
		r := penstock(t, c.token, "login")
		if r.code != c.code || c.token != "" && strings.Contains(r.err, c.token) {
			t.Errorf("%s: exit %d, %s", what, r.code, r.err)
		}
	}
	expect(t, ExitDone, "the operator", "", "whoami") // the one before is kept
	expect(t, ExitDone, "logged out", "", "logout")
	expect(t, ExitRefused, "", "penstock login --server "+url, "whoami")
	expect(t, ExitUsage, "", "--insecure-token", "login", "--server", "http://192.0.2.1", "--token-file", path)
}

func otherToken() string {
	secret, _ := auth.NewToken()
	return secret
}

// Tokens of an app have the granted permissions until they are revoked.
func TestAppsAndTokens(t *testing.T) {
	guarded(t)
	expect(t, ExitDone, "no apps", "", "app", "ls")
	expect(t, ExitDone, "queues=20 rate=100/s", "", "app", "put", "acme", "--prefix", "acme-*", "--limit", "queues=20",
		"--limit", "rate=100/s", "--host", "*.acme.example")
	expect(t, ExitDone, "of the web shop", "", "app", "put", "acme", "--limit", "rate=", "--note", "of the web shop")
	r := expect(t, ExitDone, "*.acme.example", "", "app", "info", "acme")
	if strings.Contains(r.out, "rate") || !strings.Contains(r.out, "queues=20") {
		t.Errorf("what was not given did not stay:\n%s", r.out)
	}
	expect(t, ExitDone, "acme-*", "", "app", "ls")
	expect(t, ExitUsage, "", "NAME=VALUE", "app", "put", "acme", "--limit", "queues")
	expect(t, ExitRefused, "", "prefixes", "app", "put", "bare")

	token, id := created(t, "--app", "acme", "--grant", "view", "--grant", "configure:acme-mail", "--note", "shop")
	expect(t, ExitUsage, "", "--grant all", "token", "create", "--app", "acme", "--grant", "all")
	expect(t, ExitDone, "configure:acme-mail", "", "token", "ls", "--app", "acme")
	expect(t, ExitDone, "never", "", "token", "info", id)
	if r := expect(t, ExitUsage, "", "this is not an id", "token", "info", token); strings.Contains(r.err, token) {
		t.Errorf("the token is quoted: %s", r.err)
	}
	t.Setenv(command.EnvToken, token)
	expect(t, ExitDone, "app acme", "", "whoami")
	expect(t, ExitDone, "acme-mail", "", "queue", "set", "acme-mail", "rate=5/s")
	expect(t, ExitRefused, "", "configure", "queue", "set", "acme-other", "rate=5/s")
	expect(t, ExitRefused, "", "unknown_queue", "queue", "info", "other")
	expect(t, ExitRefused, "", "", "token", "create", "--grant", "admin")
	t.Setenv(command.EnvToken, "")

	saved := filepath.Join(t.TempDir(), "saved")
	expect(t, ExitDone, saved, "", "token", "rotate", id, "--keep", "1h", "--save", saved)
	if _, err := login.ReadToken(saved); err != nil || login.Private(saved) != nil {
		t.Errorf("the token that replaces it: %v, %v", err, login.Private(saved))
	}
	expect(t, ExitUsage, "", "file already exists", "token", "create", "--app", "acme", "--grant", "view", "--save", saved)
	r = expect(t, ExitDone, "", "", "token", "create", "--app", "acme", "--grant", "view", "--save", os.DevNull)
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode()&os.ModeCharDevice == 0 ||
		strings.Contains(r.out, "ps_") {
		t.Fatalf("saved to a device: %v, %v, %s", info, err, r.out)
	}
	expect(t, ExitDone, "replaced by", "", "token", "info", id)
	expect(t, ExitUsage, "", "--keep", "token", "rotate", id, "--keep=-1h")
	if got := completed(t, "zsh", "app", "info", "a"); got != "acme" {
		t.Errorf("apps are completed as %q", got)
	}
	if got := completed(t, "zsh", "token", "create", "--grant", "pr"); got != "produce" {
		t.Errorf("roles are completed as %q", got)
	}
	expect(t, ExitDone, "revoked", "", "token", "revoke", id)
	t.Setenv(command.EnvToken, token)
	expect(t, ExitRefused, "", "401", "whoami")
	t.Setenv(command.EnvToken, "")

	if r := penstock(t, "no\n", "app", "rm", "acme"); r.code != ExitRefused {
		t.Errorf("removed without a yes: %s%s", r.out, r.err)
	}
	expect(t, ExitDone, "acme deleted", "", "app", "rm", "acme", "--yes")
	t.Setenv("PENSTOCK_TOKEN_FILE", saved)
	expect(t, ExitRefused, "", "401", "whoami")
}

// Who comes without a token has grants, too.
func TestSubjects(t *testing.T) {
	guarded(t)
	expect(t, ExitDone, "", "", "app", "put", "acme", "--prefix", "acme-*")
	expect(t, ExitDone, "may produce", "", "subject", "put", "cert:billing.acme.example", "--app", "acme",
		"--grant", "produce")
	expect(t, ExitDone, "may view", "", "subject", "put", "cert:billing.acme.example", "--app", "acme", "--grant", "view")
	expect(t, ExitDone, "cert:billing.acme.example", "", "subject", "ls", "--app", "acme")
	expect(t, ExitDone, "cert:billing.acme.example", "", "subject", "ls", "-o", "json")
	expect(t, ExitDone, "never", "", "subject", "ls")
	expect(t, ExitDone, "", "", "subject", "put", "unix:77", "--grant", "view", "--expires-in", "720h")
	day := time.Now().Add(720 * time.Hour).Format(time.DateOnly)
	expect(t, ExitDone, day, "", "subject", "ls")
	expect(t, ExitDone, "deleted", "", "subject", "rm", "unix:77")
	expect(t, ExitRefused, "", "expires", "subject", "put", "unix:77", "--grant", "view", "--expires-in=-1h")
	expect(t, ExitRefused, "", "cert:NAME", "subject", "put", "billing", "--grant", "view")
	expect(t, ExitDone, "deleted", "", "subject", "rm", "cert:billing.acme.example")
	expect(t, ExitRefused, "", "", "subject", "rm", "cert:billing.acme.example")
	expect(t, ExitDone, "[]", "", "subject", "ls", "-o", "json")
}

// The audit log has actors and actions, and verifies on the server and as an export.
func TestAudit(t *testing.T) {
	guarded(t)
	expect(t, ExitDone, "", "", "queue", "set", "email", "rate=5/s", "deliver.http.url=https://api.example.com/?a=<b>&c=d")
	expect(t, ExitDone, "", "", "app", "put", "acme", "--prefix", "acme-*")
	dir := t.TempDir()
	head := filepath.Join(dir, "head.json")
	r := expect(t, ExitDone, `"digest"`, "", "audit", "verify", "-o", "json")
	if err := os.WriteFile(head, []byte(r.out), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitDone, "changed", "", "queue", "set", "email", "rate=6/s")
	r = expect(t, ExitDone, "created", "", "audit", "ls", "--of", "queue", "--name", "email")
	if strings.Contains(r.out, "acme") || !strings.Contains(r.out, "token:") {
		t.Errorf("%s", r.out)
	}
	expect(t, ExitDone, "intact: ", "", "audit", "verify")
	expect(t, ExitDone, "intact: ", "", "audit", "verify", "--since-head", head)

	exported := expect(t, ExitDone, `"digest"`, "", "audit", "export").out
	whole := filepath.Join(dir, "audit.ndjson")
	if err := os.WriteFile(whole, []byte(exported), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitDone, "intact: ", "", "audit", "verify", "-f", whole)
	expect(t, ExitDone, "intact: ", "", "audit", "verify", "-f", whole, "--since-head", head)
	lines := strings.SplitAfter(exported, "\n")
	for what, text := range map[string]string{
		"changed": strings.Replace(exported, "5/s", "9/s", 1),
		"removed": strings.Join(append(append([]string{}, lines[:1]...), lines[2:]...), ""),
	} {
		if r := penstock(t, text, "audit", "verify", "-f", "-"); r.code != ExitFailed ||
			!strings.Contains(r.err, "is not intact") {
			t.Errorf("%s: exit %d, %s%s", what, r.code, r.out, r.err)
		}
	}
	if r := penstock(t, lines[0], "audit", "verify", "-f", "-", "--since-head", head); r.code != ExitFailed {
		t.Errorf("cut off: exit %d, %s%s", r.code, r.out, r.err)
	}
	expect(t, ExitUsage, "", "--since-head", "audit", "verify", "--since-head", whole)

	token, _ := created(t, "--app", "acme", "--grant", "admin")
	t.Setenv(command.EnvToken, token)
	expect(t, ExitRefused, "", "only the operator", "audit", "verify")
	expect(t, ExitRefused, "", "", "queue", "set", "email", "rate=7/s")
	t.Setenv(command.EnvToken, "")
	await.Until(t, "the refusal is recorded", func() bool {
		return strings.Contains(penstock(t, "", "audit", "ls", "--refused").out, "refused putQueue")
	})
}

// What is done is shown as it is done, each entry once.
func TestAuditTail(t *testing.T) {
	guarded(t)
	ctx, stop := context.WithCancel(t.Context())
	out := &transcript.Buffer{}
	over := make(chan Exit, 1)
	go func() {
		over <- Run(ctx, []string{"audit", "tail", "-o", "json", "--every", "10ms"}, Streams{
			In: strings.NewReader(""), Out: out, Err: out,
		})
	}()
	for _, name := range []string{"one", "two"} {
		expect(t, ExitDone, "", "", "queue", "set", name, "rate=5/s")
		await.Until(t, name+" is shown", func() bool { return strings.Contains(out.String(), `"name":"`+name+`"`) })
	}
	stop()
	if code := <-over; code != ExitInterrupted {
		t.Errorf("exit %d, %s", code, out)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		var e struct {
			Partition int
			Entry     struct{ Number int64 }
		}
		if json.Unmarshal([]byte(line), &e) != nil {
			continue // the message about the interruption
		}
		at, err := json.Marshal(e)
		if err != nil || seen[string(at)] {
			t.Errorf("twice, or %v: %s", err, line)
		}
		seen[string(at)] = true
	}
}

// Whoever has the store makes the first token, once.
func TestTokenInit(t *testing.T) {
	redis := redistest.New(t, redistest.Options{})
	expect(t, ExitFailed, "", "", "token", "init", "--redis", redis.URL()) // there is no store yet
	engine, err := redisq.OpenClient(t.Context(), redis.Client(), redisq.Options{Init: true, Patience: redistest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = engine.Close() }()
	r := expect(t, ExitDone, "ps_", "it will not be shown again", "token", "init", "--redis", redis.URL())
	if _, err := auth.ParseToken(strings.TrimSpace(r.out)); err != nil {
		t.Errorf("%q: %v", r.out, err)
	}
	expect(t, ExitRefused, "", "--again", "token", "init", "--redis", redis.URL())
	t.Setenv("PENSTOCK_AGAIN", "true") // the environment must not confirm anything
	expect(t, ExitRefused, "", "--again", "token", "init", "--redis", redis.URL())
	again := expect(t, ExitDone, "ps_", "", "token", "init", "--redis", redis.URL(), "--again")
	if again.out == r.out {
		t.Error("it is the same")
	}
}

// A token can be generated before there is a store, and registered in one later. It is not printed then.
func TestGeneratedToken(t *testing.T) {
	_, first := guarded(t)
	expect(t, ExitDone, "logged out", "", "logout")
	expect(t, ExitRefused, "", "authentication is required (unauthenticated, HTTP 401); save a token with", "whoami")
	redis := redistest.New(t, redistest.Options{})
	engine, err := redisq.OpenClient(t.Context(), redis.Client(), redisq.Options{Init: true, Patience: redistest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = engine.Close() }()
	path := filepath.Join(t.TempDir(), "token")
	expect(t, ExitDone, "saved to", "", "token", "generate", "--save", path)
	expect(t, ExitUsage, "", "exists", "token", "generate", "--save", path)
	token, err := login.ReadToken(path)
	if err != nil {
		t.Fatal(err)
	}
	id, err := auth.ParseToken(token)
	if err != nil {
		t.Fatal(err)
	}
	register := []string{"token", "init", "--redis", redis.URL(), "--from"}
	for range 2 { // again is safe
		r := expect(t, ExitDone, "token "+id+" of the operator is registered", "", append(register, path)...)
		if strings.Contains(r.out+r.err, token) {
			t.Errorf("the token is printed: %s%s", r.out, r.err)
		}
	}
	authority, err := auth.New(engine, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if made, err := authority.Token(t.Context(), auth.Operator("test"), id); err != nil || len(made.Grants) != 1 ||
		made.Grants[0].Role != auth.Admin || made.App != "" {
		t.Errorf("registered is %+v, %v", made, err)
	}

	other := filepath.Join(t.TempDir(), "other")
	if err := login.WriteToken(t.Context(), other, first); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitRefused, "", "already has the token "+id, append(register, other)...)
	for what, text := range map[string]string{"no token": "hunter2", "mistyped": token[:len(token)-1] + "-"} {
		if err := os.WriteFile(other, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := expect(t, ExitUsage, "", "--from: "+other, append(register, other)...); strings.Contains(r.err, text) {
			t.Errorf("%s: it is quoted: %s", what, r.err)
		}
	}
	expect(t, ExitUsage, "", "no such file", append(register, other+"s")...)
}
