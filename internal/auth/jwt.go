package auth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/document"
)

// leeway is the accepted difference of a provider's clock.
const leeway = time.Minute

// jwt is the content of a verified JWT.
type jwt struct {
	name     string   // the authenticated name
	subjects []string // subjects to look up
	expires  time.Time
}

// byJWT returns the identity of a JWT.
func (a *Authority) byJWT(ctx context.Context, text string) (*Identity, error) {
	from, err := a.issuerOf(text)
	if err != nil {
		return nil, err
	}
	proven, err := from.verify(ctx, text)
	if err != nil {
		return nil, err
	}
	id, err := a.bySubject(ctx, proven.subjects)
	if err != nil {
		return nil, err
	}
	id.Actor.Name, id.expires = proven.name, id.bound(proven.expires)
	return id, nil
}

// issuerOf returns the provider that a JWT claims to be from. The claim is not verified yet.
func (a *Authority) issuerOf(text string) (*issuer, error) {
	_, rest, _ := strings.Cut(text, ".")
	payload, _, _ := strings.Cut(rest, ".")
	var claims struct {
		Issuer string `json:"iss"`
	}
	raw, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		return nil, refuse(Mistyped, "it looks like a JWT, but is not one")
	}
	if from := a.issuers[claims.Issuer]; from != nil {
		return from, nil
	}
	return nil, refuse(Unknown, "the issuer of the JWT is not trusted here")
}

// verify verifies a JWT. Its error is a *Refusal.
func (i *issuer) verify(ctx context.Context, text string) (*jwt, error) {
	verifier := i.verifier.Load()
	if verifier == nil {
		return nil, refuse(Unavailable, "the provider "+i.Name+" has not been reached yet")
	}
	version := i.keys.current()
	if version == 0 {
		return nil, refuse(Unavailable, "the provider "+i.Name+" was last reached more than "+keysHold.String()+" ago")
	}
	digest := sha256.Sum256([]byte(text))
	proven := i.verified.get(digest, version)
	if proven == nil {
		token, err := verifier.Verify(ctx, text)
		if err != nil { // the error may quote the JWT
			return nil, refuse(Unknown, "the JWT is not one of "+i.Name+" for "+i.Audience)
		}
		var claims map[string]json.RawMessage
		if err := token.Claims(&claims); err != nil {
			return nil, refuse(Unknown, "the claims of the JWT cannot be read")
		}
		if proven, err = i.read(token.Subject, token.Expiry, token.IssuedAt, claims); err != nil {
			return nil, err
		}
		i.verified.put(digest, version, proven)
	}
	if !time.Now().Before(proven.expires) {
		return nil, refuse(Expired, "get another JWT")
	}
	return proven, nil
}

// read returns the content of a JWT from its claims.
func (i *issuer) read(
	subject string, expires, issued time.Time, claims map[string]json.RawMessage,
) (*jwt, error) {
	latest := time.Now().Add(leeway)
	var notBefore float64
	if raw := claims["nbf"]; raw != nil && json.Unmarshal(raw, &notBefore) != nil {
		return nil, refuse(Unknown, "its nbf is not a time")
	}
	switch {
	case expires.Unix() <= 0:
		return nil, refuse(Unknown, "the JWT has no exp, so it would never expire")
	case issued.After(latest), notBefore > float64(latest.Unix()):
		return nil, refuse(Unknown, "the JWT is from the future: the clocks differ")
	}
	values := oneOrMore(claims[i.Claim])
	if i.Claim == "email" && string(claims["email_verified"]) != "true" {
		values = nil // an unverified address could be anyone's
	}
	proven := &jwt{expires: expires.Add(leeway)}
	for _, value := range values {
		if name := i.subjectName(value); ValidateSubjectName(name) == nil {
			proven.subjects = append(proven.subjects, name)
		}
	}
	if len(proven.subjects) == 0 {
		return nil, refuse(Unknown, fmt.Sprintf(
			"the claim %s of the JWT has no valid subject name: with the provider's name it must be at most %d "+
				"visible ASCII characters", i.Claim, document.MaxNameBytes))
	}
	proven.name = proven.subjects[0]
	if name := i.subjectName(subject); subject != "" && ValidateSubjectName(name) == nil {
		proven.name = name
	}
	return proven, nil
}

// mostValues is the maximum number of values of a claim that are used.
const mostValues = 100

func oneOrMore(raw json.RawMessage) (values []string) {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	if json.Unmarshal(raw, &values) != nil {
		return nil
	}
	return values[:min(len(values), mostValues)]
}

// mostVerified is the number of verified JWTs cached for a provider. Verification takes a hundred times as long as a
// lookup.
const mostVerified = 10_000

// verifiedJWTs caches verified JWTs by SHA-256, for one version of the keys.
type verifiedJWTs struct {
	mu      sync.RWMutex
	version int
	all     map[[sha256.Size]byte]*jwt
}

func (v *verifiedJWTs) get(digest [sha256.Size]byte, version int) *jwt {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if version != v.version {
		return nil
	}
	return v.all[digest]
}

func (v *verifiedJWTs) put(digest [sha256.Size]byte, version int, proven *jwt) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if version != v.version || len(v.all) >= mostVerified {
		v.all, v.version = map[[sha256.Size]byte]*jwt{}, version
	}
	v.all[digest] = proven
}
