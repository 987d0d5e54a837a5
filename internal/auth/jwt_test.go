package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/penstock/penstock/internal/test/await"
)

// trusting is an Authority that has found a provider, with a subject of the app acme for the worker of its claims.
func trusting(t *testing.T, p *provider, change func(*Issuer)) *rig {
	t.Helper()
	of := Issuer{Name: "k8s", URL: p.url, Audience: "penstock"}
	if change != nil {
		change(&of)
	}
	r := newRig(t, newMemory(), of)
	r.app("acme", "acme-*")
	for _, name := range []string{
		"oidc:k8s#system:serviceaccount:acme:worker", "oidc:k8s#ann@acme.example", "oidc:k8s#mailers",
	} {
		s := Subject{Name: name, App: "acme", Grants: []Grant{{Produce, ""}}}
		if _, err := r.PutSubject(t.Context(), r.op, s, 0); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *rig) found(url string) {
	r.t.Helper()
	await.Until(r.t, "the provider is found", func() bool { return r.issuers[url].verifier.Load() != nil })
}

func TestJWTs(t *testing.T) {
	p := newProvider(t)
	rs, es, ed := newSigner(t, "rs", jose.RS256), newSigner(t, "es", jose.ES256), newSigner(t, "ed", jose.EdDSA)
	foreign := newSigner(t, "rs", jose.RS256)
	p.keys = []jose.JSONWebKey{rs.public(), es.public(), ed.public()}
	r := trusting(t, p, nil)
	r.found(p.url)

	at := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	payload, err := json.Marshal(p.claims(nil))
	if err != nil {
		t.Fatal(err)
	}
	hs256 := func(key []byte, kid string) string {
		body := encoded(`{"alg":"HS256","kid":"`+kid+`"}`, string(payload))
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(body))
		return body + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	}
	der, err := x509.MarshalPKIXPublicKey(rs.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	right := rs.sign(t, p.claims(nil))
	parts := strings.Split(right, ".")
	otherPayload := encoded(strings.Replace(string(payload), "worker", "admin!", 1))

	const let Code = ""
	for _, c := range []struct {
		name, jwt string
		want      Code
	}{
		{"RS256", right, let},
		{"ES256", es.sign(t, p.claims(nil)), let},
		{"EdDSA", ed.sign(t, p.claims(nil)), let},
		{"several audiences", rs.sign(t, p.claims(claims{"aud": []string{"x", "penstock"}})), let},
		{"exp half a minute ago", rs.sign(t, p.claims(claims{"exp": at(-30 * time.Second)})), let},
		{"nbf in half a minute", rs.sign(t, p.claims(claims{"nbf": at(30 * time.Second)})), let},
		{"iat in half a minute", rs.sign(t, p.claims(claims{"iat": at(30 * time.Second)})), let},
		{"no iat", rs.sign(t, p.claims(claims{"iat": nil})), let},

		{"clock 5 minutes behind: exp", rs.sign(t, p.claims(claims{"exp": at(-5 * time.Minute)})), Expired},
		{"exp 70 s ago", rs.sign(t, p.claims(claims{"exp": at(-70 * time.Second)})), Expired},
		{"clock 5 minutes ahead: nbf", rs.sign(t, p.claims(claims{"nbf": at(5 * time.Minute)})), Unknown},
		{"nbf in 70 s", rs.sign(t, p.claims(claims{"nbf": at(70 * time.Second)})), Unknown},
		{"clock 5 minutes ahead: iat", rs.sign(t, p.claims(claims{"iat": at(5 * time.Minute)})), Unknown},
		{"no exp", rs.sign(t, p.claims(claims{"exp": nil})), Unknown},
		{"exp 0", rs.sign(t, p.claims(claims{"exp": 0})), Unknown},
		{"exp no number", rs.sign(t, p.claims(claims{"exp": "soon"})), Unknown},
		{"nbf no number", rs.sign(t, p.claims(claims{"nbf": "later"})), Unknown},

		{"foreign issuer", rs.sign(t, p.claims(claims{"iss": "https://evil.example"})), Unknown},
		{"issuer with a slash", rs.sign(t, p.claims(claims{"iss": p.url + "/"})), Unknown},
		{"no issuer", rs.sign(t, p.claims(claims{"iss": nil})), Unknown},
		{"foreign audience", rs.sign(t, p.claims(claims{"aud": "other"})), Unknown},
		{"no audience", rs.sign(t, p.claims(claims{"aud": nil})), Unknown},
		{"foreign key of the id", foreign.sign(t, p.claims(nil)), Unknown},
		{"unknown subject", rs.sign(t, p.claims(claims{"sub": "system:serviceaccount:beta:worker"})), Unknown},
		{"no subject", rs.sign(t, p.claims(claims{"sub": nil})), Unknown},
		{"empty subject", rs.sign(t, p.claims(claims{"sub": ""})), Unknown},
		{"subject of another kind", rs.sign(t, p.claims(claims{"sub": 7})), Unknown},
		{"subject in capitals", rs.sign(t, p.claims(claims{"sub": "SYSTEM:serviceaccount:acme:worker"})), Unknown},
		{"subject that looks alike", rs.sign(t, p.claims(claims{"sub": "system:serviceaccount:\u0430cme:worker"})), Unknown},
		{"subject of another claim", rs.sign(t, p.claims(claims{"sub": "x", "email": "ann@acme.example"})), Unknown},

		{"alg none", encoded(`{"alg":"none"}`, string(payload)) + ".", Unknown},
		{"alg None", encoded(`{"alg":"None"}`, string(payload)) + ".", Unknown},
		{"alg none, with a signature", encoded(`{"alg":"none"}`) + "." + parts[1] + "." + parts[2], Unknown},
		{"HS256 by the public key", hs256(public, "rs"), Unknown},
		{"HS256 by its DER", hs256(der, ""), Unknown},
		{"HS256 by nothing", hs256(nil, ""), Unknown},
		{"no signature", parts[0] + "." + parts[1] + ".", Unknown},
		{"claims changed", parts[0] + "." + otherPayload + "." + parts[2], Unknown},
		{"truncated", right[:len(right)-5], Unknown},
		{"doubled", right + right, Mistyped},
		{"no JSON", "a.b.c", Mistyped},
		{"dots", "..", Mistyped},
		{"1 MB", right + strings.Repeat("a", 1<<20), Mistyped},
	} {
		id, err := r.Identify(with(c.jwt))
		if codeOf(err) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil && (id.Actor.Name != "oidc:k8s#system:serviceaccount:acme:worker" || !id.Can(Produce, "acme-x") ||
			id.Can(View, "acme-x") || id.Actor.App != "acme") {
			t.Errorf("%s: %+v", c.name, id.Actor)
		}
		if err != nil && len(c.jwt) > 50 && (strings.Contains(err.Error(), parts[1][:20]) ||
			strings.Contains(err.Error(), "evil")) {
			t.Errorf("%s: the error shows it: %v", c.name, err)
		}
	}
	if n := p.asked.Load(); n > 2 {
		t.Errorf("the provider was asked %d times for keys", n)
	}
	r.stop()
	r.silent(parts[1], parts[2], "evil")
}

func TestClaims(t *testing.T) {
	p := newProvider(t)
	key := newSigner(t, "", jose.ES256)
	p.keys = []jose.JSONWebKey{key.public()}
	for _, c := range []struct {
		claim string
		with  claims
		want  Code
		actor string
	}{
		{
			"email",
			claims{"email": "ann@acme.example", "email_verified": true},
			"",
			"oidc:k8s#system:serviceaccount:acme:worker",
		},
		{"email", claims{"email": "ann@acme.example", "email_verified": false}, Unknown, ""},
		{"email", claims{"email": "ann@acme.example"}, Unknown, ""},
		{"email", claims{}, Unknown, ""},
		{"groups", claims{"groups": []string{"x", "mailers"}, "sub": "ann"}, "", "oidc:k8s#ann"},
		{"groups", claims{"groups": "mailers", "sub": "with space"}, "", "oidc:k8s#mailers"},
		{"groups", claims{"groups": []any{"mailers", 7}}, Unknown, ""},
		{"groups", claims{"groups": []string{"x"}}, Unknown, ""},
		{"groups", claims{"groups": map[string]string{"mailers": "mailers"}}, Unknown, ""},
	} {
		r := trusting(t, p, func(of *Issuer) { of.Claim = c.claim })
		r.found(p.url)
		id, err := r.Identify(with(key.sign(t, p.claims(c.with))))
		if codeOf(err) != c.want || err == nil && id.Actor.Name != c.actor {
			t.Errorf("%s of %v: %+v, %v", c.claim, c.with, id, err)
		}
		r.stop()
	}
}

// TestProviderAway: it keeps nobody from starting, its JWTs are told that nobody can tell, and it is found in the end.
func TestProviderAway(t *testing.T) {
	p := newProvider(t)
	key := newSigner(t, "one", jose.ES256)
	p.keys = []jose.JSONWebKey{key.public()}
	p.away = true
	r := trusting(t, p, nil)
	jwt := key.sign(t, p.claims(nil))
	r.refused(jwt, Unavailable)
	await.Until(t, "it was asked", func() bool {
		return strings.Contains(
			r.log.String(), "discovery of a JWT provider failed",
		)
	})
	secret, _ := r.token("", Grant{View, ""})
	r.as(secret)
	p.set(func() { p.away = false })
	r.found(p.url)
	r.as(jwt)
	// Once it is known it may be away again.
	p.set(func() { p.away = true })
	r.as(key.sign(t, p.claims(claims{"jti": "another"})))
	r.refused(newSigner(t, "two", jose.ES256).sign(t, p.claims(nil)), Unknown)
	if n := strings.Count(r.log.String(), "discovery of a JWT provider failed"); n != 1 {
		t.Errorf("said %d times:\n%s", n, r.log)
	}
}

// TestProviderThatIsAnother: who answers for an issuer must say that he is it.
func TestProviderThatIsAnother(t *testing.T) {
	p := newProvider(t)
	key := newSigner(t, "one", jose.ES256)
	p.keys, p.issuer = []jose.JSONWebKey{key.public()}, "https://evil.example"
	r := trusting(t, p, nil)
	await.Until(t, "it was asked", func() bool {
		return strings.Contains(
			r.log.String(), "discovery of a JWT provider failed",
		)
	})
	r.refused(key.sign(t, p.claims(nil)), Unavailable)
}

// TestRotatedKeys: a new key is good at once, an old one no longer once keys were read; unknown ones cannot make the
// provider be asked again and again.
func TestRotatedKeys(t *testing.T) {
	p := newProvider(t)
	old, fresh := newSigner(t, "old", jose.ES256), newSigner(t, "fresh", jose.ES256)
	p.keys = []jose.JSONWebKey{old.public()}
	r := trusting(t, p, nil)
	r.found(p.url)
	byOld, byFresh := old.sign(t, p.claims(nil)), fresh.sign(t, p.claims(nil))
	r.as(byOld)
	p.set(func() { p.keys = []jose.JSONWebKey{fresh.public()} })
	r.as(byFresh)
	r.refused(byOld, Unknown) // though it was verified before
	asked := p.asked.Load()
	for range 100 {
		r.refused(newSigner(t, "never", jose.ES256).sign(t, p.claims(nil)), Unknown)
	}
	if n := p.asked.Load() - asked; n > 1 {
		t.Errorf("asked %d times", n)
	}
	r.as(byFresh)

	// A key withdrawn that nobody has asked for is dropped when keys are next read.
	p.set(func() { p.keys = []jose.JSONWebKey{old.public()} })
	if err := r.issuers[p.url].keys.fetch(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.refused(byFresh, Unknown)

	// Keys that are too old hold no longer.
	keys := r.issuers[p.url].keys
	r.as(byOld)
	keys.mu.Lock()
	keys.good = time.Now().Add(-keysHold - time.Second)
	keys.mu.Unlock()
	r.refused(byOld, Unavailable)
}

func TestJWTIsWatched(t *testing.T) {
	p := newProvider(t)
	key := newSigner(t, "one", jose.ES256)
	p.keys = []jose.JSONWebKey{key.public()}
	r := trusting(t, p, nil)
	r.found(p.url)
	id := r.as(key.sign(t, p.claims(nil)))
	ctx, cancel := r.Watch(t.Context(), id)
	defer cancel()
	id.expires = time.Now()
	r.checkWatched()
	if codeOf(context.Cause(ctx)) != Expired {
		t.Errorf("%v", context.Cause(ctx))
	}
	id = r.as(key.sign(t, p.claims(nil)))
	ctx, cancel = r.Watch(t.Context(), id)
	defer cancel()
	if _, err := r.DeleteSubject(t.Context(), r.op, id.subject, -1); err != nil {
		t.Fatal(err)
	}
	r.checkWatched()
	if codeOf(context.Cause(ctx)) != Revoked {
		t.Errorf("%v", context.Cause(ctx))
	}
}

func TestIssuersAreChecked(t *testing.T) {
	right := Issuer{Name: "k8s", URL: "https://issuer.example", Audience: "penstock"}
	for _, c := range []struct {
		change func(*Issuer)
		field  string
	}{
		{func(*Issuer) {}, ""},
		{func(i *Issuer) { i.URL = "issuer.example" }, "issuer"},
		{func(i *Issuer) { i.URL = "file:///etc/passwd" }, "issuer"},
		{func(i *Issuer) { i.URL = "http://issuer.example" }, "issuer"},
		{func(i *Issuer) { i.URL = "http://localhost.example:80" }, "issuer"},
		{func(i *Issuer) { i.URL = "http://localhost:80" }, ""},
		{func(i *Issuer) { i.URL = "http://[::1]" }, ""},
		{func(i *Issuer) { i.Audience = "" }, "audience"},
		{func(i *Issuer) { i.Name = "" }, "name"},
		{func(i *Issuer) { i.Name = "a#b" }, "name"},
	} {
		of := right
		c.change(&of)
		if _, err := New(newMemory(), Options{Issuers: []Issuer{of}}); fieldOf(err) != c.field {
			t.Errorf("%+v: %v", of, err)
		}
	}
	other := right
	other.URL = "https://other.example"
	if _, err := New(newMemory(), Options{Issuers: []Issuer{right, other}}); fieldOf(err) != "issuers[1]" {
		t.Errorf("two of a name: %v", err)
	}
}

// A provider cannot send who asks for its keys to where others could change them.
func TestKeysAreAskedForInPrivate(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"jwks_uri": func(w http.ResponseWriter, r *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]string{"issuer": "http://" + r.Host, "jwks_uri": "http://192.0.2.1/keys"})
		},
		"redirects to": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		},
	} {
		server := httptest.NewServer(answer)
		i, err := newIssuer(Issuer{Name: "k8s", URL: server.URL, Audience: "penstock"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := i.discover(t.Context()); err == nil || !strings.Contains(err.Error(), name) ||
			!strings.Contains(err.Error(), "https://") {
			t.Errorf("%s: %v", name, err)
		}
		server.Close()
	}
}

func TestVerifiedJWTsAreBounded(t *testing.T) {
	var v verifiedJWTs
	for n := range 3 * mostVerified {
		v.put(sha256.Sum256([]byte{byte(n), byte(n >> 8), byte(n >> 16)}), 1, &jwt{})
	}
	if len(v.all) > mostVerified {
		t.Errorf("%d are kept", len(v.all))
	}
}
