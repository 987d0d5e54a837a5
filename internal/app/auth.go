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

// AuthFlags are those of a process that asks who sends a request.
type AuthFlags struct {
	NoAuth       bool
	OIDCIssuer   []string `name:"oidc-issuer" placeholder:"NAME=URL"`
	OIDCAudience string   `name:"oidc-audience" placeholder:"TEXT" help:"Whom these JWTs must be for."`
	OIDCClaim    string   `name:"oidc-claim" placeholder:"NAME"`
}

// LongHelp is the help that is too long for the tags.
func (AuthFlags) LongHelp() map[string]string {
	return map[string]string{
		"no-auth": "Ask nobody who he is: whoever reaches the API may do everything. For trials, and on loopback " +
			"alone.",
		"oidc-issuer": "A provider whose JWTs are taken (OIDC), and what its subjects are named by; https, whose " +
			"authorities the system has, or SSL_CERT_FILE. May be repeated.",
		"oidc-claim": "The claim of theirs that names a subject, a text or a list of such; by default sub.",
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
		return nil, errors.New("--oidc-audience and --oidc-claim are of JWTs: give --oidc-issuer too")
	case len(f.OIDCIssuer) > 0 && f.OIDCAudience == "":
		return nil, errors.New("--oidc-issuer needs --oidc-audience: without one, JWTs that are for others would be taken")
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

// Allowed says whether a listener may ask as few as the flags say.
func (f *AuthFlags) Allowed(l ops.Listen) error {
	if !f.NoAuth || l.Local() {
		return nil
	}
	return ops.Misuse(fmt.Errorf("--no-auth: --listen %s can be reached from other machines, and whoever does could "+
		"change everything; leave it out, or listen on 127.0.0.1", l.Addr))
}

// Authority says who sends requests; nil if nobody is asked.
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
