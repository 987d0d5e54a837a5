package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// provider is a provider of JWTs on loopback.
type provider struct {
	t   testing.TB
	url string

	mu     sync.Mutex
	keys   []jose.JSONWebKey // that it shows
	issuer string            // that it says it is
	away   bool

	asked atomic.Int64 // for keys
}

func newProvider(t testing.TB) *provider {
	t.Helper()
	p := &provider{t: t}
	server := httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(server.Close)
	p.url, p.issuer = server.URL, server.URL
	return p
}

func (p *provider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case p.away:
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": p.issuer, "jwks_uri": p.url + "/keys",
			"id_token_signing_alg_values_supported": []string{"none", "HS256", "RS256"},
		})
	case r.URL.Path == "/keys":
		p.asked.Add(1)
		shown := []any{map[string]string{"kty": "new", "kid": "of a kind to come"}}
		for _, key := range p.keys {
			shown = append(shown, key)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": shown})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// signer signs JWTs with a key that has an id.
type signer struct {
	key       crypto.Signer
	id        string
	algorithm jose.SignatureAlgorithm
}

func newSigner(t testing.TB, id string, algorithm jose.SignatureAlgorithm) *signer {
	t.Helper()
	var key crypto.Signer
	var err error
	switch algorithm {
	case jose.ES256:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.EdDSA:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &signer{key, id, algorithm}
}

func (s *signer) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.key.Public(), KeyID: s.id, Algorithm: string(s.algorithm), Use: "sig"}
}

type claims map[string]any

// sign makes a JWT.
func (s *signer) sign(t testing.TB, c claims) string {
	t.Helper()
	by, err := jose.NewSigner(jose.SigningKey{
		Algorithm: s.algorithm, Key: jose.JSONWebKey{Key: s.key, KeyID: s.id},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := by.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	jwt, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return jwt
}

// claims are those of a JWT that is right, changed.
func (p *provider) claims(changes claims) claims {
	c := claims{
		"iss": p.url, "aud": "penstock", "sub": "system:serviceaccount:acme:worker",
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	for name, value := range changes {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return c
}

func encoded(parts ...string) string {
	for n := range parts {
		parts[n] = base64.RawURLEncoding.EncodeToString([]byte(parts[n]))
	}
	return strings.Join(parts, ".")
}
