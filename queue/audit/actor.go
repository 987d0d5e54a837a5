package audit

import (
	"context"
	"unicode"
	"unicode/utf8"

	"github.com/penstock/penstock/queue/invalid"
)

// MaxActorBytes is the maximum length of a field of an Actor.
const MaxActorBytes = 128

// Actor identifies who makes a change, for the records. It grants nothing: the caller that made the Actor has already
// decided whether the change is allowed.
type Actor struct {
	// Name is the proven identity, such as "token:4f1c", "cert:billing.acme.example", "oidc:ci@acme" or "unix:1000".
	// It is empty if authentication is off.
	Name string `json:"name,omitempty"`
	// App is the app that the actor acts for; empty for the operator.
	App string `json:"app,omitempty"`
	// Token is the id of the actor's token, if any.
	Token string `json:"token,omitempty"`
	// Address is where the request came from. Request and Operation identify it.
	Address   string `json:"address,omitempty"`
	Request   string `json:"request,omitempty"`
	Operation string `json:"operation,omitempty"`
	// Note is the name the caller claims. Nothing verifies it.
	Note string `json:"note,omitempty"`
}

type actorKey struct{}

// WithActor returns a context whose calls record a as their actor.
//
// The actor is in the context because it belongs to the request, not to the change. Code that knows the caller sets it
// once, and the layers in between need not pass it on.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// WithNote is WithActor for a caller of whom only the note is known.
func WithNote(ctx context.Context, note string) context.Context {
	return WithActor(ctx, Actor{Note: note})
}

// ActorOf returns the context's actor, or the zero Actor. Its error is an *invalid.Error.
func ActorOf(ctx context.Context) (Actor, error) {
	a, _ := ctx.Value(actorKey{}).(Actor)
	return a, a.Validate()
}

// HasActor reports whether the context has an actor.
func HasActor(ctx context.Context) bool { return ctx.Value(actorKey{}) != nil }

// Validate checks that each field is short and printable. Its error is an *invalid.Error.
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

// ValidateNote checks an Actor's note. Its error is an *invalid.Error.
func ValidateNote(note string) error { return validateActorField("by", note) }

func validateActorField(field, value string) error {
	if len(value) > MaxActorBytes {
		return invalid.Errorf(field, value, "has %d bytes, the limit is %d", len(value), MaxActorBytes)
	}
	if !utf8.ValidString(value) {
		return invalid.Errorf(field, value, "is not UTF-8")
	}
	for _, c := range value {
		if unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) { // could disguise a name
			return invalid.Errorf(field, value, "has a control or invisible character")
		}
	}
	return nil
}
