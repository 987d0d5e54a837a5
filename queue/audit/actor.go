package audit

import (
	"context"
	"unicode"
	"unicode/utf8"

	"github.com/penstock/penstock/queue/invalid"
)

// MaxActorBytes is the longest field of an Actor.
const MaxActorBytes = 128

// Actor is who makes a change, for the records of it. It decides nothing: whether the change is allowed was decided by
// whoever made the Actor.
type Actor struct {
	// Name is who it was proven to be, such as "token:4f1c", "cert:billing.acme.example", "oidc:ci@acme" or
	// "unix:1000". It is empty where nobody was asked.
	Name string `json:"name,omitempty"`
	// App is the app that he acts for, empty for the operator.
	App string `json:"app,omitempty"`
	// Token is the id of the token that he came with, if it was one.
	Token string `json:"token,omitempty"`
	// Address is where the request came from, and Request and Operation are which one it was.
	Address   string `json:"address,omitempty"`
	Request   string `json:"request,omitempty"`
	Operation string `json:"operation,omitempty"`
	// Note is what the caller says of himself. Nothing verifies it.
	Note string `json:"note,omitempty"`
}

type actorKey struct{}

// WithActor says who makes the changes whose calls get the context: what they record has it.
//
// It is in the context because it is of the request and not of the change: whoever knows
// the caller puts it there once, and what stands between need not pass it on.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// WithNote is WithActor for somebody of whom nothing is known but his note.
func WithNote(ctx context.Context, note string) context.Context {
	return WithActor(ctx, Actor{Note: note})
}

// ActorOf returns who makes a change, the zero Actor if nobody said. Its error is an *invalid.Error.
func ActorOf(ctx context.Context) (Actor, error) {
	a, _ := ctx.Value(actorKey{}).(Actor)
	return a, a.Validate()
}

// HasActor reports whether somebody said who makes the changes.
func HasActor(ctx context.Context) bool { return ctx.Value(actorKey{}) != nil }

// Validate checks that each field is short, and shows what it is. Its error is an *invalid.Error.
func (a *Actor) Validate() error {
	if err := ValidateNote(a.Note); err != nil {
		return err
	}
	for _, f := range []struct{ field, value string }{
		{"actor", a.Name},
		{"app", a.App},
		{"token", a.Token},
		{"address", a.Address},
		{"request", a.Request},
		{"operation", a.Operation},
	} {
		if err := validateActorField(f.field, f.value); err != nil {
			return err
		}
	}
	return nil
}

// ValidateNote checks a note of who makes a change. Its error is an *invalid.Error.
func ValidateNote(note string) error { return validateActorField("by", note) }

func validateActorField(field, value string) error {
	if len(value) > MaxActorBytes {
		return invalid.Errorf(field, value, "has %d bytes, the limit is %d", len(value), MaxActorBytes)
	}
	if !utf8.ValidString(value) {
		return invalid.Errorf(field, value, "is not UTF-8")
	}
	for _, c := range value {
		if unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) { // what would show another name than there is
			return invalid.Errorf(field, value, "has a control character, or one that is not seen")
		}
	}
	return nil
}
