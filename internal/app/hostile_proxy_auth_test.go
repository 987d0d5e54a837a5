package app_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
)

// guarded is a gateway that asks for tokens.
type guarded struct {
	*gateway
	authority *auth.Authority
}

func newGuarded(t *testing.T, change ...func(*gatewayOptions)) *guarded {
	t.Helper()
	g := &guarded{}
	g.gateway = newGatewayWith(t, func(e queue.Engine) []func(*gatewayOptions) {
		var err error
		if g.authority, err = auth.New(e, auth.Options{}); err != nil {
			t.Fatal(err)
		}
		return append(change, func(o *gatewayOptions) { o.Auth = g.authority })
	})
	await.Until(t, "the authority is ready", func() bool { return g.authority.Ready() == nil })
	return g
}

// app makes an app that owns the names NAME-*.
func (g *guarded) app(name, more string) {
	g.t.Helper()
	if _, err := g.engine.PutDocument(g.t.Context(), document.Document{
		Kind: "app", Name: name, Text: []byte(`{"name":"` + name + `","prefixes":["` + name + `-*"],"hosts":["127.0.0.1"]` +
			more + `}`),
	}, queue.AnyRevision); err != nil {
		g.t.Fatal(err)
	}
}

func (g *guarded) tokenOf(app string, roles ...auth.Role) (secret, id string) {
	g.t.Helper()
	var grants []auth.Grant
	for _, role := range roles {
		grants = append(grants, auth.Grant{Role: role})
	}
	await.Until(g.t, "the app is known", func() bool {
		text, made, err := g.authority.CreateToken(g.t.Context(), auth.Operator("test"), auth.Token{App: app, Grants: grants})
		secret, id = text, made.ID
		return err == nil
	})
	return secret, id
}

// Only a token that may produce to a queue calls through it, and names of other apps are answered like unknown ones.
func TestHostileProxyRoles(t *testing.T) {
	p := fine(t)
	g := newGuarded(t)
	g.app("acme", "")
	g.app("beta", "")
	g.put("acme-api", p.url, "", "")
	g.put("beta-api", p.url, "", "")
	tokens := map[string]string{"nobody": "", "wrong": "ps_" + strings.Repeat("a", 40)}
	for name, role := range map[string]auth.Role{
		"produce": auth.Produce, "consume": auth.Consume, "view": auth.View, "configure": auth.Configure,
		"operate": auth.Operate,
	} {
		tokens[name], _ = g.tokenOf("acme", role)
	}
	tokens["admin"], _ = g.tokenOf("", auth.Admin)
	var foreign, unknown string
	for _, c := range []struct {
		token, queue string
		status       int
	}{
		{"produce", "acme-api", 200},
		{"admin", "acme-api", 200},
		{"admin", "beta-api", 200},
		{"consume", "acme-api", 403},
		{"view", "acme-api", 403},
		{"configure", "acme-api", 403},
		{"operate", "acme-api", 403},
		{"nobody", "acme-api", 401},
		{"wrong", "acme-api", 401},
		{"nobody", "none", 401},
		{"produce", "beta-api", 404},
		{"produce", "acme-none", 404},
		{"view", "beta-api", 404},
		{"produce", "none", 404},
	} {
		t.Run(c.token+" of "+c.queue, func(t *testing.T) {
			before := len(p.seen())
			g.token = tokens[c.token]
			a := g.call("GET", "/proxy/"+c.queue+"/x", "")
			if a.status != c.status || len(p.seen())-before != map[bool]int{true: 1}[c.status == 200] {
				t.Errorf("%d %s, want %d", a.status, a.text, c.status)
			}
			switch {
			case c.token == "produce" && c.queue == "beta-api":
				foreign = strings.ReplaceAll(a.text, c.queue, "NAME")
			case c.token == "produce" && c.queue == "none":
				unknown = strings.ReplaceAll(a.text, c.queue, "NAME")
			}
		})
	}
	if cut := func(s string) string { s, _, _ = strings.Cut(s, `,"request"`); return s }; cut(foreign) != cut(unknown) {
		t.Errorf("a foreign queue is answered %s, an unknown one %s", foreign, unknown)
	}
}

// Wherever a library puts the token, it lets the caller in and the receiver never sees it, while what is meant for the
// receiver reaches it only if the target passes it on.
func TestHostileProxyTokens(t *testing.T) {
	p := fine(t)
	g := newGuarded(t)
	token, _ := g.tokenOf("", auth.Admin)
	other, _ := g.tokenOf("", auth.Admin)
	g.put("plain", p.url, "", "")
	g.put("passing", p.url, "", `"pass_authorization":true`)
	g.put("keyed", p.url, "", `"pass_authorization":true,"headers":{"Authorization":"Bearer provider"}`)
	basic := func(password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+password))
	}
	for _, c := range []struct {
		name    string
		fields  []string
		status  int
		passing string // the Authorization and X-Api-Key that a target gets that passes them on
	}{
		{"bearer", []string{"Authorization", "Bearer " + token}, 200, "[] []"},
		{"lower case", []string{"Authorization", "bearer " + token}, 200, "[] []"},
		{"key", []string{"X-Api-Key", token}, 200, "[] []"},
		{"password", []string{"Authorization", basic(token)}, 200, "[] []"},
		{"own field", []string{"Penstock-Authorization", "Bearer " + token}, 200, "[] []"},
		{
			"own field and bearer",
			[]string{"Penstock-Authorization", "Bearer " + token, "Authorization", "Bearer theirs"},
			200,
			"[Bearer theirs] []",
		},
		{
			"own field and key",
			[]string{"Penstock-Authorization", "Bearer " + token, "X-Api-Key", "theirs"},
			200,
			"[] [theirs]",
		},
		{"bearer and key", []string{"Authorization", "Bearer " + token, "X-Api-Key", "theirs"}, 200, "[] [theirs]"},
		{"twice the token", []string{"Authorization", "Bearer " + token, "X-Api-Key", token}, 200, "[] []"},
		{
			"another token",
			[]string{"Penstock-Authorization", "Bearer " + token, "Authorization", "Bearer " + other},
			200,
			"[] []",
		},
		{
			"another token as password",
			[]string{"Penstock-Authorization", "Bearer " + token, "Authorization", basic(other)},
			200, "[] []",
		},
		{"another token as key", []string{"Penstock-Authorization", "Bearer " + token, "X-Api-Key", other}, 200, "[] []"},
		{"cookie", []string{"Penstock-Authorization", "Bearer " + token, "Cookie", "token=" + token}, 200, "[] []"},
		{
			"forged field",
			[]string{"Authorization", "Bearer " + token, "Penstock-Passed-Authorization", "Bearer forged"},
			200,
			"[] []",
		},
		{"only a cookie", []string{"Cookie", "token=" + token}, 401, ""},
		{"two bearers", []string{"Authorization", "Bearer " + token, "Authorization", "Bearer " + token}, 400, ""},
		{
			"two own fields",
			[]string{"Penstock-Authorization", "Bearer " + token, "Penstock-Authorization", "Bearer " + token},
			400, "",
		},
		{
			"own field that is wrong",
			[]string{"Penstock-Authorization", "Bearer wrong", "Authorization", "Bearer " + token},
			401, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, want := range map[string]string{"plain": "[] []", "passing": c.passing, "keyed": "[Bearer provider]"} {
				before := len(p.seen())
				a := g.call("POST", "/proxy/"+name+"/x", "{}", c.fields...)
				seen := p.seen()[before:]
				if a.status != c.status || c.status != 200 && len(seen) > 0 {
					t.Fatalf("%s: %d %s, sent %q; want %d", name, a.status, a.text, seen, c.status)
				}
				if c.status != 200 {
					continue
				}
				if head := seen[0]; strings.Contains(head, "ps_") || strings.Contains(head, "Penstock-") || strings.Contains(head,
					"forged") ||
					strings.Contains(head, basic(token)) || strings.Contains(head, basic(other)) {
					t.Errorf("%s: the receiver got %q", name, head)
				}
				h := fields(t, seen[0])
				if got := fmt.Sprint(h["Authorization"], " ", h["X-Api-Key"]); !strings.HasPrefix(got, want) {
					t.Errorf("%s: the receiver got %s, want %s", name, got, want)
				}
			}
		})
	}
	for _, query := range []string{"?access_token=" + token, "?key=" + token, "?a=b&token=" + token} {
		before := len(p.seen())
		a := g.call("GET", "/proxy/plain"+query, "", "Authorization", "Bearer "+token)
		if a.status/100 != 4 || len(p.seen()) != before {
			t.Errorf("a token in the URL: %d %s", a.status, a.text)
		}
	}
}

// A token that is revoked while its call waits ends the wait, and nothing is sent.
func TestHostileProxyRevoked(t *testing.T) {
	p := fine(t)
	g := newGuarded(t)
	g.app("acme", "")
	g.put("acme-api", p.url, `"rate":"1/h"`, "")
	token, id := g.tokenOf("acme", auth.Produce)
	if a := g.call("GET", "/proxy/acme-api/first", "", "Authorization", "Bearer "+token); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.text)
	}
	g.put("acme-api", p.url, `"rate":"12/h"`, "")
	answered := make(chan reply, 1)
	go func() {
		answered <- g.call("GET", "/proxy/acme-api/second", "", "Authorization", "Bearer "+token, "Penstock-Wait", "10m")
	}()
	g.waits(1)
	if _, err := g.authority.DeleteToken(t.Context(), auth.Operator("test"), id, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	if a := <-answered; a.status != 401 {
		t.Errorf("%d %s, %v", a.status, a.text, a.err)
	}
	g.quiet("acme-api")
	if len(p.seen()) != 1 {
		t.Errorf("the receiver got %q", p.seen())
	}
}

// An app has no more calls open than its limit, whichever queue they wait in.
func TestHostileProxyAppLimit(t *testing.T) {
	p := fine(t)
	g := newGuarded(t)
	g.app("acme", `,"limits":{"waits":2}`)
	g.put("acme-api", p.url, `"rate":"1/h"`, "")
	token, _ := g.tokenOf("acme", auth.Produce)
	admin, _ := g.tokenOf("", auth.Admin)
	call := func(ctx context.Context, token string) reply {
		return g.callWith(ctx, "GET", "/proxy/acme-api/x", nil, "Authorization", "Bearer "+token, "Penstock-Wait", "10m")
	}
	if a := call(t.Context(), token); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.text)
	}
	g.put("acme-api", p.url, `"rate":"12/h"`, "")
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	left := make(chan reply, 2)
	g.pauseBy("acme-api", admin)
	for range 2 {
		go func() { left <- call(ctx, token) }()
	}
	g.waits(2)
	if a := call(t.Context(), token); a.status != 429 || a.header.Get("Retry-After") == "" || !strings.Contains(a.text,
		`"error":{`) {
		t.Errorf("a third call of two: %d %s", a.status, a.text)
	}
	leave()
	for range 2 {
		<-left
	}
	g.quiet("acme-api")
}

func (g *gateway) pauseBy(name, token string) {
	g.t.Helper()
	if a := g.call("POST", "/v1/queues/"+name+"/pause", "{}", "Content-Type", "application/json", "Authorization",
		"Bearer "+token); a.status/100 != 2 {
		g.t.Fatalf("%d %s", a.status, a.text)
	}
}

// A secret of the target never reaches its callers: not in an error, not in a header that a receiver sends back, and
// not in the address of a redirect.
func TestHostileProxySecrets(t *testing.T) {
	const secret = "hunter2-Abcdefgh-Ijklmnop"
	p := newRawReceiver(t, func(head string, _ *bufio.Reader, conn net.Conn) {
		line, _, _ := strings.Cut(head, " HTTP/1.1")
		_, path, _ := strings.Cut(line, " ")
		if !strings.Contains(head, "X-Key: "+secret) || !strings.Contains(path, secret) {
			t.Errorf("the receiver got %q", head)
		}
		switch {
		case strings.HasSuffix(path, "/header"):
			_, _ = io.WriteString(conn, said("HTTP/1.1 200 OK", "X-Echo: "+secret, "X-Path: "+path, "Content-Length: 0", "", ""))
		case strings.HasSuffix(path, "/status"):
			_, _ = io.WriteString(conn, said("HTTP/1.1 "+secret, "", ""))
		case strings.HasSuffix(path, "/proto"):
			_, _ = io.WriteString(conn, said("HTTP/2.0"+secret+" 200 OK", "", ""))
		case strings.HasSuffix(path, "/garbage"):
			_, _ = io.WriteString(conn, secret+" "+path+"\r\n")
		case strings.HasSuffix(path, "/name"):
			_, _ = io.WriteString(conn, said("HTTP/1.1 200 OK", secret+" x: y", "", ""))
		case strings.HasSuffix(path, "/length"):
			_, _ = io.WriteString(conn, said("HTTP/1.1 200 OK", "Content-Length: "+secret, "", ""))
		case strings.HasSuffix(path, "/coding"):
			_, _ = io.WriteString(conn, said("HTTP/1.1 200 OK", "Transfer-Encoding: "+secret, "", ""))
		case strings.HasSuffix(path, "/moved"):
			_, _ = io.WriteString(conn, said("HTTP/1.1 302 Moved", "Location: "+path+"/on", "Content-Location: "+path,
				"Content-Length: 0", "", ""))
		case strings.HasSuffix(path, "/elsewhere"):
			_, _ = io.WriteString(conn, said("HTTP/1.1 302 Moved", "Location: http://example.com/"+secret, "Content-Length: 0",
				"", ""))
		}
	})
	t.Setenv("PENSTOCK_SECRET_key", secret)
	allow, err := secrets.ParseAllow("key=" + strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	closed, err := secrets.ParseAllow("key=127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	g := newGateway(t, func(o *gatewayOptions) {
		o.Deliver.Secrets = secrets.Source{Allow: []secrets.Allow{allow, closed}}
	})
	const keys = `"headers":{"X-Key":"${secret:key}"}`
	g.put("q", p.url+"/bot${secret:key}", `"circuit":{"off":true}`, keys)
	g.put("down", "http://127.0.0.1:1/bot${secret:key}", `"circuit":{"off":true}`, keys)
	g.put("foreign", "http://127.0.0.1:2/bot${secret:key}", `"circuit":{"off":true}`, keys)
	for path, status := range map[string]int{
		"q/header": 200, "q/status": 502, "q/proto": 502, "q/garbage": 502, "q/name": 200, "q/length": 502, "q/coding": 502,
		"q/moved": 302, "q/elsewhere": 302, "q/silent": 502, "down/x": 502, "foreign/x": 502,
	} {
		t.Run(path, func(t *testing.T) {
			a := g.call("GET", "/proxy/"+path, "")
			if a.status != status {
				t.Errorf("%d %s, want %d", a.status, a.text, status)
			}
			if shown := fmt.Sprint(a.header, a.text); strings.Contains(shown, "unter2") || strings.Contains(shown, "Abcdefgh") {
				t.Errorf("the caller sees %s", shown)
			}
			if path == "q/moved" && a.header.Get("Location") != "/proxy/q/moved/on" {
				t.Errorf("Location %q", a.header.Get("Location"))
			}
		})
	}
	if shown := fmt.Sprintf("%+v", g.info("q")); strings.Contains(shown, "unter2") {
		t.Errorf("the queue shows %s", shown)
	}
}

// An app that calls learns nothing of the operator's network from an error.
func TestHostileProxyProbes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	g := newGuarded(t)
	if _, err := g.engine.PutDocument(t.Context(), document.Document{
		Kind: "app", Name: "acme", Text: []byte(`{"name":"acme","prefixes":["acme-*"],"hosts":["*"]}`),
	}, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	g.put("acme-down", "http://localhost:"+port, `"circuit":{"failures":1}`, "")
	g.token, _ = g.tokenOf("acme", auth.Produce)
	await.Until(t, "the queue is known as the app's", func() bool {
		by, err := g.owners.Permitted("acme-down")
		return err == nil && by != nil
	})
	a := g.call("GET", "/proxy/acme-down/x", "")
	if a.status != 502 || a.reason != "receiver_unreachable" || strings.Contains(a.text, "127.0.0.1") ||
		strings.Contains(a.text, "::1") {
		t.Errorf("%d %s", a.status, a.text)
	}
	await.Until(t, "the circuit opens", func() bool { info := g.info("acme-down"); return info.Circuit.Open() })
	if info := g.info("acme-down"); strings.Contains(info.Circuit.Reason, "127.0.0.1") ||
		strings.Contains(info.Circuit.Reason, "::1") {
		t.Errorf("the circuit says %q", info.Circuit.Reason)
	}
}
