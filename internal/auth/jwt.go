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

// leeway is how far the clock of a provider may be from ours.
const leeway = time.Minute

// jwt is what a verified JWT says.
type jwt struct {
	name     string   // who it is
	subjects []string // by which he may be known
	expires  time.Time
}

// byJWT says whose a JWT is.
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

// issuerOf says which provider a JWT claims to be of, which is not verified yet.
func (a *Authority) issuerOf(text string) (*issuer, error) {
	_, rest, _ := strings.Cut(text, ".")
	payload, _, _ := strings.Cut(rest, ".")
	var claims struct {
		Issuer string `json:"iss"`
	}
	raw, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		return nil, refuse(Mistyped, "it is no JWT, though it looks like one")
	}
	if from := a.issuers[claims.Issuer]; from != nil {
		return from, nil
	}
	return nil, refuse(Unknown, "the JWT is of an issuer that is not trusted here")
}

// verify says what a JWT proves. Its error is a *Refusal.
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
		if err != nil { // which may quote what the JWT says
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

// read says what the claims of a JWT prove.
func (i *issuer) read(
	subject string, expires, issued time.Time, claims map[string]json.RawMessage,
) (*jwt, error) {
	latest := time.Now().Add(leeway)
	var notBefore float64
	if raw := claims["nbf"]; raw != nil && json.Unmarshal(raw, &notBefore) != nil {
		return nil, refuse(Unknown, "its nbf is no time")
	}
	switch {
	case expires.Unix() <= 0:
		return nil, refuse(Unknown, "the JWT has no exp: it would hold for ever")
	case issued.After(latest), notBefore > float64(latest.Unix()):
		return nil, refuse(Unknown, "the JWT is of a time to come: the clocks differ")
	}
	values := oneOrMore(claims[i.Claim])
	if i.Claim == "email" && string(claims["email_verified"]) != "true" {
		values = nil // anybody could have entered it
	}
	proven := &jwt{expires: expires.Add(leeway)}
	for _, value := range values {
		if name := i.subjectName(value); ValidateSubjectName(name) == nil {
			proven.subjects = append(proven.subjects, name)
		}
	}
	if len(proven.subjects) == 0 {
		return nil, refuse(Unknown, fmt.Sprintf(
			"the claim %s of the JWT has no value that can name a subject: with the provider's name it must be at most %d "+
				"visible ASCII characters", i.Claim, document.MaxNameBytes))
	}
	proven.name = proven.subjects[0]
	if name := i.subjectName(subject); subject != "" && ValidateSubjectName(name) == nil {
		proven.name = name
	}
	return proven, nil
}

// mostValues of a claim are looked at.
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

// mostVerified JWTs are remembered of a provider: to verify one takes a hundred times as long.
const mostVerified = 10_000

// verifiedJWTs are those that were verified, by their SHA-256, under the keys of a version.
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
