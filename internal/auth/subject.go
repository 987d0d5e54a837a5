package auth

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue/invalid"
)

// KindSubject is the kind of document that a Subject is, by its name.
const KindSubject = "subject"

// Ways in other than by token, each the beginning of a subject's name.
const (
	// ByCertificate is "cert:NAME": a URI or DNS name of a verified certificate of a client, or, if it has neither, its
	// common name.
	ByCertificate = "cert:"
	// ByOIDC is "oidc:PROVIDER#VALUE": a value of the claim that the provider's Issuer names, such as the subject.
	ByOIDC = "oidc:"
	// ByUnix is "unix:UID": a user at the other end of a Unix socket.
	ByUnix = "unix:"
)

// Subject is what somebody may do who proves who he is without a token.
type Subject struct {
	Name    string    `json:"name"`
	App     string    `json:"app,omitempty"` // empty is the operator's
	Grants  []Grant   `json:"grants"`
	Note    string    `json:"note,omitempty"`
	Expires time.Time `json:"expires,omitzero"` // zero is never
	Created time.Time `json:"created,omitzero"`
	Creator string    `json:"creator,omitempty"`
	// AppCreated is when its app was, see App.Created.
	AppCreated time.Time `json:"app_created,omitzero"`
	// Revision is that of its document, set by what reads it.
	Revision int64 `json:"-"`
	// New is whether PutSubject made it, set by that.
	New bool `json:"-"`
}

// ValidateSubjectName checks the name of a subject. Its error is an *invalid.Error.
func ValidateSubjectName(name string) error {
	doc := document.Document{Kind: KindSubject, Name: name}
	for _, way := range []string{ByCertificate, ByOIDC, ByUnix} {
		rest, ok := strings.CutPrefix(name, way)
		provider, value, both := strings.Cut(rest, "#")
		switch way {
		case ByOIDC:
			ok = ok && both && provider != "" && value != ""
		case ByUnix:
			uid, err := strconv.ParseUint(rest, 10, 32)
			ok = ok && err == nil && strconv.FormatUint(uid, 10) == rest
		}
		if ok && rest != "" && doc.Validate() == nil {
			return nil
		}
	}
	return &invalid.Error{
		Field: "name", Value: clip.Quote(name, 80),
		Reason: fmt.Sprintf("must be cert:NAME, oidc:PROVIDER#VALUE or unix:UID, at most %d visible ASCII characters",
			document.MaxNameBytes),
	}
}

func (s *Subject) validate(app *App, now time.Time) error {
	if err := ValidateSubjectName(s.Name); err != nil {
		return err
	}
	if err := validateGrants(s.Grants, app); err != nil {
		return err
	}
	if err := validateExpires(s.Expires, now); err != nil {
		return err
	}
	return validateNote(s.Note)
}

// ended reports whether it lets nobody in any more.
func (s *Subject) ended(now time.Time) bool { return !s.Expires.IsZero() && !now.Before(s.Expires) }
