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
	// Name is part of the names of its subjects: oidc:NAME#VALUE.
	Name string
	// URL is the issuer as in JWTs. Its keys are found by discovery.
	URL string
	// Audience is the required audience of JWTs.
	Audience string
	// Claim is the claim whose value, or values, name the subject. The default is "sub".
	Claim string
	// Client sends requests to the provider. Nil means http.DefaultClient.
	Client *http.Client
}

// Timing of requests to providers.
const (
	askTimeout = 10 * time.Second
	// keysEvery is how long a key may stay valid here after its provider has withdrawn it.
	keysEvery = 5 * time.Minute
	// keysHold is how long keys stay valid while the provider does not answer.
	keysHold = time.Hour
	// keysGap is the least time between two requests for unknown keys, however many JWTs name some.
	keysGap = 10 * time.Second
	// discoverFirst is the delay before discovery is retried. It doubles up to discoverMost.
	discoverFirst = time.Second
	discoverMost  = time.Minute
)

// algorithms are the accepted signature algorithms. All use key pairs. A JWT with a shared secret or no signature is
// refused, whatever the provider announces.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// issuer is the state of a provider.
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
			Field: "issuer", Value: clip.Quote(of.URL, 80), Reason: "must be the URL in its JWTs' claim iss",
		}
	}
	if of.Audience == "" {
		return nil, &invalid.Error{
			Field: "audience", Reason: "is empty: JWTs for other services would be accepted; name this service",
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

// follow discovers the provider and keeps its keys up to date until ctx ends.
func (i *issuer) follow(ctx context.Context) {
	wait := discoverFirst
	for failed := false; ; failed = true {
		err := i.discover(ctx)
		if err == nil {
			break
		}
		if !failed && ctx.Err() == nil {
			i.log.Warn("discovery of a JWT provider failed; its JWTs are refused until it succeeds", "issuer", i.URL,
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
			i.log.Warn("the keys of a JWT provider cannot be fetched; the known keys stay valid for a while", "issuer", i.URL,
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
		return errors.New("it has no jwks_uri")
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

// subjectName returns the subject name for a value of the claim.
func (i *issuer) subjectName(value string) string { return ByOIDC + i.Name + "#" + value }

// private returns an error if others on the network could replace keys at a URL.
func private(u *url.URL) error {
	if u.Scheme == "https" {
		return nil
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && ip.Unmap().IsLoopback()) {
		return nil
	}
	return errors.New("must begin with https://, or others on the network could replace the keys; http:// is only for " +
		"this machine")
}

// bounded returns a client with limits on time, size and redirects. It does not follow redirects to URLs that are not
// private.
func bounded(c *http.Client) *http.Client {
	if c == nil {
		c = http.DefaultClient
	}
	own := *c
	own.Transport = shortAnswers{c.Transport}
	own.CheckRedirect = func(next *http.Request, before []*http.Request) error {
		if err := private(next.URL); err != nil {
			return fmt.Errorf("it redirects to %s: %w", next.URL.Redacted(), err)
		}
		if len(before) >= 10 {
			return errors.New("it redirects more than 10 times")
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
