package wire

import (
	"time"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/queue/unit"
)

// Token is a token without its secret and digest.
type Token struct {
	ID  string `json:"id"`
	App string `json:"app,omitempty"` // empty for operators
	// Grants are the token's permissions.
	Grants  []auth.Grant `json:"grants"`
	Created time.Time    `json:"created"`
	Expires *time.Time   `json:"expires,omitempty"` // nil means never
	Creator string       `json:"creator,omitempty"`
	// LastUsed is the day of the last use, such as 2026-01-02; empty if unknown.
	LastUsed string `json:"last_used,omitempty"`
	Note     string `json:"note,omitempty"`
	// ReplacedBy is the token that replaced it in a rotation.
	ReplacedBy string `json:"replaced_by,omitempty"`
	// SessionOf is the token or subject that a session belongs to.
	SessionOf string `json:"session_of,omitempty"`
	Revision  int64  `json:"revision"`
}

// MadeToken is a new token.
type MadeToken struct {
	// Secret is what the holder sends. It is shown only once.
	Secret string `json:"secret"`
	Token
}

// Tokens is a page of tokens.
type Tokens struct {
	Tokens []Token `json:"tokens"`
	Next   string  `json:"next,omitempty"`
}

// TokenRequest is a request for a new token.
type TokenRequest struct {
	App    string       `json:"app,omitempty"` // empty means the caller's own
	Grants []auth.Grant `json:"grants"`
	// ExpiresIn is the token's lifetime; 0 means no expiry.
	ExpiresIn unit.Duration `json:"expires_in,omitzero"`
	Note      string        `json:"note,omitempty"`
}

// Rotation is a request to replace a token.
type Rotation struct {
	// Keep is how long the old token keeps working; 0 ends it immediately.
	Keep unit.Duration `json:"keep,omitzero"`
}

// Subject is an external identity: a certificate, a JWT or a Unix user.
type Subject struct {
	auth.Subject
	Revision int64 `json:"revision"`
}

// Subjects is a page of subjects.
type Subjects struct {
	Subjects []Subject `json:"subjects"`
	Next     string    `json:"next,omitempty"`
}

// Whoami is the identity of the caller.
type Whoami struct {
	// Name is the authenticated name; empty without authentication.
	Name  string `json:"name,omitempty"`
	App   string `json:"app,omitempty"`
	Token string `json:"token,omitempty"`
	// Session is the id of the caller's session; empty if the caller sends the token itself.
	Session string `json:"session,omitempty"`
	// Grants are the caller's permissions. Prefixes are the names that belong to the caller's app.
	Grants   []auth.Grant `json:"grants"`
	Prefixes []string     `json:"prefixes,omitempty"`
	// Auth is "off" without authentication.
	Auth string `json:"auth,omitempty"`
}
