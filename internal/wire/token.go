package wire

import (
	"time"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/queue/unit"
)

// Token is what is known of a token. Its secret, and the digest of that, are not.
type Token struct {
	ID  string `json:"id"`
	App string `json:"app,omitempty"` // empty is the operator's
	// Grants are what it may do.
	Grants  []auth.Grant `json:"grants"`
	Created time.Time    `json:"created"`
	Expires *time.Time   `json:"expires,omitempty"` // nil is never
	Creator string       `json:"creator,omitempty"`
	// LastUsed is the day, such as 2026-01-02, on which it was used last; empty if that is not known.
	LastUsed string `json:"last_used,omitempty"`
	Note     string `json:"note,omitempty"`
	// ReplacedBy is the token that a rotation made in its place.
	ReplacedBy string `json:"replaced_by,omitempty"`
	// SessionOf is the token, or the subject, that it stands for if it is a session.
	SessionOf string `json:"session_of,omitempty"`
	Revision  int64  `json:"revision"`
}

// MadeToken is a token that was just made.
type MadeToken struct {
	// Secret is what its holder sends. It is shown this once.
	Secret string `json:"secret"`
	Token
}

// Tokens is a page of the list of tokens.
type Tokens struct {
	Tokens []Token `json:"tokens"`
	Next   string  `json:"next,omitempty"`
}

// TokenRequest asks for a token.
type TokenRequest struct {
	App    string       `json:"app,omitempty"` // empty is that of who asks
	Grants []auth.Grant `json:"grants"`
	// ExpiresIn is for how long it holds; 0 is for ever.
	ExpiresIn unit.Duration `json:"expires_in,omitzero"`
	Note      string        `json:"note,omitempty"`
}

// Rotation asks for a token in place of another one.
type Rotation struct {
	// Keep is for how long the other one goes on; 0 ends it at once.
	Keep unit.Duration `json:"keep,omitzero"`
}

// Subject is somebody who proves who he is in another way than by a token.
type Subject struct {
	auth.Subject
	Revision int64 `json:"revision"`
}

// Subjects is a page of the list of subjects.
type Subjects struct {
	Subjects []Subject `json:"subjects"`
	Next     string    `json:"next,omitempty"`
}

// Whoami is who sent a request.
type Whoami struct {
	// Name is who he was proven to be; empty if nobody is asked.
	Name  string `json:"name,omitempty"`
	App   string `json:"app,omitempty"`
	Token string `json:"token,omitempty"`
	// Session is the id of the session that he signed in for; empty if he shows the token itself.
	Session string `json:"session,omitempty"`
	// Grants are what he may do, and Prefixes, of an app, the names that are its own.
	Grants   []auth.Grant `json:"grants"`
	Prefixes []string     `json:"prefixes,omitempty"`
	// Auth is "off" if nobody is asked who he is.
	Auth string `json:"auth,omitempty"`
}
