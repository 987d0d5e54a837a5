package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/invalid"
)

// Issuer is a provider of JWTs (OIDC).
type Issuer struct {
	// Name is what its subjects are named by, oidc:NAME#VALUE.
	Name string
	// URL is the issuer as it stands in JWTs. Its keys are found by discovery.
	URL string
	// Audience is whom a JWT must be for.
	Audience string
	// Claim is the one whose value names the subject, a text or several; empty is "sub".
	Claim string
	// Client asks the provider; nil is http.DefaultClient.
	Client *http.Client
}

// How providers are asked.
const (
	askTimeout = 10 * time.Second
	// keysEvery is how long a key may still be good here that its provider has withdrawn.
	keysEvery = 5 * time.Minute
	// keysHold while the provider does not answer.
	keysHold = time.Hour
	// keysGap lies between two questions for keys that were not known, however many JWTs name such.
	keysGap = 10 * time.Second
	// discoverFirst is how long after the first failure discovery is tried again, which doubles up to discoverMost.
	discoverFirst = time.Second
	discoverMost  = time.Minute
)

// algorithms are those that a JWT may be signed by. All are of key pairs: one that is signed by a shared secret, or by
// nothing, is refused whatever the provider says of itself.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// issuer is a provider and what is known of it.
type issuer struct {
	Issuer
	log      *slog.Logger
	keys     *keySet
	verifier atomic.Pointer[oidc.IDTokenVerifier] // nil before discovery
	verified verifiedJWTs
}

func newIssuer(of Issuer, log *slog.Logger) (*issuer, error) {
	if of.Claim == "" {
		of.Claim = "sub"
	}
	u, err := url.Parse(of.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, &invalid.Error{
			Field: "issuer", Value: clip.Quote(of.URL, 80), Reason: "must be the URL that stands in its JWTs as iss",
		}
	}
	if of.Audience == "" {
		return nil, &invalid.Error{
			Field: "audience", Reason: "is empty: a JWT that was made for somebody else would be taken; name this service",
		}
	}
	if ValidateSubjectName(ByOIDC+of.Name+"#x") != nil || strings.Contains(of.Name, "#") {
		return nil, &invalid.Error{
			Field: "name", Value: clip.Quote(of.Name, 80), Reason: "must be visible ASCII characters without #",
		}
	}
	if err := private(u); err != nil {
		return nil, &invalid.Error{Field: "issuer", Value: clip.Quote(of.URL, 80), Reason: err.Error()}
	}
	client := bounded(of.Client)
	return &issuer{Issuer: of, log: log, keys: &keySet{client: client}}, nil
}

// follow finds the provider and keeps its keys until ctx ends.
func (i *issuer) follow(ctx context.Context) {
	wait := discoverFirst
	for failed := false; ; failed = true {
		err := i.discover(ctx)
		if err == nil {
			break
		}
		if !failed && ctx.Err() == nil {
			i.log.Warn("a provider of JWTs cannot be found; its JWTs are refused until it is", "issuer", i.URL,
				"error", clip.Quote(err.Error(), 300))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, discoverMost)
	}
	every(ctx, keysEvery, func() {
		if err := i.keys.fetch(ctx); err != nil && ctx.Err() == nil {
			i.log.Warn("the keys of a provider of JWTs cannot be read; those that are known hold for a while", "issuer", i.URL,
				"for", keysHold, "error", clip.Quote(err.Error(), 300))
		}
	})
}

func (i *issuer) discover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, i.keys.client), askTimeout)
	defer cancel()
	provider, err := oidc.NewProvider(ctx, i.URL)
	if err != nil {
		return err
	}
	var found struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&found); err != nil {
		return err
	}
	if found.Keys == "" {
		return errors.New("it names no jwks_uri")
	}
	u, err := url.Parse(found.Keys)
	if err == nil {
		err = private(u)
	}
	if err != nil {
		return fmt.Errorf("its jwks_uri %s: %w", clip.Quote(found.Keys, 80), err)
	}
	i.keys.url = found.Keys
	if err := i.keys.fetch(ctx); err != nil {
		return err
	}
	i.verifier.Store(oidc.NewVerifier(i.URL, i.keys, &oidc.Config{
		ClientID: i.Audience, SupportedSigningAlgs: algorithms,
		SkipExpiryCheck: true, // it allows no leeway for exp, and 5 minutes for nbf: see checkTimes
	}))
	return nil
}

// subjectName is the name of the subject of a value of the claim.
func (i *issuer) subjectName(value string) string { return ByOIDC + i.Name + "#" + value }

// private says whether nobody on the way can put other keys in place of those at a URL.
func private(u *url.URL) error {
	if u.Scheme == "https" {
		return nil
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && ip.Unmap().IsLoopback()) {
		return nil
	}
	return errors.New("must begin with https://, as on the way others could put keys of theirs in place; http:// is for " +
		"this machine")
}

// bounded is a client whose answers are short and come soon, and which is not sent where others could change them.
func bounded(c *http.Client) *http.Client {
	if c == nil {
		c = http.DefaultClient
	}
	own := *c
	own.Transport = shortAnswers{c.Transport}
	own.CheckRedirect = func(next *http.Request, before []*http.Request) error {
		if err := private(next.URL); err != nil {
			return fmt.Errorf("it sends to %s: %w", next.URL.Redacted(), err)
		}
		if len(before) >= 10 {
			return errors.New("it sends from one address to the next more than 10 times")
		}
		return nil
	}
	if own.Timeout == 0 || own.Timeout > askTimeout {
		own.Timeout = askTimeout
	}
	return &own
}

const maxAnswer = 1 << 20

type shortAnswers struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s shortAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	next := s.next
	if next == nil {
		next = http.DefaultTransport
	}
	answer, err := next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if answer.ContentLength > maxAnswer {
		_ = answer.Body.Close()
		return nil, fmt.Errorf("the answer has %d bytes, the limit is %d", answer.ContentLength, maxAnswer)
	}
	answer.Body = http.MaxBytesReader(nil, answer.Body, maxAnswer)
	return answer, nil
}
