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

// KindSubject is the kind of document of a Subject.
const KindSubject = "subject"

// Ways to authenticate without a token, each the beginning of a subject's name.
const (
	// ByCertificate is "cert:NAME": a URI or DNS name of a verified client certificate, or its common name if it has
	// neither.
	ByCertificate = "cert:"
	// ByOIDC is "oidc:PROVIDER#VALUE": a value of the claim that the Issuer names.
	ByOIDC = "oidc:"
	// ByUnix is "unix:UID": the user at the other end of a Unix socket.
	ByUnix = "unix:"
)

// Subject has the permissions of an external identity.
type Subject struct {
	Name    string    `json:"name"`
	App     string    `json:"app,omitempty"` // empty for operators
	Grants  []Grant   `json:"grants"`
	Note    string    `json:"note,omitempty"`
	Expires time.Time `json:"expires,omitzero"` // zero means never
	Created time.Time `json:"created,omitzero"`
	Creator string    `json:"creator,omitempty"`
	// AppCreated is App.Created of its app.
	AppCreated time.Time `json:"app_created,omitzero"`
	// Revision is the revision of the document. It is set when the document is read.
	Revision int64 `json:"-"`
	// New is set by PutSubject if it created the subject.
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

// ended reports whether the subject has expired.
func (s *Subject) ended(now time.Time) bool { return !s.Expires.IsZero() && !now.Before(s.Expires) }
