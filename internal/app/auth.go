package app

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue/invalid"
)

// AuthFlags set how requests are authenticated.
type AuthFlags struct {
	NoAuth       bool
	OIDCIssuer   []string `name:"oidc-issuer" placeholder:"NAME=URL"`
	OIDCAudience string   `name:"oidc-audience" placeholder:"TEXT" help:"Audience that these JWTs must name."`
	OIDCClaim    string   `name:"oidc-claim" placeholder:"NAME"`
}

// LongHelp implements longHelper.
func (AuthFlags) LongHelp() map[string]string {
	return map[string]string{
		"no-auth": "Disable authentication. Anyone who can reach the API has full access. For trials, on loopback only.",
		"oidc-issuer": "OIDC provider whose JWTs are accepted, and the name that its subjects begin with. The URL is " +
			"https; certificate authorities are the system's, or in SSL_CERT_FILE. May be repeated.",
		"oidc-claim": "Claim of these JWTs that names the subject, a string or a list of strings (default sub).",
	}
}

// Validate is called by the parser.
func (f *AuthFlags) Validate() error {
	_, err := f.issuers()
	return err
}

func (f *AuthFlags) issuers() (all []auth.Issuer, err error) {
	switch {
	case len(f.OIDCIssuer) == 0 && (f.OIDCAudience != "" || f.OIDCClaim != ""):
		return nil, errors.New("--oidc-issuer is missing: --oidc-audience and --oidc-claim need it")
	case len(f.OIDCIssuer) > 0 && f.OIDCAudience == "":
		return nil, errors.New("--oidc-issuer needs --oidc-audience: otherwise JWTs for other services would be accepted")
	}
	for _, given := range f.OIDCIssuer {
		name, url, ok := strings.Cut(given, "=")
		if !ok || name == "" || url == "" {
			return nil, fmt.Errorf("--oidc-issuer %s: must be NAME=URL, such as cluster=https://oidc.example.com", given)
		}
		all = append(all, auth.Issuer{Name: name, URL: url, Audience: f.OIDCAudience, Claim: f.OIDCClaim})
	}
	return all, nil
}

// Allowed returns an error if the flags disable authentication on a listener that other machines can reach.
func (f *AuthFlags) Allowed(l ops.Listen) error {
	if !f.NoAuth || l.Local() {
		return nil
	}
	return ops.Misuse(fmt.Errorf("--no-auth: --listen %s is reachable from other machines, which would have full access; "+
		"leave --no-auth out, or listen on 127.0.0.1", l.Addr))
}

// Authority returns the authority that authenticates requests; nil if authentication is disabled.
func (f *AuthFlags) Authority(store document.Documents, log *slog.Logger) (*auth.Authority, error) {
	if f.NoAuth {
		return nil, nil
	}
	issuers, err := f.issuers()
	if err != nil {
		return nil, ops.Misuse(err)
	}
	a, err := auth.New(store, auth.Options{Issuers: issuers, Log: log})
	var field *invalid.Error
	if errors.As(err, &field) {
		err = ops.Misuse(fmt.Errorf("--oidc-issuer: %w", err))
	}
	return a, err
}
